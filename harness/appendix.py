"""`python -m harness.appendix`: another name of `parallax appendix`."""

import sys

from harness.cli.hyperparameter_tables import print_appendix

if __name__ == "__main__":
    sys.exit(print_appendix())
