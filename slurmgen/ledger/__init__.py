"""What this machine remembers of submissions, in files of the user's state folder.

Read ledger, then request, which decodes what was asked for.
"""
