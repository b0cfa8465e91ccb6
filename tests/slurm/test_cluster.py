"""The loopback cluster that the other tests here stand on."""

import subprocess
import time

from tests.slurm_cluster.cluster import SlurmCluster
from tests.slurm_cluster.daemons import find_descendants, find_socket_owners, is_running, read_pid


def run_on_cluster(cluster, *command):
    return subprocess.run(
        command, env=cluster.environment(), capture_output=True, text=True, timeout=60
    ).stdout


def wait_until(condition, patience=60):
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, "gave up waiting"
        time.sleep(0.1)


def test_jobs_run_on_every_node(cluster):
    output = run_on_cluster(cluster, "srun", "--nodes=2", "sh", "-c", "echo $SLURMD_NODENAME")
    assert sorted(output.split()) == ["n1", "n2"]


def test_controller_and_node_survive_being_killed(cluster):
    run_on_cluster(cluster, "sbatch", "--wrap=sleep 1000", "--output=/dev/null", "--nodelist=n1")
    wait_until(
        lambda: run_on_cluster(cluster, "squeue", "--noheader", "--format=%T").strip() == "RUNNING"
    )
    wait_until(lambda: find_socket_owners(cluster.layout.spool / "n1"))
    cluster.kill_controller()
    cluster.start_controller()
    wait_until(
        lambda: run_on_cluster(cluster, "squeue", "--noheader", "--format=%T").strip() == "RUNNING"
    )
    running = find_descendants(find_socket_owners(cluster.layout.spool / "n1"))
    assert any(map(is_running, running))
    cluster.kill_node("n1", steps=True)
    wait_until(lambda: not any(map(is_running, running)), patience=10)
    cluster.start_node("n1")
    assert read_pid(cluster.layout.pid_file("slurmd.n1"))


def test_nothing_is_left_after_the_end(scratch):
    with SlurmCluster(scratch, nodes=1) as cluster:
        run_on_cluster(cluster, "sbatch", "--wrap=sleep 1000", "--output=/dev/null")

        def of_it():
            daemons = {int(path.read_text()) for path in cluster.layout.run.glob("*.pid")}
            return daemons | find_descendants(find_socket_owners(cluster.layout.spool))

        wait_until(lambda: len(of_it()) >= 5)  # the job's own come last
        pids = of_it()
    wait_until(lambda: not any(map(is_running, pids)), patience=10)
