"""What stands in `harness.cli.errors`, under its former name."""

from harness.cli.errors import HANDLED, RunsFailed, exit_code

__all__ = ["HANDLED", "RunsFailed", "exit_code"]
