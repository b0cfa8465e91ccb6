"""Errors as users read them."""

import sys

from harness.contract.fields import SpecError


class RunsFailed(Exception):  # noqa: N818
    """Some runs of a sweep did not complete; each was reported when it ended."""


HANDLED = (RunsFailed, SpecError, KeyboardInterrupt)
"""What is told in a sentence; anything else is a fault of ours and keeps its traceback."""


def exit_code(error: BaseException) -> int:
    """Prints one message and returns the exit code that goes with it."""
    if isinstance(error, KeyboardInterrupt):
        print("Interrupted. The same command runs again what is not complete.", file=sys.stderr)
        return 130
    # Names of files can hold bytes that are no text.
    said = str(error).encode(errors="backslashreplace").decode()
    if isinstance(error, RunsFailed):
        print(f"Not complete: {said}", file=sys.stderr)
        return 1
    print(f"Error: {said}", file=sys.stderr)
    return 2
