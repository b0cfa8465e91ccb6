"""Munge, by which the parts of a cluster recognise each other."""

import os
import secrets
from collections.abc import Mapping

from slurm.cluster_config import Layout
from slurm.daemons import start


def start_munge(layout: Layout, programs: Mapping[str, str]) -> None:
    """Starts a munge daemon of its own, with a key of its own."""
    key = layout.root / "munge.key"
    if not key.exists():
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
    options = {
        "key-file": key,
        "socket": layout.munge_socket,
        "pid-file": layout.pid_file("munged"),
        "log-file": layout.logs / "munged.log",
        "seed-file": layout.state / "munge.seed",
        "num-threads": 10,
    }
    arguments = [f"--{name}={value}" for name, value in options.items()]
    command = [programs["munged"], "--force", *arguments]
    start(command, os.environ, layout.pid_file("munged"))
