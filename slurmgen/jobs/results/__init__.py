"""Fetch what a job wrote, from a remote host that is not trusted."""
