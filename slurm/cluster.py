"""A real Slurm cluster on this machine, for tests: every daemon on loopback, under one folder.

    with Cluster(Path("/tmp/lab"), nodes=2) as cluster:
        subprocess.run(["sinfo"], env=cluster.environment())

Works as root and as an ordinary user, without systemd and beside an installed Slurm.
"""

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from types import TracebackType

from slurm.cluster_config import Layout, slurm_config
from slurm.cluster_database import start_database
from slurm.daemons import (
    DaemonError,
    descendants,
    find_programs,
    kill,
    read_pid,
    socket_owners,
    start,
    stop,
    wait_for,
)
from slurm.munge import start_munge
from slurm.ports import free_ports


class Cluster:
    """Starts and stops munge, the controller, node daemons and, if asked, the database."""

    def __init__(
        self,
        root: Path,
        nodes: int = 2,
        *,
        accounting: bool = False,
        cpus: int = 4,
        options: tuple[str, ...] = (),
    ) -> None:
        """Describes a cluster; nothing is started yet.

        Args:
            root: Folder for keys, sockets, logs and state. Sockets limit its length to
                about 80 characters.
            nodes: Number of node daemons.
            accounting: Whether `sacct` answers; takes MariaDB and some ten seconds more.
            cpus: Processors that each node claims to have.
            options: Further lines for `slurm.conf`.
        """
        port = free_ports(nodes + 3)
        self.layout = Layout(root.absolute(), nodes, accounting, cpus, options, port)
        self._programs, self._missing = find_programs(accounting=accounting)

    def __enter__(self) -> "Cluster":
        """Starts the cluster."""
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops it."""
        self.stop()

    def environment(self) -> dict[str, str]:
        """This process's environment, pointed at the cluster."""
        return os.environ | {"SLURM_CONF": str(self.layout.config)}

    def start(self) -> None:
        """Starts everything and waits until every node is idle.

        Raises:
            DaemonError: A program is missing or does not come up; says which and why.
        """
        if self._missing:
            raise DaemonError(f"not installed: {', '.join(self._missing)}")
        layout = self.layout
        for folder in (layout.root, layout.run, layout.logs, layout.state, layout.spool):
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        layout.config.write_text(slurm_config(layout))
        start_munge(layout, self._programs)
        if layout.accounting:
            start_database(layout, self._programs, self.environment())
        self.start_controller()
        for node in layout.node_names:
            self.start_node(node)
        wait_for(self._is_idle, f"nodes are not idle: see {layout.logs}", 120)

    def stop(self) -> None:
        """Cancels all jobs and ends every daemon that was started, by its process id."""
        if self.layout.pid_file("slurmctld").exists():
            command = ["scancel", "--user", self.layout.user]
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(command, env=self.environment(), capture_output=True, timeout=20)
        steps = descendants(socket_owners(self.layout.spool))
        stop([self.layout.pid_file(f"slurmd.{node}") for node in self.layout.node_names])
        for pid in steps - descendants({os.getpid()}):
            kill(pid)
        for name in ("slurmctld", "slurmdbd", "mariadbd", "munged"):
            stop([self.layout.pid_file(name)])

    def start_controller(self) -> None:
        """Starts slurmctld, also after it was killed."""
        pid_file = self.layout.pid_file("slurmctld")
        start([self._programs["slurmctld"]], self.environment(), pid_file)

    def start_node(self, node: str) -> None:
        """Starts the daemon of one node, also after it was killed."""
        pid_file = self.layout.pid_file(f"slurmd.{node}")
        start([self._programs["slurmd"], "-N", node], self.environment(), pid_file)

    def kill_controller(self) -> None:
        """Kills slurmctld without warning."""
        kill(read_pid(self.layout.pid_file("slurmctld")) or 0)

    def kill_node(self, node: str, *, steps: bool) -> None:
        """Kills a node's daemon without warning, with or without what runs on the node."""
        running = descendants(socket_owners(self.layout.spool / node)) if steps else set()
        daemon = read_pid(self.layout.pid_file(f"slurmd.{node}"))
        victims = {daemon} | running if daemon else running
        # Stopped first: a node that loses its power does not report the end of its processes.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in victims:
                kill(pid, number)

    def _is_idle(self) -> bool:
        command = ["sinfo", "--noheader", "--Node", "--format=%T"]
        result = subprocess.run(command, env=self.environment(), capture_output=True, text=True)
        return result.stdout.split() == ["idle"] * self.layout.nodes
