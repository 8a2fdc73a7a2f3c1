"""What a user's program is, read from its files; it is never imported or run.

Read `framework` first (how a program starts its ranks), then `of_request` (the program of a job), `target`
(what the argument of a command names), `checks` (what contradicts a plan, and what brings PyTorch) and
`entry_points` (the programs of a folder).
"""
