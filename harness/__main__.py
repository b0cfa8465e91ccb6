"""`python -m harness ...`: `parallax ...`, and without a command's name `parallax train ...`."""

import sys

from harness.cli.parallax import main, names

if __name__ == "__main__":
    words = sys.argv[1:]
    # No word of a sweep is a command: those hold an equals sign, or begin with a dash or a ~.
    sys.exit(main(words if words[:1] and words[0] in names() else ["train", *words]))
