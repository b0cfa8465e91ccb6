import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest
from sweep_testbed import SweepTestbed

from parallax.slurm import arrays
from tests.slurm_cluster.cluster import SlurmCluster
from tests.slurm_cluster.daemons import find_programs


@pytest.fixture(autouse=True)
def _short_names(request, monkeypatch):
    """Lets tests name arrays as they like; their names end in eight random digits otherwise."""
    if "constants" not in request.node.name:  # which compares the pattern itself
        monkeypatch.setattr(arrays, "_NAME", re.compile(r"[\w-]{1,120}"))


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
    """Two nodes and small arrays, without accounting: `sacct` does not answer."""
    # On a busy machine a run takes a while to write why it ends.
    with SlurmCluster(scratch / "testbed", options=("MaxArraySize=5", "KillWait=15")) as running:
        yield running


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    testbed = SweepTestbed(tmp_path_factory.mktemp("status"))
    testbed.order("go")
    testbed.sweep("algorithm=ppo", "seed=0")
    return testbed


@pytest.fixture
def folder(complete, tmp_path):
    copy = tmp_path / "seed=0"
    shutil.copytree(complete.folder("ppo-0"), copy)
    return copy
