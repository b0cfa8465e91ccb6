"""`python -m harness.cli COMMAND ...`: `parallax COMMAND ...` where its script is not at hand."""

import sys

from harness.cli.parallax import main

if __name__ == "__main__":
    sys.exit(main())
