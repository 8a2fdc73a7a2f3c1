"""Sites: their profiles, checks of profiles, and the node and limits of a job."""
