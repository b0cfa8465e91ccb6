"""Sweeps of the same runs that race each other while their processes are killed and stopped."""

import os
import random
import re
import signal
import subprocess
import sys
import time

import pytest
from processes import adopting, descendants, reap, send
from sweep_testbed import SWEEP, SweepTestbed, wait_until

SECONDS = float(os.environ.get("PARALLAX_RACE_SECONDS", "600"))
SEED = int(os.environ.get("PARALLAX_RACE_SEED", "0"))
SEEDS = int(os.environ.get("PARALLAX_RACE_RUNS", "40"))
RUNS = ["algorithm=ppo", f"seed={','.join(map(str, range(SEEDS)))}"]
KEYS = [f"ppo-{seed}" for seed in range(SEEDS)]
WORKERS = re.compile(r"harness\.(worker|forkserver)")
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)
FILES = re.compile(r"run\.json|(evaluations|policy)\.npz|trace\.parquet|log(\.\d+)?\.txt")


def start_sweep(testbed, *arguments):
    where = f"results_dir={testbed.results}"
    return subprocess.Popen(
        [sys.executable, "-m", "parallax", "train", "--multirun", *SWEEP, where, *arguments],
        env=testbed.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


# One sweep that hangs, and one that overtakes it


@pytest.mark.long  # tests/harness/sweep tells it of one pair of sweeps
def test_sweep_does_not_change_runs_completed_by_another(tmp_path):
    testbed = SweepTestbed(tmp_path)
    others = ["ppo-1", "ppo-2", "ppo-3"]
    testbed.order("go", *others)
    with adopting():
        slow = start_sweep(testbed, "algorithm=ppo", "seed=0,1,2,3", "hydra.launcher.n_jobs=1")
        wait_until(lambda: testbed.beats("ppo-0"))
        assert "3 completed" in testbed.sweep(
            "algorithm=ppo", "seed=1,2,3", "hydra.launcher.n_jobs=1"
        )
        before = {key: snapshot(testbed.folder(key)) for key in others}
        testbed.order("go", "ppo-0")
        _, errors = slow.communicate(timeout=120)
    assert {key: snapshot(testbed.folder(key)) for key in others} == before
    assert all(len(testbed.trainings(key)) == 2 for key in [*others, "ppo-0"])
    assert slow.returncode == 0, errors
    assert testbed.record("ppo-0")["status"] == "completed"


def snapshot(folder):
    """Names, bytes and times of all files of a run."""
    return {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


# Two sweeps and a saboteur


class Race:
    """Keeps two sweeps of one results folder going, and strikes at their processes.

    On average it strikes once in `pace` seconds. As often as an undisturbed sweep completes a
    run is a good deal: more often, and hardly any run would get to its end.
    """

    def __init__(self, testbed, generator, pace):
        self.testbed = testbed
        self.generator = generator
        self.pace = pace
        self.strikes = dict.fromkeys(SIGNALS, 0)
        self.completed = {}  # by run: when the first completion that was seen had ended
        self._sweeps = []
        self._stopped = {}  # when each continues
        self._known = set()

    def run(self, deadline):
        """Until all runs are complete or the time is over."""
        strike_at = time.monotonic() + 2 * self.pace
        while time.monotonic() < deadline and len(self.completed) < len(KEYS):
            self._keep_going()
            self._watch()
            if time.monotonic() >= strike_at:
                self._strike()
                strike_at = time.monotonic() + self.pace * self.generator.uniform(0.1, 1.9)
            time.sleep(0.1)
        self._settle()

    def _keep_going(self):
        """Restart ended sweeps, and continue stopped processes."""
        self._sweeps = [sweep for sweep in self._sweeps if sweep.poll() is None]
        while len(self._sweeps) < 2:
            self._sweeps.append(start_sweep(self.testbed, *RUNS, "hydra.launcher.n_jobs=2"))
        for pid in [pid for pid, when in self._stopped.items() if time.monotonic() > when]:
            send(pid, signal.SIGCONT)
            del self._stopped[pid]
        self._known |= descendants().keys()
        reap(self._known - {sweep.pid for sweep in self._sweeps})

    def _watch(self):
        for key in KEYS:
            if key not in self.completed:
                try:
                    record = self.testbed.record(key)
                except OSError:
                    continue
                if record["status"] == "completed":
                    self.completed[key] = record["timings"]["ended"]

    def _strike(self):
        living = descendants()
        workers = [pid for pid, line in living.items() if WORKERS.search(line)]
        launchers = [pid for pid, line in living.items() if "--multirun" in line]
        targets = workers if workers and self.generator.random() < 0.9 else launchers
        if targets:
            number = self.generator.choice(SIGNALS)
            pid = self.generator.choice(targets)
            self.strikes[number] += 1
            if number == signal.SIGSTOP:
                self._stopped[pid] = time.monotonic() + self.generator.uniform(1, 6)
            send(pid, number)

    def _settle(self):
        """Continue all stopped processes, and terminate them."""
        for pid in self._stopped:
            send(pid, signal.SIGCONT)
        self._stopped = {}
        for sweep in self._sweeps:
            sweep.terminate()
        for sweep in self._sweeps:
            sweep.communicate(timeout=120)
        # Workers whose launchers were killed continue by themselves.
        wait_until(lambda: not self._workers(), patience=120)
        self._watch()

    def _workers(self):
        living = descendants()
        reap(self._known - living.keys())
        return [pid for pid, line in living.items() if WORKERS.search(line)]


@pytest.mark.long
def test_concurrent_sweeps_complete_every_run_once(tmp_path, capsys):
    quiet = SweepTestbed(tmp_path / "quiet")
    quiet.order("go")
    started = time.monotonic()
    quiet.sweep(*RUNS)
    pace = (time.monotonic() - started) / SEEDS
    generator = random.Random(SEED)
    deadline, number = time.monotonic() + SECONDS, 0
    while time.monotonic() < deadline:
        number += 1
        testbed = SweepTestbed(tmp_path / f"round-{number}")
        testbed.order("linger")
        with adopting():
            race = Race(testbed, generator, pace)
            race.run(deadline)
        result = testbed.call("parallax", "train", "--multirun", *finish(testbed))
        with capsys.disabled():
            print(f"\nround {number}: {describe(race, testbed)}", flush=True)
        assert result.returncode == 0, result.stdout + result.stderr
        problems = problems_of(race, testbed, quiet)
        assert not problems, "\n".join(problems)


def finish(testbed):
    testbed.order("go")
    return [*SWEEP, f"results_dir={testbed.results}", *RUNS]


def describe(race, testbed):
    strikes = ", ".join(f"{count} {number.name}" for number, count in race.strikes.items())
    begun = sum(word == "begin" for key in KEYS for word, _, _ in testbed.trainings(key))
    return f"{strikes}; {len(race.completed)} runs complete, {begun} trainings were begun"


def problems_of(race, testbed, quiet):
    """All that is not as after an undisturbed sweep."""
    problems = []
    for key in KEYS:
        record, trainings = testbed.record(key), testbed.trainings(key)
        ended = record["timings"].get("ended", 0)
        if record["status"] != "completed":
            problems.append(f"{key} is {record['status']}")
        if not any(word == "end" for word, _, _ in trainings):
            problems.append(f"{key} was never trained to its end")
        if any(attempt["status"] == "completed" for attempt in record["attempts"]):
            problems.append(f"{key} was run again although it was complete")
        if key in race.completed and race.completed[key] != ended:
            problems.append(f"{key} was complete, and later completed again")
        if any(word == "begin" and when > ended for word, _, when in trainings):
            problems.append(f"{key} was trained after it was complete")
    stray = [name for name in testbed.files() if not FILES.fullmatch(name.rpartition("/")[2])]
    problems += [f"stray file {name}" for name in stray]
    stray = [str(path) for path in testbed.results.rglob("seed=*/*") if path.is_dir()]
    problems += [f"stray folder {name}" for name in stray]
    if testbed.evaluations() != quiet.evaluations():
        problems.append("evaluations differ from those of an undisturbed sweep")
    return problems
