"""A run that ended early resumes from its last checkpoint, and records from where and why."""

import dataclasses
import hashlib
import json
import os
import shutil
import signal

import msgspec
import numpy as np
import pytest
import support
from loops import iterate_some

from parallax.envs.scripted import ENV_ID
from parallax.harness.contract.adapter import Checkpointable
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.events import TrainingError
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import (
    DEFAULT_CHECKPOINT_MINUTES,
    spec_from_dict,
    spec_to_dict,
)
from parallax.harness.contract.state_codec import StateMismatchError, StateReader, StateWriter
from parallax.harness.record.folder import RunFolder
from parallax.harness.record.lock import LockLostError, RunLock
from parallax.harness.record.reading import read_run
from parallax.harness.sweep.sweep import initialize_run
from parallax.harness.train import stop_signals as stopping
from parallax.harness.train.checkpointing import CheckpointSchedule
from parallax.harness.train.monitor import TrainingMonitor
from parallax.harness.train.prepare import prepare_run
from parallax.harness.train.run import execute_run

STEPS, ROUND = 96, 8
OFTEN = 1e-9  # minutes: every boundary


class Wanderer:
    """Learns nothing with its own and numpy's generator; may have an accident at some step."""

    def __init__(self, accident=None, at=0, has_checkpointable=True, fits=lambda state: True):
        self.accident, self.at, self.has_checkpointable, self.fits = (
            accident,
            at,
            has_checkpointable,
            fits,
        )

    def sources(self, algorithm):
        return {}

    def state(self):
        return StateReader().read(self.learner)

    def load_state(self, state):
        if not self.fits(state):
            raise StateMismatchError("on purpose")
        StateWriter().write(self.learner, state)

    def train(self, algorithm, native, context, make_env, monitor):
        np.random.seed(context.seed)
        env = make_env()
        weights = np.zeros((3, 2), np.float32)
        rng = np.random.default_rng(context.seed)
        seen, _ = env.reset(seed=context.seed)
        self.learner = {"weights": weights, "rng": rng, "taken": 0, "seen": seen}
        monitor.attach(
            lambda observations: np.tanh(observations @ self.learner["weights"]),
            lambda: {"w": self.learner["weights"].copy()},
            None,
            Checkpointable(self.state, self.load_state) if self.has_checkpointable else None,
        )
        while self.learner["taken"] < context.steps:
            monitor.safe_point()
            for _ in range(ROUND):
                if self.learner["taken"] == self.at and self.accident:
                    self.accident()
                self.step(env)
            monitor.record({"norm": float(np.square(self.learner["weights"]).sum())})

    def step(self, env):
        learner = self.learner
        action = learner["seen"][:2] + learner["rng"].normal(size=2) + np.random.normal()
        learner["seen"], reward, terminated, truncated, _ = env.step(action.astype(np.float32))
        learner["weights"] += np.float32(0.1 * reward) * learner["rng"].normal(size=(3, 2))
        learner["taken"] += 1
        if terminated or truncated:
            learner["seen"], _ = env.reset()


def a_run(tmp_path, every=OFTEN, **changes):
    spec = support.spec(env=ENV_ID, steps=STEPS, eval_every=20, checkpoint_every=every, **changes)
    prepared = prepare_run(spec, load_adapter("sb3"))
    native = dataclasses.replace(prepared.native, total_steps=STEPS)
    return dataclasses.replace(prepared, native=native), tmp_path / "run"


def go(prepared, folder, **wanderer):
    initialize_run(prepared, folder)
    with RunLock.acquire(folder) as run_lock:
        execute_run(prepared, Wanderer(**wanderer), RunFolder(run_lock))
    return read_run(folder).content


def fail():
    raise ZeroDivisionError


FILES = ("evaluations.npz", "trace.parquet", "policy.npz")


@pytest.fixture(scope="module", params=["none", "normalized"])
def wrappers(request):
    return request.param


@pytest.fixture(scope="module")
def undisturbed(wrappers, tmp_path_factory):
    prepared, folder = a_run(tmp_path_factory.mktemp("run"), every=0, wrappers=wrappers)
    content = go(prepared, folder)
    assert content["status"] == "completed" and content["resumed_from"] is None
    return content["weights_sha256"], [(folder / name).read_bytes() for name in FILES]


def result(folder):
    digest = read_run(folder).content["weights_sha256"]
    return digest, [(folder / name).read_bytes() for name in FILES]


def test_run_resumes_from_its_last_checkpoint(wrappers, undisturbed, tmp_path):
    prepared, folder = a_run(tmp_path, wrappers=wrappers)
    assert go(prepared, folder, accident=fail, at=30)["status"] == "failed"
    assert (folder / "checkpoint").is_dir()
    go(prepared, folder, accident=fail, at=61)
    content = go(prepared, folder)
    assert result(folder) == undisturbed
    assert [attempt["resumed_from"] for attempt in content["attempts"]] == [None, 24]
    assert content["resumed_from"] == 56 and content["resume_notes"] == []
    assert not (folder / "checkpoint").exists()
    assert (
        content["timings"]["seconds"] > content["timings"]["ended"] - content["timings"]["started"]
    )


def harm(folder, number):
    file = folder / "checkpoint" / f"{number}.state"
    raw = bytearray(file.read_bytes())
    raw[-40] ^= 1  # the last 32 bytes are the signature
    file.write_bytes(raw)


def newest(folder):
    return max(int(file.stem) for file in (folder / "checkpoint").glob("*.state"))


def alter(folder, number, change=lambda state: None, add=lambda pieces: None):
    """Changes a checkpoint, whose checksum then is that of what it holds."""
    file = folder / "checkpoint" / f"{number}.state"
    content = msgspec.msgpack.decode(file.read_bytes()[32:-32])
    change(content["state"])
    add(content["pieces"])
    raw = msgspec.msgpack.encode(content)
    file.write_bytes(hashlib.sha256(raw).digest() + raw)


def popen(state, words):
    """Put a tuple of a foreign type into the first dictionary of objects in `state`."""
    started = {"kind": "tuple", "class": "subprocess:Popen", "parts": list(words)}

    def replace(value):
        for item in value.values() if isinstance(value, dict) else value:
            if isinstance(item, dict) and item.get("kind") == "dict" and item["pairs"]:
                item["pairs"][0][1] = started
                return True
            if isinstance(item, dict | list) and replace(item):
                return True
        return False

    assert replace(state)


@pytest.mark.parametrize("wrappers", ["none"], scope="module", indirect=True)
class TestOddStarts:
    def test_damaged_checkpoint_is_replaced_by_the_previous_one(self, undisturbed, tmp_path):
        prepared, folder = a_run(tmp_path)
        go(prepared, folder, accident=fail, at=50)
        harm(folder, newest(folder))
        content = go(prepared, folder)
        assert content["resumed_from"] == 40 and result(folder) == undisturbed
        assert "is damaged: its checksum does not match" in content["resume_notes"][0]

    def test_two_damaged_checkpoints_restart_the_run(self, undisturbed, tmp_path):
        prepared, folder = a_run(tmp_path)
        go(prepared, folder, accident=fail, at=50)
        harm(folder, newest(folder)), harm(folder, newest(folder) - 1)
        content = go(prepared, folder)
        assert content["resumed_from"] is None and result(folder) == undisturbed
        assert len(content["resume_notes"]) == 2

    def test_mismatching_state_is_replaced_by_the_previous_one(self, undisturbed, tmp_path):
        prepared, folder = a_run(tmp_path)
        go(prepared, folder, accident=fail, at=50)
        taken = lambda state: dict(state["pairs"])["taken"]  # noqa: E731
        content = go(prepared, folder, fits=lambda state: taken(state) < 48)
        assert content["resumed_from"] == 40 and result(folder) == undisturbed
        assert "does not fit (on purpose)" in content["resume_notes"][0]

    def test_unregistered_checkpoint_type_is_not_created(self, undisturbed, tmp_path):
        prepared, folder = a_run(tmp_path)
        go(prepared, folder, accident=fail, at=50)
        mark = tmp_path / "mark"
        alter(folder, newest(folder), lambda state: popen(state, ["touch", str(mark)]))
        content = go(prepared, folder)
        assert not mark.exists()
        assert content["resumed_from"] == 40 and result(folder) == undisturbed
        assert "subprocess:Popen, which is not registered" in content["resume_notes"][1]

    def test_immediate_failure_after_resuming_uses_the_previous_checkpoint(
        self, undisturbed, tmp_path
    ):
        """A value of another type shows only where it is used."""

        def change(state):
            pairs = dict(map(tuple, state["adapter"]["pairs"]))
            pairs["taken"] = "many"
            state["adapter"]["pairs"] = [[key, value] for key, value in pairs.items()]

        prepared, folder = a_run(tmp_path)
        for altered, resumed in ((1, 40), (2, None)):
            go(prepared, folder, accident=fail, at=50)
            for number in range(altered):
                alter(folder, newest(folder) - number, change)
            content = go(prepared, folder)
            assert content["resumed_from"] == resumed and result(folder) == undisturbed
            assert len(content["resume_notes"]) == 2 * altered
            assert not content["has_foreign_checkpoint"]
            for warning in content["resume_notes"][::2]:
                assert "not written with this user's key" in warning
            for note in content["resume_notes"][1::2]:
                assert "the training failed soon after it (can only concatenate str" in note
            shutil.rmtree(folder)

    @pytest.mark.parametrize(
        ("is_altered", "at", "resumed", "when"),
        [(False, 50, 48, ""), (True, 50, 40, "soon after it"), (True, 75, None, "later")],
    )
    def test_divergence_after_another_users_checkpoint_is_not_final(
        self, is_altered, at, resumed, when, undisturbed, tmp_path
    ):
        prepared, folder = a_run(tmp_path)
        go(prepared, folder, accident=fail, at=50)
        if is_altered:
            alter(folder, newest(folder))
        errors = [TrainingError("the policy has diverged")]

        def diverge_once():
            if errors:
                raise errors.pop()

        content = go(prepared, folder, accident=diverge_once, at=at)
        if not is_altered:  # training again would end in the same way
            assert (
                content["failure"] == "the policy has diverged" and (folder / "checkpoint").exists()
            )
            return
        assert content["resumed_from"] == resumed and result(folder) == undisturbed
        assert f"failed {when} (the policy has diverged)" in content["resume_notes"][1]

    @pytest.mark.parametrize(
        ("then", "now", "is_altered", "is_own"),
        [
            ("mine", "mine", False, True),
            ("mine", "mine", True, False),
            ("mine", "other", False, False),
            ("/dev/null", "mine", False, False),  # no key can be stored
            ("mine", "/dev/null", False, False),
        ],
    )
    def test_checkpoint_of_another_user_is_reported(
        self, undisturbed, tmp_path, monkeypatch, then, now, is_altered, is_own
    ):
        prepared, folder = a_run(tmp_path)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / then))
        go(prepared, folder, accident=fail, at=50)
        if is_altered:
            alter(folder, newest(folder))
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / now))
        content = go(prepared, folder)
        assert content["resumed_from"] == 48 and result(folder) == undisturbed
        assert content["has_foreign_checkpoint"] == (not is_own)
        notes = ["was not written with this user's key" in one for one in content["resume_notes"]]
        assert notes == ([] if is_own else [True])
        for key in iterate_some(tmp_path.glob("*/parallax/checkpoint.key")):
            assert key.stat().st_mode & 0o777 == 0o600 and key.stat().st_size == 32

    def test_a_continued_checkpoint_of_another_user_is_reported(
        self, undisturbed, tmp_path, monkeypatch
    ):
        prepared, folder = a_run(tmp_path)
        for user, at in (("other", 30), ("mine", 50), ("mine", 61)):
            monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / user))
            go(prepared, folder, accident=fail, at=at)
        content = go(prepared, folder)
        assert content["resumed_from"] == 56 and result(folder) == undisturbed
        (note,) = content["resume_notes"]
        assert "continues one that was not written with this user's key" in note
        assert content["has_foreign_checkpoint"]

    def test_failure_before_or_long_after_resuming_is_not_retried(
        self, undisturbed, tmp_path, monkeypatch
    ):
        prepared, folder = a_run(tmp_path)
        go(prepared, folder, accident=fail, at=50)
        for failing in ({"accident": fail, "at": 59}, {}):
            if not failing:  # before the first step
                monkeypatch.setattr(TrainingMonitor, "make_env", lambda monitor: fail())
            content = go(prepared, folder, **failing)
            assert content["status"] == "failed" and content["resume_notes"] == []
            assert content["resumed_from"] in (48, 56)

    @pytest.mark.parametrize(
        ("name", "values"),
        [
            ("returns", [1e39, 1.0]),
            ("returns", [1j, 1.0]),
            ("lengths", [-5, 1]),
            ("lengths", [2**31, 1]),
            ("lengths", [1.5, 1.0]),
        ],
    )
    def test_evaluations_that_the_file_cannot_have_are_refused(
        self, undisturbed, tmp_path, name, values
    ):
        """Otherwise the run would be complete, and its evaluations damaged."""
        raw = np.array(values).tobytes()
        digest = hashlib.sha256(raw).digest()

        def change(state):
            state["records"][name][0] = {"\0": [np.array(values).dtype.str, [2], [digest]]}

        def add(pieces):
            number = newest(folder)
            with (folder / "checkpoint" / f"{number}.pieces").open("ab") as file:
                pieces[digest] = [number, file.tell(), len(raw)]
                file.write(raw)

        prepared, folder = a_run(tmp_path)
        go(prepared, folder, accident=fail, at=50)
        alter(folder, newest(folder), change, add)
        content = go(prepared, folder)
        assert content["resumed_from"] == 40 and result(folder) == undisturbed
        assert "its evaluations are not those until step 48" in content["resume_notes"][1]

    def test_arrays_that_no_such_training_has_are_refused(self, undisturbed, tmp_path, monkeypatch):
        """An array of equal chunks takes no place in a file."""

        def enlarge(state):
            state["policy"] = {"\0": ["|u1", [2**29], [digest] * 2**11]}

        prepared, folder = a_run(tmp_path)
        go(prepared, folder, accident=fail, at=50)
        digest = hashlib.sha256(bytes(2**18)).digest()
        (folder / "checkpoint" / "99.pieces").write_bytes(bytes(2**18))
        add = lambda pieces: pieces.update({digest: [99, 0, 2**18]})  # noqa: E731
        alter(folder, newest(folder), enlarge, add)
        content = go(prepared, folder)
        assert content["resumed_from"] == 40 and result(folder) == undisturbed
        assert "is too large: its arrays take more than 2" in content["resume_notes"][0]

    def test_other_versions_and_settings_are_refused_by_name(
        self, undisturbed, tmp_path, monkeypatch
    ):
        prepared, folder = a_run(tmp_path)
        version = "parallax.harness.train.run_identity._get_package_version"
        with monkeypatch.context() as patch:
            patch.setattr(version, lambda name: "0.1" if name == "numpy" else "1")
            go(prepared, folder, accident=fail, at=50)
        with monkeypatch.context() as patch:
            patch.setattr(version, lambda name: "1")
            content = go(prepared, folder)
        assert content["resumed_from"] is None and result(folder) == undisturbed
        assert "packages: numpy was 0.1 and is 1" in content["resume_notes"][0]

    def test_a_hyperparameter_that_differs_is_named(self, undisturbed, tmp_path):
        other, folder = a_run(tmp_path, hyperparameters={"gamma": 0.5})
        go(other, folder, accident=fail, at=50)
        shutil.move(folder / "checkpoint", tmp_path)
        shutil.rmtree(folder)
        prepared, folder = a_run(tmp_path)
        initialize_run(prepared, folder)
        shutil.move(tmp_path / "checkpoint", folder)
        content = go(prepared, folder)
        assert content["resumed_from"] is None and result(folder) == undisturbed
        now = prepared.spec.hyperparameters.gamma
        assert f"from: hyperparameters: gamma was 0.5 and is {now}" in content["resume_notes"][0]

    def test_a_lock_that_is_deleted_by_hand_is_lost(self, undisturbed, tmp_path):
        prepared, folder = a_run(tmp_path)
        with pytest.raises(LockLostError):
            go(prepared, folder, accident=lambda: shutil.rmtree(folder / ".lease"), at=30)
        assert go(prepared, folder)["status"] == "completed" and result(folder) == undisturbed

    def test_training_continues_on_a_full_disk(self, undisturbed, tmp_path, monkeypatch):
        write = RunLock.write

        def full(self, name, content):
            if name.startswith("checkpoint/") and not name.startswith("checkpoint/1."):
                raise OSError(28, "No space left on device")
            write(self, name, content)

        prepared, folder = a_run(tmp_path)
        monkeypatch.setattr(RunLock, "write", full)
        go(prepared, folder, accident=fail, at=50)
        content = read_run(folder).content
        assert "At step 16 no checkpoint could be written (No space" in content["resume_notes"][0]
        content = go(prepared, folder)
        assert content["resumed_from"] == 8 and result(folder) == undisturbed

    def test_disabled_checkpoints_store_nothing_and_restart(self, undisturbed, tmp_path):
        prepared, folder = a_run(tmp_path)
        go(prepared, folder, accident=fail, at=50)
        off, _ = a_run(tmp_path, every=0)
        assert go(off, folder)["resumed_from"] is None
        assert result(folder) == undisturbed and not (folder / "checkpoint").exists()

    def test_adapter_without_checkpoint_support_restarts_with_a_message(
        self, undisturbed, tmp_path
    ):
        prepared, folder = a_run(tmp_path)
        go(prepared, folder, accident=fail, at=50, has_checkpointable=False)
        assert not (folder / "checkpoint").exists()
        content = go(prepared, folder, has_checkpointable=False)
        assert content["resumed_from"] is None and result(folder) == undisturbed
        assert "adapter of sb3 does not hand out its state" in content["resume_notes"][0]

    def test_stop_waits_for_a_checkpoint(self, undisturbed, tmp_path):
        prepared, folder = a_run(tmp_path, every=1000)
        before = {number: signal.getsignal(number) for number in stopping.STOP_SIGNALS}
        stopping.stop_on_signals()
        try:
            with pytest.raises(KeyboardInterrupt):
                go(prepared, folder, accident=lambda: os.kill(os.getpid(), signal.SIGTERM), at=30)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        content = read_run(folder).content
        assert (content["status"], content["steps"]["taken"]) == ("interrupted", 32)
        assert go(prepared, folder)["resumed_from"] == 32 and result(folder) == undisturbed


def test_minutes_between_checkpoints_are_checked_and_identify_nothing():
    one, other = (support.spec(checkpoint_every=minutes) for minutes in (0, 2.5))
    assert one == other and one.variant == other.variant
    assert spec_from_dict(spec_to_dict(other)).checkpoint_every == 2.5
    old = spec_to_dict(one)
    del old["checkpoint_every"]
    assert spec_from_dict(old).checkpoint_every == DEFAULT_CHECKPOINT_MINUTES
    for wrong in (-1, "often", None, True, float("nan"), float("inf")):
        with pytest.raises(SpecError, match=r"checkpoint_every=.* must be a number of minutes"):
            support.spec(checkpoint_every=wrong)


def logged(folder):
    """Step, name and value of all that TensorBoard reads, in order."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    (file,) = (folder / "tensorboard").iterdir()
    return [
        (event.step, value.tag, value.tensor.float_val[0])
        for event in EventFileLoader(str(file)).Load()
        for value in event.summary.value
    ]


def test_resumed_run_logs_every_value_once(tmp_path):
    watched = {"diagnosis": {"mode": "on", "period": 8}, "logger": "tensorboard"}
    prepared, whole = a_run(tmp_path / "whole", **watched)
    go(prepared, whole)
    prepared, folder = a_run(tmp_path / "killed", **watched)
    go(prepared, folder, accident=fail, at=30)
    went_on = go(prepared, folder)
    assert went_on["resumed_from"] == 24
    names = ("norm", "episode/return", "evaluation/return")
    one, other = ([entry for entry in logged(it) if entry[1] in names] for it in (whole, folder))
    assert one == other and len(one) > len(set(names))


def wandb_records(file):
    """Contents of the records of a file of wandb's: LevelDB's log behind a head of seven bytes."""
    whole, place, pieces = file.read_bytes(), 7, b""
    while place + 7 <= len(whole):
        if (left := -place % 32768) < 7 and left:
            place += left  # too few bytes for a head are padding
            continue
        length, kind = int.from_bytes(whole[place + 4 : place + 6], "little"), whole[place + 6]
        pieces += whole[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last piece
            yield pieces
            pieces = b""


def offline_values(folder):
    """Step, name and value of all in wandb's offline files, in order of the folders."""
    from wandb.proto import wandb_internal_pb2

    values_of_all = []
    for file in sorted(folder.glob("wandb/offline-run-*/run-*.wandb")):
        for content in wandb_records(file):
            record = wandb_internal_pb2.Record.FromString(content)
            items = record.history.item if record.HasField("history") else ()
            values = {one.key or one.nested_key[0]: json.loads(one.value_json) for one in items}
            values_of_all += [
                (values["step"], name, value)
                for name, value in values.items()
                if name != "step" and not name.startswith("_")
            ]
    return values_of_all


def test_offline_wandb_files_have_all_values_once(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="an extra: pip install 'parallax-drl[wandb]'")
    monkeypatch.setenv("WANDB_MODE", "offline")
    watched = {"diagnosis": {"mode": "on", "period": 8}}
    prepared, beside = a_run(tmp_path / "beside", **watched, logger="tensorboard")
    go(prepared, beside)
    prepared, folder = a_run(tmp_path / "killed", **watched, logger="wandb")
    go(prepared, folder, accident=fail, at=30)
    assert go(prepared, folder)["resumed_from"] == 24
    assert len(list(folder.glob("wandb/offline-run-*"))) == 2
    names = ("norm", "episode/return", "evaluation/return")
    one, other = (
        [entry for entry in entries if entry[1] in names]
        for entries in (logged(beside), offline_values(folder))
    )
    assert [entry[:2] for entry in one] == [entry[:2] for entry in other]
    assert [entry[2] for entry in one] == pytest.approx([entry[2] for entry in other])
    assert len(one) > len(names)


def test_findings_before_a_resume_are_stored_and_printed_once(tmp_path, capsys):
    settings = {"mode": "on", "period": 8, "thresholds": {"no-discount": 0.5}}
    prepared, folder = a_run(tmp_path, diagnosis=settings)
    go(prepared, folder, accident=fail, at=61)
    before = json.loads((folder / "diagnosis.json").read_text())
    capsys.readouterr()
    go(prepared, folder)
    assert " no-discount " not in capsys.readouterr().out  # it has been said
    after = json.loads((folder / "diagnosis.json").read_text())
    counts = [
        {one["id"]: one["first_step"] for one in report["findings"]} for report in (before, after)
    ]
    assert counts[0] and counts[0].items() <= counts[1].items()
    assert any("restarts at step 56" in trouble for trouble in after["problems"])
    curve = after["signals"]["norm"]["curve"]
    steps = [step for step, _ in curve]
    assert steps == sorted(set(steps)) and len(steps) == STEPS // ROUND


def test_checkpoint_intervals_double_up_to_the_requested_one():
    schedule = CheckpointSchedule(60.0)
    intervals = [schedule.next_interval(0.0) for _ in range(8)]
    assert intervals == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


def test_checkpoint_that_takes_long_is_followed_by_a_longer_interval():
    schedule = CheckpointSchedule(1200.0)
    assert schedule.next_interval(0.5) == 50.0
    assert schedule.next_interval(100.0) == 1200.0
