"""`python -m harness.probes ...`: `parallax probe ...`."""

import sys

from harness.probes.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
