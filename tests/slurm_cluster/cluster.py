"""A real Slurm cluster on this machine, for tests: every daemon on loopback, under one folder.

    with Cluster(Path("/tmp/cluster"), nodes=2) as cluster:
        subprocess.run(["sinfo"], env=cluster.environment())

Works as root and as an ordinary user, without systemd and beside an installed Slurm. Munge, by
which the parts recognise each other, and the database behind `sacct` are its own as well.
"""

import contextlib
import dataclasses
import getpass
import os
import platform
import secrets
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.slurm_cluster.daemons import (
    DaemonError,
    find_descendants,
    find_free_ports,
    find_programs,
    find_socket_owners,
    is_running,
    kill_process,
    read_pid,
    start_daemon,
    stop_daemons,
    wait_for_condition,
)


@dataclasses.dataclass(frozen=True)
class ClusterLayout:
    """One cluster's folders, ports and names.

    Attributes:
        root: Folder that holds everything.
        nodes: Number of nodes.
        accounting: Whether there is a database for `sacct`.
        cpus: Processors that each node claims.
        options: Further lines for `slurm.conf`; they win over those here.
        port: First of `nodes` + 3 ports that are free.
    """

    root: Path
    nodes: int
    accounting: bool
    cpus: int
    options: tuple[str, ...]
    port: int

    @property
    def config(self) -> Path:
        """`slurm.conf`."""
        return self.root / "slurm.conf"

    @property
    def run(self) -> Path:
        """Sockets and process ids."""
        return self.root / "run"

    @property
    def logs(self) -> Path:
        """Logs of the daemons."""
        return self.root / "log"

    @property
    def state(self) -> Path:
        """State folder of the controller."""
        return self.root / "state"

    @property
    def spool(self) -> Path:
        """Working files of the node daemons, a folder each."""
        return self.root / "spool"

    @property
    def munge_socket(self) -> Path:
        """Socket of munge."""
        return self.run / "munge.socket"

    @property
    def user(self) -> str:
        """User of all daemons."""
        return getpass.getuser()

    @property
    def node_names(self) -> list[str]:
        """Names of the nodes."""
        return [f"n{number}" for number in range(1, self.nodes + 1)]

    def pid_file(self, daemon: str) -> Path:
        """Return the file with the process id of a daemon."""
        return self.run / f"{daemon}.pid"


def render_slurm_config(layout: ClusterLayout) -> str:
    """The text of `slurm.conf`."""
    host = platform.node().partition(".")[0]
    first, last = layout.port + 3, layout.port + 2 + layout.nodes
    names = layout.node_names[0] if layout.nodes == 1 else f"n[1-{layout.nodes}]"
    ports = str(first) if layout.nodes == 1 else f"[{first}-{last}]"
    lines = [
        "ClusterName=loopback",
        f"SlurmctldHost={host}(127.0.0.1)",
        f"SlurmctldPort={layout.port}",
        f"SlurmUser={layout.user}",
        f"SlurmdUser={layout.user}",
        "AuthType=auth/munge",
        # A requeued job waits until its credential has expired: two minutes by default.
        f"AuthInfo=socket={layout.munge_socket},cred_expire=5",
        "CredType=cred/munge",
        f"StateSaveLocation={layout.state}",
        f"SlurmctldPidFile={layout.pid_file('slurmctld')}",
        f"SlurmctldLogFile={layout.logs}/slurmctld.log",
        f"SlurmdSpoolDir={layout.spool}/%n",
        f"SlurmdPidFile={layout.pid_file('slurmd.%n')}",
        f"SlurmdLogFile={layout.logs}/slurmd.%n.log",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "SwitchType=switch/none",
        "MpiDefault=none",
        "JobAcctGatherType=jobacct_gather/none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_CPU_Memory",
        "SlurmdParameters=config_overrides",
        "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny",
        "SchedulerType=sched/backfill",
        "SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000",
        "ReturnToService=2",
        "SlurmctldTimeout=30",
        "SlurmdTimeout=10",
        "KillWait=5",
        "MinJobAge=60000",
        *_render_accounting(layout),
        *layout.options,
        f"NodeName={names} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports} "
        f"CPUs={layout.cpus} RealMemory=64000 State=UNKNOWN",
        f"PartitionName=main Nodes={names} Default=YES MaxTime=INFINITE DefMemPerCPU=100 State=UP",
    ]
    return "\n".join(lines) + "\n"


def render_database_config(layout: ClusterLayout) -> str:
    """The text of `slurmdbd.conf`."""
    lines = [
        "AuthType=auth/munge",
        f"AuthInfo=socket={layout.munge_socket}",
        "DbdHost=localhost",
        "DbdAddr=127.0.0.1",
        f"DbdPort={layout.port + 1}",
        f"SlurmUser={layout.user}",
        f"PidFile={layout.pid_file('slurmdbd')}",
        f"LogFile={layout.logs}/slurmdbd.log",
        "StorageType=accounting_storage/mysql",
        "StorageHost=127.0.0.1",
        f"StoragePort={layout.port + 2}",
        "StorageUser=slurm",
        "StoragePass=slurm",
        "StorageLoc=slurm",
    ]
    return "\n".join(lines) + "\n"


def _render_accounting(layout: ClusterLayout) -> list[str]:
    if not layout.accounting:
        return ["AccountingStorageType=accounting_storage/none"]
    return [
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=127.0.0.1",
        f"AccountingStoragePort={layout.port + 1}",
        f"AccountingStoragePass={layout.munge_socket}",
    ]


_DATABASE_SETUP = """
CREATE DATABASE IF NOT EXISTS slurm;
CREATE USER IF NOT EXISTS 'slurm'@'127.0.0.1' IDENTIFIED BY 'slurm';
CREATE USER IF NOT EXISTS 'slurm'@'localhost' IDENTIFIED BY 'slurm';
GRANT ALL ON slurm.* TO 'slurm'@'127.0.0.1';
GRANT ALL ON slurm.* TO 'slurm'@'localhost';
"""


def start_database(
    layout: ClusterLayout, programs: Mapping[str, str], environment: Mapping[str, str]
) -> None:
    """Starts MariaDB with an empty database, then slurmdbd.

    Raises:
        DaemonError: One of them did not come up.
    """
    data = layout.root / "database"
    # Its sockets and files must not depend on what the machine's own MariaDB is set to.
    common = ["--no-defaults", f"--datadir={data}", f"--user={layout.user}"]
    if not data.exists():
        install = [programs["mariadb-install-db"], *common, "--skip-test-db"]
        _run_command([*install, "--auth-root-authentication-method=normal"], None)
    server = [
        programs["mariadbd"],
        *common,
        f"--socket={layout.run}/mariadb.socket",
        f"--pid-file={layout.pid_file('mariadbd')}",
        "--bind-address=127.0.0.1",
        f"--port={layout.port + 2}",
        "--skip-name-resolve=OFF",
        "--innodb-flush-log-at-trx-commit=2",
    ]
    log = (layout.logs / "mariadbd.log").open("ab")
    process = subprocess.Popen(server, stdout=log, stderr=log, start_new_session=True)
    client = ["mariadb", "--no-defaults", f"--socket={layout.run}/mariadb.socket", "--user=root"]
    wait_for_condition(
        lambda: process.poll() is not None or _is_answering([*client, "--execute=SELECT 1"]),
        "MariaDB does not answer",
    )
    if process.poll() is not None:
        raise DaemonError(f"MariaDB ended: see {layout.logs}/mariadbd.log")
    _run_command(client, _DATABASE_SETUP)
    config = layout.root / "slurmdbd.conf"
    config.touch(mode=0o600)
    config.write_text(render_database_config(layout))
    start_daemon([programs["slurmdbd"]], environment, layout.pid_file("slurmdbd"))
    register = ["sacctmgr", "--immediate", "add", "cluster", "loopback"]
    wait_for_condition(
        lambda: (
            is_running(read_pid(layout.pid_file("slurmdbd")) or 0)
            and (_is_answering(["sacctmgr", "list", "cluster"], environment))
        ),
        "slurmdbd does not answer",
    )
    # It is there already where the database was started before.
    subprocess.run(register, env=dict(environment), capture_output=True, timeout=30)


def _is_answering(command: list[str], environment: Mapping[str, str] | None = None) -> bool:
    env = dict(environment) if environment else None
    return not subprocess.run(command, env=env, capture_output=True, timeout=30).returncode


def _run_command(command: list[str], text: str | None) -> None:
    result = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)
    if result.returncode:
        raise DaemonError(f"{command[0]}: {(result.stderr or result.stdout).strip()[-500:]}")


def start_munge(layout: ClusterLayout, programs: Mapping[str, str]) -> None:
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
    start_daemon(command, os.environ, layout.pid_file("munged"))


class SlurmCluster:
    """Starts and stops munge, the controller, node daemons and, on request, the database."""

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
        port = find_free_ports(nodes + 3)
        self.layout = ClusterLayout(root.absolute(), nodes, accounting, cpus, options, port)
        self._programs, self._missing = find_programs(accounting=accounting)

    def __enter__(self) -> "SlurmCluster":
        """Starts the cluster."""
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
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
        layout.config.write_text(render_slurm_config(layout))
        start_munge(layout, self._programs)
        if layout.accounting:
            start_database(layout, self._programs, self.environment())
        self.start_controller()
        for node in layout.node_names:
            self.start_node(node)
        wait_for_condition(self._is_idle, f"nodes are not idle: see {layout.logs}", 120)

    def stop(self) -> None:
        """Cancels all jobs and ends every daemon that was started, by its process id."""
        if self.layout.pid_file("slurmctld").exists():
            command = ["scancel", "--user", self.layout.user]
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(command, env=self.environment(), capture_output=True, timeout=20)
        steps = find_descendants(find_socket_owners(self.layout.spool))
        stop_daemons([self.layout.pid_file(f"slurmd.{node}") for node in self.layout.node_names])
        for pid in steps - find_descendants({os.getpid()}):
            kill_process(pid)
        for name in ("slurmctld", "slurmdbd", "mariadbd", "munged"):
            stop_daemons([self.layout.pid_file(name)])

    def start_controller(self) -> None:
        """Starts slurmctld, also after it was killed."""
        pid_file = self.layout.pid_file("slurmctld")
        start_daemon([self._programs["slurmctld"]], self.environment(), pid_file)

    def start_node(self, node: str) -> None:
        """Starts the daemon of one node, also after it was killed."""
        pid_file = self.layout.pid_file(f"slurmd.{node}")
        start_daemon([self._programs["slurmd"], "-N", node], self.environment(), pid_file)

    def kill_controller(self) -> None:
        """Kills slurmctld without warning."""
        kill_process(read_pid(self.layout.pid_file("slurmctld")) or 0)

    def kill_node(self, node: str, *, steps: bool) -> None:
        """Kills a node's daemon without warning, with or without what runs on the node."""
        running = find_descendants(find_socket_owners(self.layout.spool / node)) if steps else set()
        daemon = read_pid(self.layout.pid_file(f"slurmd.{node}"))
        victims = {daemon} | running if daemon else running
        # Stopped first: a node that loses its power does not report the end of its processes.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in victims:
                kill_process(pid, number)

    def _is_idle(self) -> bool:
        command = ["sinfo", "--noheader", "--Node", "--format=%T"]
        result = subprocess.run(command, env=self.environment(), capture_output=True, text=True)
        return result.stdout.split() == ["idle"] * self.layout.nodes
