"""`python -m harness.alignment`: another name of `parallax alignment`."""

import sys

from harness.cli.hyperparameter_tables import print_alignment

if __name__ == "__main__":
    sys.exit(print_alignment())
