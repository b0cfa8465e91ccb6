"""`python -m parallax.harness.cli COMMAND ...`: `parallax COMMAND ...` where its script is not at hand."""

import sys

from parallax.harness.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
