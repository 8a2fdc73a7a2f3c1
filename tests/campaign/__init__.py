"""A fault campaign over all commands that follow a submission.

`oracle` judges a reply against the truth. `world` is a real Slurm behind a real sshd, which tells the truth.
`faults` break something between them; `commands` are what a user types meanwhile. `python -m tests.campaign`
makes trials, each with a number by which it can be repeated; docs/reliability.md has a result.
"""
