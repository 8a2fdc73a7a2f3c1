"""The gate of a job of `submit --first`: its script waits for it, and without it runs no program."""

GATE_SECONDS = 600
"""Seconds that the script waits for its gate. Only a client that was stopped needs so long to open one: it
looks for a start at least every half minute. What the job waits counts as used time."""
SHUT = 76
"Exit status of a script whose gate was not opened."
FILE = "gate"
"The name of the gate, a link to one of these two words, in the folder of the records of a submission."
OPEN, CLOSED = "open", "closed"
