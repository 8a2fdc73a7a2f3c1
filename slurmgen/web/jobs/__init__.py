"""The pages of jobs.

Read routes, board and rows, then poller, job and actions.
"""
