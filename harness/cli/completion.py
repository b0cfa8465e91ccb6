"""Completion in shells: names of commands here, values of `parallax train` by Hydra.

`eval "$(parallax train -sc install=bash)"` installs Hydra's function, which asks
`parallax -sc query=bash` with the line in the environment.
"""

import os
from collections.abc import Iterable, Sequence


def complete(arguments: Sequence[str], names: Iterable[str]) -> int:
    """Prints what the last word of the line may become, where anything is known of it.

    Args:
        arguments: What the shell's function passes on: whose answer in which form.
        names: Names of commands.
    """
    line = os.environ.get("COMP_LINE", "")
    program, *words = line.split(" ")
    if words[:1] == ["train"] and len(words) > 1:
        from harness.cli.train import main as train

        os.environ["COMP_LINE"] = " ".join([program, *words[1:]])
        return train(arguments)
    if len(words) == 1:
        print(*(name for name in names if name.startswith(words[0])), sep="\n")
    return 0
