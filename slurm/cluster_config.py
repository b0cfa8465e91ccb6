"""Where a loopback cluster keeps its files, and the texts of its configuration."""

import dataclasses
import getpass
import platform
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Layout:
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
        """What the controller remembers."""
        return self.root / "state"

    @property
    def spool(self) -> Path:
        """Working files of the node daemons, a folder each."""
        return self.root / "spool"

    @property
    def munge_socket(self) -> Path:
        """Where munge listens."""
        return self.run / "munge.socket"

    @property
    def user(self) -> str:
        """Whom all daemons run as."""
        return getpass.getuser()

    @property
    def node_names(self) -> list[str]:
        """Names of the nodes."""
        return [f"n{number}" for number in range(1, self.nodes + 1)]

    def pid_file(self, daemon: str) -> Path:
        """Where a daemon's process id is."""
        return self.run / f"{daemon}.pid"


def slurm_config(layout: Layout) -> str:
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
        *_accounting(layout),
        *layout.options,
        f"NodeName={names} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports} "
        f"CPUs={layout.cpus} RealMemory=64000 State=UNKNOWN",
        f"PartitionName=main Nodes={names} Default=YES MaxTime=INFINITE DefMemPerCPU=100 State=UP",
    ]
    return "\n".join(lines) + "\n"


def database_config(layout: Layout) -> str:
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


def _accounting(layout: Layout) -> list[str]:
    if not layout.accounting:
        return ["AccountingStorageType=accounting_storage/none"]
    return [
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=127.0.0.1",
        f"AccountingStoragePort={layout.port + 1}",
        f"AccountingStoragePass={layout.munge_socket}",
    ]
