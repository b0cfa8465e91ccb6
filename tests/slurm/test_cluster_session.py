"""`python -m tests.slurm_cluster`: a cluster until Ctrl-C, or for one command."""

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sweep_testbed import wait_until

from tests.slurm_cluster.__main__ import main
from tests.slurm_cluster.daemons import is_running

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "tests.slurm_cluster"]


@pytest.fixture
def open_cluster(scratch):
    """Starts the command in a folder; what it left running is stopped in the end."""
    started = []

    def start(*arguments):
        process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        process.wait(60)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_cluster_runs_until_it_receives_a_stop_signal(open_cluster, scratch, number):
    folder = scratch / f"open-{number}"
    process = open_cluster("--nodes=1", "--cpus=3", "--folder", folder)
    line = process.stdout.readline().strip()
    assert line == f"export SLURM_CONF={folder}/slurm.conf"
    output = subprocess.run(
        f"{line}; sinfo --noheader --format='%N %c %T' --Node", shell=True, capture_output=True
    ).stdout
    assert output.decode().split() == ["n1", "3", "idle"]
    second = subprocess.run(
        [*COMMAND, f"--folder={folder}"], cwd=ROOT, capture_output=True, text=True
    )
    assert second.returncode == 2 and "holds a cluster that is running" in second.stderr
    pids = [int(path.read_text()) for path in folder.glob("run/*.pid")]
    assert len(pids) == 3 and all(map(is_running, pids))
    process.send_signal(number)
    assert process.wait(60) == 0
    assert "Ctrl-C here" in process.stdout.read()
    wait_until(lambda: not any(map(is_running, pids)))


def test_command_runs_inside_and_its_exit_code_is_returned(open_cluster, scratch):
    code = "import os, sys; print(os.environ['SLURM_CONF'], *sys.argv[1:]); sys.exit(7)"
    process = open_cluster("--nodes", 1, "--", sys.executable, "-c", code, "--nodes", "--", "x")
    output = process.communicate()[0].split()
    assert process.returncode == 7
    assert output[1:] == ["--nodes", "--", "x"]
    assert not Path(output[0]).parent.exists()
    missing = open_cluster("--nodes", 1, "--", "no-such-command-anywhere")
    assert "no-such-command-anywhere cannot be started" in missing.communicate()[0]
    assert missing.returncode == 127


def test_stop_signal_of_the_cluster_reaches_the_command(open_cluster, scratch):
    folder = scratch / "stopped"
    process = open_cluster(
        "--nodes=1", "--folder", folder, "--", "sh", "-c", "echo up; exec sleep 99"
    )
    assert process.stdout.readline() == "up\n"
    pids = [int(path.read_text()) for path in folder.glob("run/*.pid")]
    begun = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    assert time.monotonic() - begun < 30 and not any(map(is_running, pids))


def test_missing_slurm_error_names_the_packages(monkeypatch, capsys, tmp_path):
    missing = ({}, ["munged", "slurmctld"])
    monkeypatch.setattr("tests.slurm_cluster.session.find_programs", lambda accounting: missing)
    assert main([]) == 2
    output = capsys.readouterr().err
    assert "munged, slurmctld cannot be found" in output
    assert "apt-get install slurm-wlm munge\n" in output
    assert main(["--accounting"]) == 2
    assert "slurm-wlm munge slurmdbd mariadb-server" in capsys.readouterr().err


def test_unusable_folder_is_refused(monkeypatch, capsys, tmp_path):
    (tmp_path / "slurm.conf").write_text("ClusterName=theirs\n")
    monkeypatch.setattr("tests.slurm_cluster.session.find_programs", lambda accounting: ({}, []))
    assert main(["--folder", str(tmp_path)]) == 2
    assert "holds something else" in capsys.readouterr().err
    assert (tmp_path / "slurm.conf").read_text() == "ClusterName=theirs\n"
