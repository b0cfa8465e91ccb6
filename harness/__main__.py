"""`python -m harness`: trains one run, or with `--multirun` a sweep."""

import os
import sys

from harness import new_adapter, rerun
from harness.app import app
from harness.config_groups import register
from harness.errors import HANDLED, exit_code
from harness.stopping import stop_launcher_on_signals


def main() -> int:
    """Runs the application and words its errors for users.

    Returns:
        0 when all runs are complete, 1 when some are not, 2 for bad input, 130 for Ctrl-C.
    """
    if sys.argv[1:2] == ["rerun"]:
        return rerun.main(sys.argv[2:])
    if sys.argv[1:2] == ["probe"]:
        from harness.probes.__main__ import main as probe

        return probe(sys.argv[2:])
    if sys.argv[1:2] == ["new-adapter"]:
        return new_adapter.main(sys.argv[2:])
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
    return 0


if __name__ == "__main__":
    sys.exit(main())
