"""`parallax train`: trains one run, or with `--multirun` a sweep."""

import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Runs the Hydra application and words its errors for users.

    Returns:
        0 when all runs are complete, 1 when some are not, 2 for bad input or no input at all,
        130 for Ctrl-C.
    """
    if list(arguments) in ([], ["-h"], ["--help"]):
        from harness.cli.train_help import train_help

        print(train_help())
        # Without a word the default run would take hours that nobody asked for.
        return 0 if arguments else 2
    # Hydra reads the process' own command line.
    sys.argv[1:] = arguments
    return _train()


def _train() -> int:
    from harness.cli.app import app
    from harness.cli.config_groups import register
    from harness.cli.errors import HANDLED, exit_code
    from harness.cli.hydra_errors import REFUSALS, explain
    from harness.contract.fields import SpecError
    from harness.train.stopping import stop_launcher_on_signals

    register()
    stop_launcher_on_signals()
    if os.environ.get("HYDRA_FULL_ERROR"):
        app()
        return 0
    # Makes Hydra raise its errors instead of printing them.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        app()
    except HANDLED as error:
        return exit_code(error)
    except REFUSALS as error:
        return exit_code(SpecError(explain(error)))
    return 0
