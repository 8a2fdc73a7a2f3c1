"""A program: parse the shell text on stdin in limited time; the arguments are the module search path."""

import signal
import sys

SECONDS = 0.3
"Seconds of CPU time: enough for about 50,000 plain commands, more than the budget allows."


def main() -> None:
    """Parse and print nothing; SIGPROF ends the process after the time limit."""
    sys.path[:] = sys.argv[1:]
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    Parser(Language(tree_sitter_bash.language())).parse(sys.stdin.buffer.read())


if __name__ == "__main__":
    main()
