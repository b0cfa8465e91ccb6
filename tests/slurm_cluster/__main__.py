"""`python -m tests.slurm_cluster`: a throw-away local Slurm cluster to try commands on."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from parallax.harness.cli.main import report_error
from parallax.harness.contract.fields import SpecError
from tests.slurm_cluster.session import run_cluster_session

_MAX_SIZE = 1000  # nodes, and processors per node


def main(arguments: Sequence[str] | None = None) -> int:
    """Start a cluster until Ctrl-C, or for the time of one command.

    Returns:
        0, or the exit code of the command; 2 where the cluster cannot be started.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tests.slurm_cluster", description="Starts a throw-away local Slurm cluster."
    )
    sizes = {"type": int, "choices": range(1, _MAX_SIZE + 1), "metavar": "N"}
    parser.add_argument("--nodes", default=2, help="number of nodes (default: 2)", **sizes)
    parser.add_argument("--cpus", default=4, help="processors of each node (default: 4)", **sizes)
    parser.add_argument("--folder", type=Path, help="empty folder for its files, which stay there")
    parser.add_argument(
        "--accounting", action="store_true", help="with a database, so that sacct answers"
    )
    parser.add_argument(
        "program",
        nargs="*",
        metavar="-- COMMAND",
        help="command to run inside; without one the cluster runs until Ctrl-C",
    )
    options = parser.parse_args(arguments)
    try:
        return run_cluster_session(
            options.folder,
            options.nodes,
            options.cpus,
            accounting=options.accounting,
            command=options.program,
        )
    except SpecError as error:
        return report_error(error)


if __name__ == "__main__":
    sys.exit(main())
