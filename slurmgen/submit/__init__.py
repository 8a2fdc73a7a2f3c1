"""How a job is made, exactly once.

Read job (the one sequence), prepare, submission and exactly_once; then again and race.
"""
