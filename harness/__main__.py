"""`python -m harness ...`: `parallax ...`, and without a command's name `parallax train ...`."""

import sys

from parallax.harness.cli.main import list_command_names, main

if __name__ == "__main__":
    words = sys.argv[1:]
    # No word of a sweep is a command: those hold an equals sign, or begin with a dash or a ~.
    sys.exit(main(words if words[:1] and words[0] in list_command_names() else ["train", *words]))
