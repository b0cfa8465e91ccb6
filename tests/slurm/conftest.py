import os
import shutil
import tempfile
from pathlib import Path

import pytest

from slurm.cluster import Cluster
from slurm.daemons import find_programs


def need_slurm():
    """Skips where Slurm is missing, but fails where it has to be there."""
    missing = find_programs()[1]
    if not missing:
        return
    reason = f"Slurm is not installed here: {', '.join(missing)} (apt-get install slurm-wlm munge)"
    if os.environ.get("PARALLAX_REQUIRE_SLURM"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def scratch():
    """A folder with a short name: sockets below it must stay short."""
    need_slurm()
    folder = Path(tempfile.mkdtemp(prefix="loopback-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster(scratch):
    """Two nodes on loopback, without accounting: `sacct` does not answer."""
    with Cluster(scratch / "lab") as running:
        yield running
