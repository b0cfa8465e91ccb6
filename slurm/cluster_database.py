"""The database behind `sacct`: MariaDB and slurmdbd on loopback."""

import subprocess
from collections.abc import Mapping

from slurm.cluster_config import Layout, database_config
from slurm.daemons import DaemonError, is_running, read_pid, start, wait_for

_SETUP = """
CREATE DATABASE IF NOT EXISTS slurm;
CREATE USER IF NOT EXISTS 'slurm'@'127.0.0.1' IDENTIFIED BY 'slurm';
CREATE USER IF NOT EXISTS 'slurm'@'localhost' IDENTIFIED BY 'slurm';
GRANT ALL ON slurm.* TO 'slurm'@'127.0.0.1';
GRANT ALL ON slurm.* TO 'slurm'@'localhost';
"""


def start_database(
    layout: Layout, programs: Mapping[str, str], environment: Mapping[str, str]
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
        _run([*install, "--auth-root-authentication-method=normal"], None)
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
    wait_for(
        lambda: process.poll() is not None or _answers([*client, "--execute=SELECT 1"]),
        "MariaDB does not answer",
    )
    if process.poll() is not None:
        raise DaemonError(f"MariaDB ended: see {layout.logs}/mariadbd.log")
    _run(client, _SETUP)
    config = layout.root / "slurmdbd.conf"
    config.touch(mode=0o600)
    config.write_text(database_config(layout))
    start([programs["slurmdbd"]], environment, layout.pid_file("slurmdbd"))
    register = ["sacctmgr", "--immediate", "add", "cluster", "loopback"]
    wait_for(
        lambda: (
            is_running(read_pid(layout.pid_file("slurmdbd")) or 0)
            and (_answers(["sacctmgr", "list", "cluster"], environment))
        ),
        "slurmdbd does not answer",
    )
    # It is there already where the database was started before.
    subprocess.run(register, env=dict(environment), capture_output=True, timeout=30)


def _answers(command: list[str], environment: Mapping[str, str] | None = None) -> bool:
    env = dict(environment) if environment else None
    return not subprocess.run(command, env=env, capture_output=True, timeout=30).returncode


def _run(command: list[str], text: str | None) -> None:
    result = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)
    if result.returncode:
        raise DaemonError(f"{command[0]}: {(result.stderr or result.stdout).strip()[-500:]}")
