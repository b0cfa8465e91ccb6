"""R2D2's actors in processes: what they send, and what follows the end of one of them."""

import contextlib
import dataclasses
import os
import signal
import time

import gymnasium
import numpy as np
import pyarrow.parquet
import pytest
import support
import torch
from processes import adopting, descendants
from sweep_testbed import wait_until
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch.multiprocessing import get_start_method
from torchrl.data import Composite, OneHot
from torchrl.envs import DoubleToFloat, InitTracker
from torchrl.modules import EGreedyModule

from parallax.adapters.torchrl import TorchRLAdapter, actors
from parallax.adapters.torchrl.actors import ActorProcesses
from parallax.adapters.torchrl.r2d2 import LAG_THIRDS, build_components
from parallax.adapters.torchrl.recurrent import LastStepTransform
from parallax.envs.make import StepHook, make_training_env
from parallax.harness.contract.events import TrainingError
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import spec_from_dict, spec_to_dict
from parallax.harness.record.checkpoints import find_last_checkpoint
from parallax.harness.record.layout import EVALUATIONS_FILE
from parallax.harness.record.reading import read_run
from parallax.harness.sweep.run_process import RunProcess
from parallax.harness.sweep.sweep import initialize_run
from parallax.harness.train.prepare import prepare_run

# Each episode ends after a sequence in its middle.
SHORT = {"sequence_length": 4, "overlap": 2, "burn_in": 2, "batch_size": 8, "train_freq": 16}
SLOW = 240  # seconds that a busy machine may take


def a_spec(count=2, steps=10**6, **changes):
    values = {"env": "MemoryChain-20-v0", "n_envs": 4, "actors": count, "eval_episodes": 1}
    values |= {"eval_every": 500} | changes
    small = SHORT | {"learning_starts": 64, "actor_refresh": 4}
    return support.spec("torchrl", "r2d2", "cpu", small, steps=steps, **values)


@pytest.fixture
def start(tmp_path):
    """Start a run with two actors, and return its process and folder once it is running."""

    def begin():
        spec = a_spec()
        folder = spec.folder(tmp_path)
        initialize_run(prepare_run(spec, TorchRLAdapter()), folder)
        (folder / EVALUATIONS_FILE).unlink(missing_ok=True)
        process = RunProcess(spec, folder)
        wait_until((folder / EVALUATIONS_FILE).exists, SLOW)
        wait_until(lambda: has_checkpoint(folder), SLOW)
        return process, folder

    with adopting():
        yield begin


def has_checkpoint(folder):
    """Return whether a checkpoint was stored after the training's start."""
    last = find_last_checkpoint(folder)
    return last is not None and last.step > 0


def find_actors(process):
    found = sorted(descendants(process._process.pid).items())
    return [pid for pid, line in found if "harness.worker" in line]


def test_killed_actor_fails_the_run_and_killed_learner_ends_its_actors(start):
    process, folder = start()
    pid = process._process.pid
    victims = find_actors(process)
    assert len(victims) == 2
    os.kill(victims[1], signal.SIGKILL)
    assert process.wait(SLOW)
    run = read_run(folder).content
    assert run["status"] == "failed" and not descendants(pid)
    assert f"actor 1 of 2 (process {victims[1]}) was killed by SIGKILL" in run["failure"]

    process, _ = start()  # the same run, again
    wait_until(lambda: len(find_actors(process)) == 2, SLOW)
    assert read_run(folder).content["resumed_from"] > 0
    left = descendants(process._process.pid)
    os.kill(process._process.pid, signal.SIGKILL)
    process.wait(SLOW)
    wait_until(lambda: not left.keys() & descendants().keys(), SLOW)


def test_run_takes_all_steps_and_records_the_lag_of_actors(tmp_path):
    before = get_start_method(allow_none=True)
    folder, content = support.run(a_spec(steps=1200), tmp_path)
    assert content["status"] == "completed" and content["steps"]["taken"] == 1200
    assert content["spec"]["actors"] == 2 and get_start_method(allow_none=True) == before
    assert np.load(folder / EVALUATIONS_FILE)["timesteps"].tolist() == [500, 1000, 1200]
    rows = pyarrow.parquet.read_table(folder / "trace.parquet").to_pylist()
    found = {}
    for row in rows:
        found.setdefault(row["metric"], []).append(row["value"])
    # All episodes have 20 steps; each of the four environments may be within one.
    assert 56 <= len(found["episode/length"]) <= 60 and set(found["episode/length"]) == {20}
    assert set(found["episode/return"]) <= {-1.0, 0.0, 1.0}
    assert len(found["lag/mean"]) >= 2 and min(found["lag/mean"]) > 0
    assert max(found["lag/max"]) >= max(found["lag/stale"]) > min(found["lag/fresh"]) > 0
    # Parameters arrive: without, each sequence would be as far behind as there were updates.
    assert 0 < found["lag/actor"][-1] < 100
    names = {f"discrepancy/{place}/{third}" for place in ("first", "last") for third in LAG_THIRDS}
    assert names <= found.keys()


def test_a_stopped_run_with_actors_resumes_with_new_episodes(tmp_path):
    spec = a_spec(steps=2000, checkpoint_every=0.005)
    folder = spec.folder(tmp_path)
    prepared = prepare_run(spec, TorchRLAdapter())
    initialize_run(prepared, folder)
    process = RunProcess(spec, folder)
    wait_until(lambda: any((folder / "checkpoint").glob("*")), SLOW)
    os.kill(process._process.pid, signal.SIGTERM)
    process.wait(SLOW)
    assert read_run(folder).content["status"] == "interrupted"

    _, content = support.run(spec, tmp_path)
    assert content["status"] == "completed" and content["steps"]["taken"] == 2000
    assert 0 < content["resumed_from"] < 2000 and not content["resume_notes"]
    assert np.load(folder / EVALUATIONS_FILE)["timesteps"].tolist() == list(range(500, 2001, 500))
    rows = pyarrow.parquet.read_table(folder / "trace.parquet").to_pylist()
    lengths = [row["value"] for row in rows if row["metric"] == "episode/length"]
    # Four episodes at most end without an end where the run was stopped: no two are joined.
    assert 92 <= len(lengths) <= 100 and set(lengths) == {20}


def test_actors_resume_from_the_steps_and_parameters_of_a_checkpoint():
    made, _ = make_processes(make_env, start=(1600, 9))
    with contextlib.closing(made):
        steps, seen = zip(
            *((data.numel(), data["version"].unique().tolist()) for _, data in made), strict=True
        )
    assert sum(steps) == 400 and all(versions == [9] for versions in seen)


def make_processes(make_env, start=(0, 0)):
    prepared = prepare_run(a_spec(steps=2000), TorchRLAdapter())
    settings, context = prepared.native.settings, prepared.context
    components = build_components(settings, context.task, context.n_envs)
    explorer = TensorDictSequential(components.actor, components.exploration)
    primer = components.actor[1].make_tensordict_primer()
    transforms = InitTracker(), DoubleToFloat(), LastStepTransform(context.task.choices), primer
    hooks = [make_env() for _ in range(context.n_envs)]
    made = ActorProcesses(
        hooks, context.actors, explorer, settings, transforms, lambda: None, start
    )
    return made, components


def make_env(counts=None, **changes):
    def count():
        if counts is not None:
            counts[0] += 1

    return make_training_env(
        "MemoryChain-20-v0", wrappers="none", gamma=0.99, before_step=count, **changes
    )


def test_actors_get_parameters_with_the_number_of_their_update():
    counts = [0]
    made, components = make_processes(lambda: make_env(counts))
    with contextlib.closing(made):
        fresh, versions, firsts, calls = 0, [], set(), 0
        for module in components.network.parameters():
            module.data.fill_(0.25)
        for first, data in made:
            calls += 1
            firsts.add(first)
            versions.append((first, data["version"][0].flatten().tolist()))
            if calls == 20:
                made.send_parameters(components.network, 7)
            values = data["action_value"][data["version"].squeeze(-1) == 7]
            fresh += len(values)
            if len(values):
                last = values[-1]
        assert firsts == {0, 2} and counts[0] == 2000 == 8 * calls
    for first in (0, 2):
        seen = [v for one, each in versions if one == first for v in each]
        assert seen == sorted(seen) and {7} <= set(seen) <= {0, 7}
    assert torch.equal(last, last[:1].expand(2)) and fresh > 100


def test_shares_of_random_actions_are_those_of_all_environments():
    network, shares = torch.nn.Identity(), torch.tensor([0.1, 0.2, 0.3, 0.4])
    exploration = EGreedyModule(Composite(action=OneHot(2)), 1.0, 0.0)
    exploration.eps = shares
    network = TensorDictModule(network, in_keys=["observation"], out_keys=["action"])
    explorer = TensorDictSequential(network, exploration)
    two = [actors._make_policy(explorer, 0, first, 2)[2].eps.tolist() for first in (0, 2)]
    assert two == [pytest.approx([0.1, 0.2]), pytest.approx([0.3, 0.4])]
    assert actors._make_policy(explorer, 0, 3, 1)[2].eps.item() == pytest.approx(0.4)
    assert explorer[1].eps is shares


def test_actors_that_send_nothing_end_the_run(monkeypatch):
    class Stuck(gymnasium.Wrapper):
        def step(self, action):
            time.sleep(600)

    monkeypatch.setattr(StepHook, "silence", lambda hook: setattr(hook, "env", Stuck(hook.env)))
    with adopting():
        before = descendants().keys()  # the harness may have a server of processes already
        made, _ = make_processes(make_env)
        monkeypatch.setattr(actors, "WAIT_SECONDS", 2.0)
        with pytest.raises(TrainingError, match="no actor sent steps for 2 s"):
            next(iter(made))
        made.close()
        left = {pid: line for pid, line in descendants().items() if pid not in before}
        assert not [line for line in left.values() if "resource_tracker" not in line]


def test_an_error_in_an_actor_ends_the_run_with_its_name(monkeypatch):
    def fail(hook):
        hook._before_step = lambda: 1 / 0

    monkeypatch.setattr(StepHook, "silence", fail)
    made, _ = make_processes(make_env)
    with pytest.raises(TrainingError, match=r"actor \d of 2 \(process \d+\) ended with"):
        list(made)
    made.close()


def test_wrappers_that_only_training_has_are_refused():
    with pytest.raises(TrainingError, match="takes no wrappers around training environments"):
        make_processes(lambda: gymnasium.wrappers.TimeLimit(make_env(), 5))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_envs": 3}, "actors=2 is not available: each has the same number of environments"),
        ({"actors": 9}, "actors=9 must be"),
        ({"wrappers": "normalized"}, "one set of statistics"),
    ],
)
def test_settings_that_actors_cannot_use_are_refused(changes, message):
    with pytest.raises(SpecError, match=message):
        spec = a_spec(**{"count": changes.pop("actors", 2)}, **changes)
        unseen = dataclasses.replace(spec.hyperparameters, last_step_inputs=False)
        prepare_run(dataclasses.replace(spec, hyperparameters=unseen), TorchRLAdapter())


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("sys.platform", "darwin", "need Linux"),
        ("importlib.metadata.version", lambda name: "0.13.2", "came with torchrl 0.14"),
    ],
)
def test_systems_and_releases_that_lack_actor_support_are_refused(
    monkeypatch, place, value, message
):
    adapter = TorchRLAdapter()
    assert adapter.why_unsupported_actors("r2d2") == ""
    monkeypatch.setattr(place, value)
    assert message in adapter.why_unsupported_actors("r2d2")


def test_other_algorithms_and_one_actor_have_no_actor_setting():
    with pytest.raises(SpecError, match="actors=2 is not available: it steps its environments"):
        prepare_run(support.spec("torchrl", "dqn", actors=2, n_envs=2), TorchRLAdapter())
    one, two = (support.spec("torchrl", "r2d2", "cpu", n_envs=2, actors=n) for n in (1, 2))
    assert "actors" not in one.variant and ",actors=2" in two.variant
    assert spec_from_dict({n: v for n, v in spec_to_dict(one).items() if n != "actors"}) == one
