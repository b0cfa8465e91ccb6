"""`python -m parallax ...`: the same as `parallax ...`, where the script is not installed."""

import sys

from parallax.harness.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
