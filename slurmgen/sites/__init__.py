"""Sites: their profiles, the checks of those, and the node and limits of a job."""
