"""Sites: which node and which limits a job gets, and what is wrong with the facts of a profile."""
