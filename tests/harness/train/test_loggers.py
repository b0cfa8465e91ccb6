"""Files of other tools that a training is logged to."""

import types

import numpy as np
import pytest

from parallax.harness.contract.events import (
    EpisodeEnd,
    EvaluationResult,
    ReportedMetrics,
    TrainingEnd,
    TrainingEvents,
)
from parallax.harness.contract.fields import SpecError
from parallax.harness.record.lock import FolderDeletedError, LockLostError
from parallax.harness.train import loggers


class File:
    """A file that grows, in memory."""

    def __init__(self):
        self.content, self.is_closed = b"", False

    def write(self, content):
        self.content += content

    def state(self):
        return len(self.content)

    def load_state(self, size):
        self.content = self.content[:size]

    def close(self):
        self.is_closed = True


def make_folder(tmp_path):
    file, added = File(), {}
    return types.SimpleNamespace(
        file=file,
        path=tmp_path,
        opened=[],
        added=added,
        open_append_file=lambda name, resumes: file,
        checkpoint_extras=types.SimpleNamespace(add=added.__setitem__),
    )


def read_events(content):
    """Return the events of a file of TensorBoard: length, its checksum, event, its checksum."""
    from tensorboard.compat.proto.event_pb2 import Event

    found = []
    while content:
        size = int.from_bytes(content[:8], "little")
        found.append(Event.FromString(content[12 : 12 + size]))
        content = content[12 + size + 4 :]
    return found


@pytest.fixture
def sink(tmp_path):
    pytest.importorskip("tensorboard")
    folder = make_folder(tmp_path)
    made = loggers._TensorBoardSink(folder, resumes=False)
    return made, folder.file


def test_a_file_of_tensorboard_begins_with_its_version_and_has_all_values(sink):
    made, file = sink
    made.write(7, {"loss": 2.0, "return": -1.0})
    first, second = read_events(file.content)
    assert first.file_version == "brain.Event:2" and first.wall_time > 0
    assert second.step == 7 and second.wall_time >= first.wall_time
    values = {value.tag: value.simple_value for value in second.summary.value}
    assert values == {"loss": 2.0, "return": -1.0}
    made.close(True)
    assert file.is_closed


def test_resumed_log_file_is_truncated_at_the_checkpoint(tmp_path, sink):
    made, file = sink
    made.write(7, {"loss": 2.0})
    state = made.state()
    made.write(9, {"loss": 1.0})
    made.load_state(state)
    made.write(8, {"loss": 3.0})
    events = read_events(file.content)
    assert [event.step for event in events] == [0, 7, 8]
    assert [event.file_version for event in events] == ["brain.Event:2", "", ""]


@pytest.mark.parametrize("state", [None, 0])
def test_log_file_without_a_state_is_recreated_with_its_version(tmp_path, state):
    pytest.importorskip("tensorboard")
    folder = make_folder(tmp_path)
    made = loggers._TensorBoardSink(folder, resumes=True)
    assert folder.file.content == b""
    folder.file.content = b"of another attempt"
    made.load_state(state)
    (event,) = read_events(folder.file.content)
    assert event.file_version == "brain.Event:2"


class Sink:
    """A target that remembers what reached it, and may fail."""

    def __init__(self, error=None):
        self.written, self.error, self.closed, self.loaded = [], error, [], []

    def write(self, step, values):
        if self.error:
            raise self.error
        self.written.append((step, dict(values)))

    def state(self):
        return len(self.written)

    def load_state(self, state):
        self.loaded.append(state)

    def close(self, ended):
        self.closed.append(ended)


def make_logger(sink):
    events, said = TrainingEvents(), []
    return loggers.TrainingLogger(sink, events, said.append), events, said


def make_episode_end(**values):
    fields = EpisodeEnd.__dataclass_fields__
    return EpisodeEnd(**{name: values.get(name, 0) for name in fields})


def test_episodes_metrics_evaluations_and_signals_are_written_at_their_step():
    sink = Sink()
    logger, events, said = make_logger(sink)
    events.steps = 40
    events.publish(make_episode_end(episode_return=3.5, length=20))
    events.publish(ReportedMetrics({"loss": 0.5}))
    names = EvaluationResult.__dataclass_fields__
    values = {"returns": np.array([1.0, 2.0]), "lengths": np.array([4, 8])}
    events.publish(EvaluationResult(**{name: values.get(name, 0) for name in names}))
    logger.log_signal(40, "entropy", 0.25)
    assert sink.written == [
        (40, {"episode/return": 3.5, "episode/length": 20.0}),
        (40, {"loss": 0.5}),
        (40, {"evaluation/return": 1.5, "evaluation/length": 6.0}),
        (40, {"diagnosis/entropy": 0.25}),
    ]
    assert logger.state() == 4
    logger.load_state(3)
    assert sink.loaded == [3] and said == []


def test_a_logger_is_closed_once_and_silent_after_that():
    sink = Sink()
    logger, events, _ = make_logger(sink)
    events.publish(TrainingEnd())
    logger.close()
    logger.log_signal(1, "entropy", 0.25)
    logger.load_state(3)
    assert (sink.closed, sink.written, sink.loaded) == ([True], [], [])
    assert logger.state() is None
    other = Sink()
    make_logger(other)[0].close()
    assert other.closed == [False]


def test_failed_logger_is_reported_once_and_disabled():
    sink = Sink(ValueError("no space"))
    logger, _, said = make_logger(sink)
    logger.log_signal(1, "entropy", 0.25)
    sink.error = None
    logger.log_signal(2, "entropy", 0.5)
    assert sink.written == []
    assert said == ["The logger failed and stops writing: ValueError: no space"]


@pytest.mark.parametrize("error", [LockLostError, FolderDeletedError])
def test_lost_lock_in_a_logger_ends_the_training(monkeypatch, tmp_path, error):
    lost = error("lost")
    with pytest.raises(error):
        make_logger(Sink(lost))[0].log_signal(1, "entropy", 0.25)

    def refuse(folder, resumes):
        raise lost

    monkeypatch.setattr(loggers, "_TensorBoardSink", refuse)
    with pytest.raises(error):
        loggers.start_logging(
            "tensorboard", make_folder(tmp_path), TrainingEvents(), print, resumes=False
        )


def test_the_configured_logger_is_started_and_saved_in_checkpoints(monkeypatch, tmp_path):
    made = []

    def make(name):
        def start(folder, resumes):
            made.append((name, resumes))
            return Sink()

        return start

    monkeypatch.setattr(loggers, "_TensorBoardSink", make("tensorboard"))
    monkeypatch.setattr(loggers, "_WandbSink", make("wandb"))
    folder = make_folder(tmp_path)
    for name in ("none", "tensorboard", "wandb"):
        logger = loggers.start_logging(name, folder, TrainingEvents(), print, resumes=True)
        assert (logger is None) == (name == "none")
        assert folder.added.get(name) is logger
    assert made == [("tensorboard", True), ("wandb", True)]


def test_failed_logger_start_is_reported_and_training_continues(monkeypatch, tmp_path):
    def fail(folder, resumes):
        raise OSError("no space")

    monkeypatch.setattr(loggers, "_WandbSink", fail)
    said, folder = [], make_folder(tmp_path)
    events = TrainingEvents()
    assert loggers.start_logging("wandb", folder, events, said.append, resumes=False) is None
    assert said == ["logger=wandb cannot begin: OSError: no space"] and folder.added == {}


def test_the_package_of_a_logger_must_be_installed(monkeypatch):
    looked = []
    monkeypatch.setattr(loggers.importlib.util, "find_spec", looked.append)
    loggers.check_logger_installed("none")
    assert looked == []
    for name in ("tensorboard", "wandb"):
        with pytest.raises(SpecError, match=rf"pip install .parallax-drl\[{name}\]"):
            loggers.check_logger_installed(name)
    monkeypatch.setattr(loggers.importlib.util, "find_spec", lambda name: object())
    loggers.check_logger_installed("wandb")


class WandbRun:
    def __init__(self):
        self.logged, self.metrics = [], []

    def log(self, values):
        self.logged.append(values)

    def define_metric(self, name, step_metric=None):
        self.metrics.append((name, step_metric))


def make_wandb(monkeypatch, tmp_path, resumes):
    run, options = WandbRun(), {}

    def init(**given):
        options.update(given)
        return run

    fake = types.SimpleNamespace(init=init, Settings=lambda **given: given)
    monkeypatch.setattr(loggers.importlib, "import_module", lambda name: fake)
    return loggers._WandbSink(make_folder(tmp_path), resumes), run, options


def test_wandb_is_offline_and_resumes_the_newest_run(monkeypatch, tmp_path):
    folder = tmp_path / "a" / "b" / "c" / "d" / "e" / "f" / "g"
    for name in ("offline-run-1-old", "offline-run-2-new"):
        (folder / "wandb" / name).mkdir(parents=True)
    _, run, options = make_wandb(monkeypatch, folder, resumes=True)
    assert (options["mode"], options["id"]) == ("offline", "new")
    assert options["name"] == "b/c/d/e/f/g" and options["dir"] == str(folder)
    assert options["settings"] == {"n_without_record": True, "console": "off"}
    assert run.metrics == [("step", None), ("*", "step")]
    assert make_wandb(monkeypatch, folder, resumes=False)[2]["id"] is None


def test_values_for_wandb_wait_for_a_checkpoint_unless_there_are_too_many(monkeypatch, tmp_path):
    monkeypatch.setattr(loggers, "_MAX_BUFFERED_VALUES", 2)
    sink, run, _ = make_wandb(monkeypatch, tmp_path, resumes=False)
    sink.write(1, {"loss": 1.0})
    sink.load_state(None)  # forgets them
    for step in (2, 3):
        sink.write(step, {"loss": 1.0})
    assert run.logged == []
    sink.write(4, {"loss": 1.0})
    assert [values["step"] for values in run.logged] == [2, 3, 4]
    sink.write(5, {"loss": 1.0})
    assert sink.state() is None
    assert [values["step"] for values in run.logged] == [2, 3, 4, 5]
