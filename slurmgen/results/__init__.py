"""The files of a job: list them, and copy them to this machine.

Read fetch, then folder and archive.
"""
