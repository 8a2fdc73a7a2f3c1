"""How a node is compared with the others, and the words for it."""

from statistics import median

SLOW_LINK = 4.0
"A connection between two nodes, or two GPUs of a node, is slow below the median divided by this."
_GIB, _MIB = 1 << 30, 1 << 20


def reference(values, nodes, best):
    """The value to compare with: the median, or of two nodes, where it is between both, the better one."""
    return best(values) if len(nodes) == 2 else median(values)


def the_usual(nodes):
    """What that value is."""
    return "the better one" if len(nodes) == 2 else "the median"


def counted(count, what):
    """A number of things, such as `3 GPUs`."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def speed_text(count):
    """Bytes per second."""
    return f"{count / 1e6:.1f} MB/s"


def size_text(count):
    """Bytes."""
    return f"{count / _GIB:.2f} GiB" if count >= _GIB else f"{count / _MIB:.0f} MiB"
