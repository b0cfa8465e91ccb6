"""Requested values of a run are bounded by its task and the machine."""

import dataclasses
import types

import pytest
import support

from parallax.envs.tasks import Task, load_task
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.train import limits
from parallax.harness.train.limits import UNKNOWN_MACHINE, Machine, check_episodes, check_limits
from parallax.harness.train.prepare import prepare_run

SMALL = Machine(4, 2**33, "this machine")
TASK = load_task("InvertedPendulum-v4")


def off_policy(**changes):
    usual = {"steps": 10**12, "eval_every": 10**9, "alignment": "exact"}
    return support.spec("sb3", "td3", hyperparameters=changes, **usual)


TOO_LARGE = {
    "threads": (support.spec(threads=10**6), r"threads=1000000 .* 4 cores\. Use threads=64 or"),
    "n_envs": (
        support.spec(n_envs=10**6, steps=10**7),
        r"n_envs=1000000 .* 8.0 GiB of memory. Use n_envs=32768 or",
    ),
    "more copies than steps": (support.spec(n_envs=601), r"n_envs=601 .* Use n_envs=600 or less"),
    "eval_episodes": (support.spec(eval_episodes=2**53), r"Use eval_episodes=131072 or less"),
    "eval_every": (
        support.spec(steps=10**10, eval_every=1),
        r"10,000,000,000 evaluations .* use eval_every=10000 or more",
    ),
    "buffer_size": (
        off_policy(buffer_size=10**12),
        r"hyperparameters.buffer_size=1000000000000 .* take 14.5 TiB, .*buffer_size=536870912 or",
    ),
    "batch_size": (off_policy(batch_size=2**53), r"hyperparameters.batch_size=9007"),
    "epochs": (support.spec(hyperparameters={"epochs": 10**5 + 1}), r"epochs=100001 .*=100000 or"),
    "gradient_steps": (
        dataclasses.replace(off_policy(gradient_steps=10**6), steps=10**9, eval_every=10**6),
        r"gradient_steps=1000000 is too large: an update would hardly end",
    ),
    "burn_in": (
        support.spec("torchrl", "r2d2", hyperparameters={"burn_in": 10**9}, env="CartPole-v1"),
        r"burn_in=1000000000 is too large: the run has steps=",
    ),
    "lstm_size": (
        support.spec("torchrl", "r2d2", hyperparameters={"lstm_size": 10**5}, env="CartPole-v1"),
        r"lstm_size=100000 is too large: .* Use hyperparameters.lstm_size=11585 or less",
    ),
    "layers": (off_policy(hidden_sizes=[1] * 1001), r"hidden_sizes has 1,001 layers, .* 1,000 or"),
    "hidden_sizes": (off_policy(hidden_sizes=[10**6, 10**6]), r"use smaller layers"),
}


@pytest.mark.parametrize("what", TOO_LARGE)
def test_excessive_values_are_refused_with_the_maximum_and_an_override(what, monkeypatch):
    spec, message = TOO_LARGE[what]
    with pytest.raises(SpecError, match=message) as error:
        check_limits(spec, TASK, SMALL)
    assert "set the environment variable PARALLAX_LIMITS=off" in str(error.value)
    monkeypatch.setenv("PARALLAX_LIMITS", "off")
    check_limits(spec, TASK, SMALL)


def test_values_within_the_limits_are_accepted():
    largest = support.spec(threads=64, n_envs=600, eval_episodes=10_000)
    for spec in (support.spec(), largest, off_policy(buffer_size=10**8)):
        check_limits(spec, TASK, SMALL)
    # A buffer takes no more memory than the run's steps, but four times the memory is the limit.
    short = dataclasses.replace(off_policy(buffer_size=2**31), steps=1000, eval_every=10)
    check_limits(short, TASK, SMALL)
    longer = dataclasses.replace(off_policy(buffer_size=2**31 + 4), steps=1000, eval_every=10)
    with pytest.raises(SpecError, match=r"Use hyperparameters.buffer_size=2147483648 or less"):
        check_limits(longer, TASK, SMALL)


@pytest.mark.parametrize("name", ["epochs", "gradient_steps"])
def test_updates_that_no_record_can_count_are_refused(name):
    values = {"algorithm": "ppo" if name == "epochs" else "td3", "alignment": "exact"}
    spec = support.spec(**values, hyperparameters={name: 2**53})
    with pytest.raises(
        SpecError, match=rf"^hyperparameters\.{name}=9007199254740992 is too large: it means"
    ):
        check_limits(spec, TASK, UNKNOWN_MACHINE)


def test_a_node_that_is_not_known_yet_may_be_large():
    spec = support.spec(threads=128, n_envs=50_000, steps=10**6)
    check_limits(spec, TASK, UNKNOWN_MACHINE)
    with pytest.raises(SpecError, match="a node has 1024 cores"):
        check_limits(support.spec(threads=5000), TASK, UNKNOWN_MACHINE)


def test_bounds_are_checked_before_anything_is_created(monkeypatch):
    monkeypatch.setattr(limits.Machine, "of_this_host", classmethod(lambda cls: SMALL))
    with pytest.raises(SpecError, match="n_envs=1000000 is too large"):
        prepare_run(support.spec(n_envs=10**6, steps=10**7), load_adapter("sb3"))
    with pytest.raises(SpecError, match="episodes=1000000 is too large"):
        check_episodes(10**6)


def test_limits_of_this_machine_are_positive(monkeypatch):
    here = Machine.of_this_host()
    assert here.cores >= 1 and here.memory > 2**28
    monkeypatch.setattr(limits.os, "cpu_count", lambda: None)
    assert dataclasses.replace(here, cores=1) == Machine.of_this_host()


@dataclasses.dataclass
class Sizes:
    """Hyperparameters that need memory."""

    buffer_size: int = 10
    batch_size: int = 10
    critic_hidden_sizes: tuple[int, ...] | None = None


def make_spec(**changes):
    values = {"threads": 1, "n_envs": 1, "steps": 1000, "eval_every": 100, "eval_episodes": 1}
    values |= {"env": "A-v0", "hyperparameters": Sizes(), "algorithm": "td3", "framework": "sb3"}
    values |= {"alignment": "exact", "wrappers": "none", "device": "cpu", "actors": 1}
    return types.SimpleNamespace(**(values | changes))


FLAT = Task("A-v0", 4, (-1.0,), (1.0,), 100)  # 16 bytes
IMAGE = Task("A-v0", 16, (-1.0,), (1.0,), 100, image=(1, 4, 4))  # 16 bytes as well
TINY = Machine(20, 2**21, "this machine")
OFF = " To train nevertheless, set the environment variable PARALLAX_LIMITS=off."
ROOM = "this machine has 2.0 MiB of memory"
MEMORY = "each takes memory, and this machine has 2.0 MiB of memory. Use n_envs=8 or less."
TOGETHER = f"episodes of an evaluation are played side by side, and {ROOM}. Use eval_episodes=32 or"
BUFFER = "131,073 transitions of A-v0 take 2.0 MiB, and this machine has 2.0 MiB of memory. Use"


@pytest.mark.parametrize(
    ("most", "more", "words"),
    [
        (
            {"threads": 80},
            {"threads": 81},
            "threads=81 is too large: this machine has 20 cores. Use threads=80 or less.",
        ),
        ({"n_envs": 8}, {"n_envs": 9}, f"n_envs=9 is too large: {MEMORY}"),
        (
            {"n_envs": 3, "steps": 3, "eval_every": 1},
            {"n_envs": 4, "steps": 3},
            "n_envs=4 is too large: the run has steps=3. Use n_envs=3 or less.",
        ),
        (
            {"eval_episodes": 32},
            {"eval_episodes": 33},
            f"eval_episodes=33 is too large: {TOGETHER} less.",
        ),
        (
            {"steps": 3_000_002, "eval_every": 3},
            {"steps": 3_000_003, "eval_every": 3},
            "eval_every=3 means 1,000,001 evaluations in steps=3000003, which is too many: "
            "use eval_every=4 or more.",
        ),
        (
            {"hyperparameters": Sizes(buffer_size=2**17), "steps": 10**6, "eval_every": 10},
            {"hyperparameters": Sizes(buffer_size=2**17 + 1), "steps": 10**6, "eval_every": 10},
            f"hyperparameters.buffer_size=131073 is too large: {BUFFER} "
            "hyperparameters.buffer_size=131072 or less.",
        ),
        (
            {"hyperparameters": Sizes(batch_size=2**17)},
            {"hyperparameters": Sizes(batch_size=2**17 + 1)},
            f"hyperparameters.batch_size=131073 is too large: {BUFFER} "
            "hyperparameters.batch_size=131072 or less.",
        ),
    ],
)
@pytest.mark.parametrize("task", [FLAT, IMAGE])
def test_the_largest_value_that_fits_is_named_and_allowed(task, most, more, words):
    assert check_limits(make_spec(**most), task, TINY) is None
    with pytest.raises(SpecError) as error:
        check_limits(make_spec(**more), task, TINY)
    assert str(error.value) == words + OFF


def test_layers_that_fit_exactly_are_allowed():
    for sizes in (None, (), (256, 508)):  # 4 * 256 + 256 * 508 weights
        check_limits(make_spec(hyperparameters=Sizes(critic_hidden_sizes=sizes)), FLAT, TINY)
    sizes = Sizes(critic_hidden_sizes=(256, 509))
    with pytest.raises(SpecError) as error:
        check_limits(make_spec(hyperparameters=sizes), FLAT, TINY)
    assert str(error.value) == (
        "hyperparameters.critic_hidden_sizes=[256, 509] means 131,328 weights, which take 2.0 MiB "
        f"with their gradients and Adam's moments, and {ROOM}: use smaller layers.{OFF}"
    )


@pytest.mark.parametrize(
    ("count", "text"),
    [
        *((0, "0.0 bytes"), (1, "1.0 bytes"), (1023, "1,023.0 bytes"), (1024, "1.0 KiB")),
        *((1536, "1.5 KiB"), (2**20 - 1, "1,023.9 KiB"), (2**20, "1.0 MiB"), (2**30, "1.0 GiB")),
        *((2**40, "1.0 TiB"), (2**52, "4,096.0 TiB"), (10 * 2**1050, f"{10 * 2**1010:,}.0 TiB")),
    ],
)
def test_sizes_are_written_for_people(count, text):
    assert limits._format_bytes(count) == text


@pytest.mark.parametrize(
    ("bound", "memory"), [("max\n", 4096 * 500), ("1000\n", 1000), ("9999999\n", 4096 * 500)]
)
def test_a_process_has_the_machines_memory_or_its_groups(monkeypatch, tmp_path, bound, memory):
    sizes = {"SC_PHYS_PAGES": 500, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(limits.os, "sysconf", sizes.__getitem__)
    monkeypatch.setattr(limits.os, "cpu_count", lambda: 6)
    monkeypatch.setattr(limits, "_CGROUP", tmp_path / "memory.max")
    assert Machine.of_this_host() == Machine(6, 4096 * 500, "this machine")
    (tmp_path / "memory.max").write_text(bound)
    assert Machine.of_this_host() == Machine(6, memory, "this machine")


def test_episodes_side_by_side_are_bounded_unless_switched_off(monkeypatch):
    monkeypatch.setattr(limits.Machine, "of_this_host", classmethod(lambda cls: TINY))
    assert check_episodes(32) is None
    with pytest.raises(SpecError) as error:
        check_episodes(33)
    words = f"episodes=33 is too large: episodes are played side by side, and {ROOM}. Use "
    assert str(error.value) == f"{words}episodes=32 or less.{OFF}"
    monkeypatch.setenv("PARALLAX_LIMITS", "off")
    assert check_episodes(33) is None


def raises(words, check, *given):
    if words is None:
        assert check(*given) is None
        return
    with pytest.raises(SpecError) as error:
        check(*given)
    assert str(error.value) == words


@pytest.mark.parametrize(
    ("values", "alignment", "words"),
    [
        ({}, "exact", None),
        ({"learning_starts": 999, "rollout_steps": 1000}, "exact", None),
        ({"batch_size": 8, "buffer_size": 8}, "exact", None),
        ({"batch_size": 8}, "exact", None),
        (
            {"learning_starts": 1000},
            "exact",
            "hyperparameters.learning_starts=1000 leaves nothing to learn from in steps=1000: "
            "learning begins after 1,000 steps. Raise steps above 1000, or begin earlier, for "
            "example hyperparameters.learning_starts=100.",
        ),
        (
            {"batch_size": 9, "buffer_size": 8},
            "exact",
            "hyperparameters.buffer_size=8 stores less than a minibatch: use 9 or more, or "
            "hyperparameters.batch_size=8 or less.",
        ),
        (
            {"rollout_steps": 1001},
            "exact",
            "hyperparameters.rollout_steps=1001 is longer than the run of steps=1000, which would "
            "end before its first update. Use steps=1001 or more, or "
            "hyperparameters.rollout_steps=1000 or less.",
        ),
        (
            {"rollout_steps": 1001},
            "defaults",
            "hyperparameters.rollout_steps=1001 is longer than the run of steps=1000, which would "
            "end before its first update. Use steps=1001 or more.",
        ),
    ],
)
def test_learning_begins_before_the_run_ends(values, alignment, words):
    hyperparameters = types.SimpleNamespace(**values)
    raises(words, limits.check_length, make_spec(alignment=alignment), hyperparameters)


@pytest.mark.parametrize(
    ("updates", "policy_updates", "values", "words"),
    [
        (1, 1, {}, None),
        (0, 0, {}, "networks"),
        (1, 0, {"policy_delay": 2}, "policy with hyperparameters.policy_delay=2"),
        (
            *(0, 0, {"train_freq": 4, "learning_starts": 5, "gamma": 1.0}),
            "networks with hyperparameters.learning_starts=5 and hyperparameters.train_freq=4",
        ),
    ],
)
def test_a_run_updates_its_policy(updates, policy_updates, values, words):
    schedule = types.SimpleNamespace(total_gradient_steps=updates, policy_updates=policy_updates)
    start = "steps=1000 is too short: framework=sb3 would never update its"
    end = "Raise steps, or lower these values."
    native, hyperparameters = (
        types.SimpleNamespace(update_schedule=schedule),
        types.SimpleNamespace(**values),
    )
    said = words and f"{start} {words}. {end}"
    raises(said, limits.check_updates, make_spec(), hyperparameters, native)


@pytest.mark.parametrize(
    ("wrappers", "sees_rewards", "brightest", "words"),
    [
        ("none", True, 255, None),
        ("normalized", False, 1, None),
        (
            *("normalized", True, 1),
            "wrappers=normalized scales the rewards that are inputs of algorithm=td3 "
            "in training, but not in evaluations: use wrappers=none, or "
            "hyperparameters.last_step_inputs=false.",
        ),
        (
            *("normalized", False, 2),
            "wrappers=normalized would scale images of env=A-v0, which networks already divide by "
            "2. Use wrappers=none.",
        ),
    ],
)
def test_normalization_is_refused_where_values_are_needed(wrappers, sees_rewards, brightest, words):
    task = dataclasses.replace(FLAT, brightest=brightest)
    hyperparameters = types.SimpleNamespace(sees_rewards=sees_rewards)
    raises(words, limits.check_wrappers, make_spec(wrappers=wrappers), hyperparameters, task)


@pytest.mark.parametrize(
    ("changes", "reason", "words"),
    [
        ({"actors": 1}, "never", None),
        ({"n_envs": 4}, "", None),
        ({"n_envs": 4}, "it has one process", "it has one process"),
        ({"n_envs": 3}, "", "each has the same number of environments, and n_envs=3"),
        (
            {"n_envs": 4, "wrappers": "normalized"},
            "",
            "wrappers=normalized has one set of statistics for all environments",
        ),
    ],
)
def test_environments_are_divided_among_processes_evenly(changes, reason, words):
    adapter = types.SimpleNamespace(why_unsupported_actors=lambda algorithm: reason)
    said = words and f"actors=2 is not available: {words}. Use actors=1."
    raises(said, limits.check_actors, make_spec(**({"actors": 2} | changes)), adapter)


@pytest.mark.parametrize(
    ("is_uniform", "algorithm", "reason", "words"),
    [
        (True, "ppo", "never", None),
        (False, "td3", "", None),
        (
            *(False, "td3", "it has none"),
            "replay=per is not available for algorithm=td3 of framework=sb3: it has none. Use "
            "replay=uniform or another framework.",
        ),
        (
            *(False, "ppo", ""),
            "replay=per needs a replay buffer, but algorithm=ppo learns from its "
            "newest rollout. Use replay=uniform, or algorithm=td3 or sac or ddpg or dqn or r2d2.",
        ),
    ],
)
def test_replay_strategies_need_a_buffer_and_a_framework(is_uniform, algorithm, reason, words):
    replay = types.SimpleNamespace(is_uniform=is_uniform, name="per")
    values = support.spec(algorithm=algorithm).hyperparameters
    spec = make_spec(replay=replay, algorithm=algorithm, hyperparameters=values)
    adapter = types.SimpleNamespace(why_unsupported_replay=lambda algorithm, replay: reason)
    raises(words, limits.check_replay, spec, adapter)


@pytest.mark.parametrize(("device", "reason"), [("cpu", "never"), ("cuda", ""), ("cuda", "none")])
def test_devices_that_a_framework_cannot_use_are_refused(device, reason):
    calls = []
    adapter = types.SimpleNamespace(
        name="sb3", why_unsupported_device=lambda *given: calls.append(given) or reason
    )
    refused = device != "cpu" and reason
    words = f"device=cuda is not available to framework=sb3: {reason}" if refused else None
    raises(words, limits.check_device, make_spec(device=device), adapter, True)
    assert calls == ([] if device == "cpu" else [("td3", "cuda", True)])


@pytest.mark.parametrize(
    ("python", "on_this_machine", "here"),
    [(None, True, True), (None, False, False), ("/other", True, False)],
)
def test_devices_are_checked_in_the_interpreter_of_the_run(
    monkeypatch, python, on_this_machine, here
):
    calls = []
    for name in ("check_actions", "check_replay", "check_actors"):
        monkeypatch.setattr(limits, name, lambda *given, name=name: calls.append(name))
    monkeypatch.setattr(limits, "check_device", lambda *given: calls.append(given[-1]))
    monkeypatch.setattr(limits, "check_acceleration", lambda *given: calls.append(given[-1]))
    spec = make_spec(python=python, acceleration="none")
    limits.check_compatibility(spec, "adapter", FLAT, on_this_machine)
    assert calls == ["check_actions", "check_replay", here, here, "check_actors"]


@pytest.mark.parametrize(
    ("algorithm", "task", "words"),
    [
        ("td3", FLAT, None),
        (
            *("dqn", FLAT),
            "env=A-v0 has continuous actions, but algorithm=dqn of framework=sb3 supports discrete "
            "actions: use algorithm=ppo or td3 or sac or ddpg, or another task.",
        ),
        (
            *("td3", Task("A-v0", 4, (), (), 100, 2)),
            "env=A-v0 has discrete actions, but algorithm=td3 of framework=sb3 supports continuous "
            "actions: use algorithm=ppo or dqn, or another task.",
        ),
    ],
)
def test_algorithms_that_choose_the_tasks_actions_are_named(algorithm, task, words):
    raises(words, limits.check_actions, algorithm, load_adapter("sb3"), task)


def test_the_arrays_of_a_training_are_bounded_by_its_buffer(monkeypatch):
    flat, choices = Task("A-v0", 5, (-1.0,) * 2, (1.0,) * 2, 100), Task("B-v0", 5, (), (), 100, 7)
    picture = Task("C-v0", 3 * 84 * 84, (), (), 100, 7, (3, 84, 84), 255)
    other = limits._OTHER_STATE_BYTES
    estimate = limits.estimate_state_bytes
    for task, transition in ((flat, 80 + 8 * 22), (choices, 80 + 8 * 37), (picture, 42632)):
        assert estimate(types.SimpleNamespace(buffer_size=10), task) == other + 10 * transition
    rollouts = types.SimpleNamespace(rollout_steps=20)
    assert estimate(rollouts, flat) == other + 20 * 256
    sequences = types.SimpleNamespace(
        buffer_size=10, sequence_length=8, burn_in=3, n_step=1, overlap=4
    )
    assert estimate(sequences, flat) == other + 30 * 256
    sequences.lstm_size = 64
    assert estimate(sequences, flat) == other + 30 * (256 + 2 * 64 * 8)
    monkeypatch.setenv("PARALLAX_LIMITS", "off")
    assert estimate(rollouts, flat) == float("inf")


def test_remedy_names_another_framework_if_no_algorithm_fits(monkeypatch):
    monkeypatch.setattr(limits, "_takes_task", lambda adapter, name, task: False)
    end = "supports discrete actions: use another framework, or another task."
    words = f"env=A-v0 has continuous actions, but algorithm=dqn of framework=sb3 {end}"
    raises(words, limits.check_actions, "dqn", load_adapter("sb3"), FLAT)


def test_task_check_uses_the_first_translatable_recipe(monkeypatch):
    calls, refused = [], {"a", "b"}
    recipes = {
        name: types.SimpleNamespace(resolve_for_task=lambda task, n=name: n) for name in "abc"
    }
    monkeypatch.setattr(limits, "list_recipe_names", lambda algorithm: list(recipes))
    monkeypatch.setattr(limits, "load_recipe", lambda algorithm, name: recipes[name])

    def translate(algorithm, recipe, context):
        calls.append((recipe, context.patch_constants, context.converts_meanings))
        if recipe in refused:
            raise SpecError("refused")

    adapter = types.SimpleNamespace(translate=translate)
    assert limits._takes_task(adapter, "td3", FLAT) is True
    assert calls == [(name, True, True) for name in "abc"]
    refused.add("c")
    assert limits._takes_task(adapter, "td3", FLAT) is False
