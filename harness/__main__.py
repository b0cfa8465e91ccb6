"""`python -m harness ...`: `parallax train ...`, and some commands by the names they had here."""

import sys

from harness.cli.parallax import main

_COMMANDS = (
    *("rerun", "evaluate", "export", "video", "free"),
    *("probe", "interventions", "twins", "new-adapter", "new-algorithm"),
)


if __name__ == "__main__":
    words = sys.argv[1:]
    sys.exit(main(words if words[:1] and words[0] in _COMMANDS else ["train", *words]))
