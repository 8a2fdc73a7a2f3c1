"""How a job is made, exactly once.

Read job (the one sequence), prepare, exactly_once and submission; then again and race.
"""
