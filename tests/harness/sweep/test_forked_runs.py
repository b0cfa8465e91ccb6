"""Runs that are forked from a process that has imported everything are like any other."""

import os
import signal
import sys
import time
from pathlib import Path

import forked
import pytest
import support
from loops import iterate_some
from processes import adopting, descendants
from sweep_testbed import SWEEP, SweepTestbed, wait_until

from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.record.checkpoints import find_last_checkpoint
from parallax.harness.record.reading import read_run
from parallax.harness.sweep import forked_process as module
from parallax.harness.sweep.forked_process import ForkServerPool
from parallax.harness.sweep.run_process import RunProcess, _get_lifeline
from parallax.harness.sweep.sweep import initialize_run
from parallax.harness.train.prepare import prepare_run
from parallax.harness.train.stop_signals import STOP_SIGNALS

KEYS = ["ppo-0", "ppo-1"]
SMALL = {
    "ppo": {"rollout_steps": 64, "minibatch_size": 64},
    "td3": {"learning_starts": 70, "batch_size": 8},
}


def a_spec(framework, algorithm, seed):
    return support.spec(
        framework, algorithm, hyperparameters=SMALL[algorithm], seed=seed, steps=128, eval_every=64
    )


def run(spec, results_dir, servers=None):
    folder = spec.folder(results_dir)
    initialize_run(prepare_run(spec, load_adapter(spec.framework)), folder)
    process = RunProcess(spec, folder, servers)
    process._process.wait()
    return process, folder


# Conformance compares a run in a fork with a training in every run of the tests.
CASES = [
    pytest.param(*param.values, algorithm, marks=[*param.marks, pytest.mark.long])
    for param in support.frameworks()
    for algorithm in SMALL
]


@pytest.mark.parametrize(("framework", "algorithm"), CASES)
def test_run_is_the_same_in_a_fork(framework, algorithm, tmp_path):
    spec, other = (a_spec(framework, algorithm, seed) for seed in (3, 4))
    _, plain = run(spec, tmp_path / "plain")
    with ForkServerPool([spec, other]) as servers:
        process, copied = run(spec, tmp_path / "forked", servers)
        assert isinstance(process._process, module.ForkedProcess)
    assert process.outcome().status == "completed", process.outcome().failure
    one, two = (read_run(folder).content for folder in (plain, copied))
    assert one["weights_sha256"] == two["weights_sha256"]
    evaluations = [(folder / "evaluations.npz").read_bytes() for folder in (plain, copied)]
    assert evaluations[0] == evaluations[1]
    for name in ("packages", "threads", "executable", "sources"):
        assert one["provenance"][name] == two["provenance"][name]
    commands = [content["provenance"]["command"] for content in (one, two)]
    assert [command[0] for command in commands] == ["worker.py"] * 2
    assert commands[1][1] == str(copied)


@pytest.fixture
def testbed(tmp_path):
    forked.ready()
    with adopting():
        testbed = SweepTestbed(tmp_path)
        testbed.other_answers = set(descendants())
        yield testbed


@pytest.fixture
def sweep(testbed):
    """Two running runs of a framework that waits for orders."""
    arguments = [*SWEEP, "algorithm=ppo", "seed=0,1", f"results_dir={testbed.results}"]
    process = testbed.start(
        "parallax", "train", "--multirun", *arguments, "hydra.launcher.n_jobs=2", merged=True
    )
    wait_until(lambda: all(testbed.beats(key) for key in KEYS))
    return process


def server():
    """The process that has forked the others."""
    servers = {pid for pid, line in descendants().items() if "parallax.harness.forkserver" in line}
    (found,) = (pid for pid in servers if descendants(pid))
    return found


def test_forked_process_has_its_own_session_files_and_exit_code(sweep, testbed):
    for key in KEYS:
        pid = testbed.record(key)["pid"]
        assert os.getsid(pid) == os.getpgid(pid) == pid
        files = [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()]
        assert files.count("/dev/null") >= 1 and not [f for f in files if "socket" in f]
        assert len([name for name in files if name.endswith("log.txt")]) == 2
    for number in STOP_SIGNALS:  # which a batch system sends to all processes of a job
        os.kill(server(), number)
    os.kill(testbed.record(KEYS[0])["pid"], signal.SIGKILL)
    testbed.order("go", KEYS[1])
    said, _ = sweep.communicate(timeout=60)
    assert "killed by SIGKILL" in said and "1 completed, 1 failed" in said
    assert not descendants().keys() - testbed.other_answers


def test_runs_survive_their_server_and_not_their_sweep(sweep, testbed):
    os.kill(server(), signal.SIGKILL)
    testbed.order("go", KEYS[0])
    wait_until(lambda: read_run(testbed.folder(KEYS[0])).complete)
    sweep.kill()
    sweep.communicate(timeout=60)
    wait_until(lambda: not descendants().keys() - testbed.other_answers, patience=15)
    record = testbed.record(KEYS[1])
    assert (record["status"], record["stopped_by"]) == ("interrupted", "sweep")
    assert "or was killed" in record["failure"]


@pytest.mark.parametrize(
    "count", [pytest.param(1, marks=pytest.mark.long), 2], ids=["own process", "forked"]
)
def test_killed_sweep_leaves_runs_that_can_be_resumed_and_no_process(testbed, count):
    testbed.environment["STANDIN_RESUMES"] = "yes"
    keys = KEYS[:count]
    seeds = ",".join(key[-1] for key in keys)
    options = ["algorithm=ppo", f"seed={seeds}", "checkpoint_every=1000"]
    where = f"results_dir={testbed.results}"
    process = testbed.start("parallax", "train", "--multirun", *SWEEP, where, *options, merged=True)
    wait_until(lambda: all(testbed.beats(key) for key in keys))
    process.kill()
    process.communicate(timeout=60)
    time.sleep(1)  # until they have noticed
    testbed.order("go", *keys)  # to the next place where a state can be saved
    wait_until(lambda: not descendants().keys() - testbed.other_answers, patience=15)
    for key in keys:
        assert testbed.record(key)["status"] == "interrupted"
        assert find_last_checkpoint(testbed.folder(key)).step == 1025
    assert f"{count} completed" in testbed.sweep(*options)
    assert all(testbed.record(key)["resumed_from"] == 1025 for key in keys)


@pytest.mark.parametrize(
    ("words", "is_forked"),
    [([], True), (["+hydra.job.env_set.A=1"], False)],
    ids=["as usual", "another environment"],
)
def test_single_run_is_forked_by_a_server_of_its_environment(testbed, words, is_forked):
    where = f"results_dir={testbed.results}"
    process = testbed.start("parallax", "train", *SWEEP, where, "algorithm=ppo", "seed=0", *words)
    wait_until(lambda: testbed.beats(KEYS[0]))
    forked_by = {pid for pid, line in descendants().items() if "harness.forkserver" in line}
    assert any(descendants(pid) for pid in forked_by) is is_forked
    testbed.order("go", KEYS[0])
    said, _ = process.communicate(timeout=60)
    assert "1 run: 1 completed" in said
    assert not descendants().keys() - testbed.other_answers


def test_wrong_setting_of_a_single_run_leaves_no_server(testbed):
    words = ["algorithm=ppo", "seed=x", f"results_dir={testbed.results}"]
    result = testbed.call("parallax", "train", *SWEEP, *words)
    assert result.returncode == 2 and "seed='x'" in result.stderr
    assert not descendants().keys() - testbed.other_answers


def test_runs_of_a_job_react_to_signals_of_the_job_only(monkeypatch):
    assert _get_lifeline() is not None
    monkeypatch.setenv("PARALLAX_JOB", "7_1")
    assert _get_lifeline() is None


def test_unknown_end_of_a_process_is_reported(sweep, testbed):
    os.kill(server(), signal.SIGKILL)
    os.kill(testbed.record(KEYS[0])["pid"], signal.SIGKILL)
    testbed.order("go", KEYS[1])
    said, _ = sweep.communicate(timeout=60)
    assert "1 completed, 1 failed" in said and "started it was killed" in said


class WithThread:
    """An adapter whose imports start a thread."""

    def training_modules(self, algorithm):
        return ("a_thread",)


def test_fork_server_with_a_thread_does_not_fork(tmp_path, monkeypatch):
    (tmp_path / "a_thread.py").write_text(
        "import threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    )
    monkeypatch.setattr(module, "load_adapter", lambda name: WithThread())
    specs = [support.spec(seed=seed) for seed in (0, 1)]
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    with ForkServerPool(specs) as servers, (tmp_path / "log").open("wb") as log:
        environment = os.environ | {"PYTHONPATH": paths}
        assert servers.start(specs[0], environment, [str(tmp_path)], log) is None


def test_other_interpreters_and_single_runs_have_separate_processes(tmp_path):
    specs = [support.spec(seed=seed, python=sys.executable) for seed in (0, 1)]
    specs.append(support.spec(seed=2))
    with ForkServerPool(specs) as servers, (tmp_path / "log").open("wb") as log:
        for spec in iterate_some(specs):
            assert servers.start(spec, os.environ, [str(tmp_path)], log) is None
