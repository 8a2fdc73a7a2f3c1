"""The life of a job: submitted, followed, explained, fetched and pruned."""
