"""Settings of small trainings per framework, as text; run it to write the stored file again."""

import dataclasses
import hashlib
import json
import random
from pathlib import Path
from typing import get_args, get_origin

import support

from parallax.envs.tasks import Task, load_task
from parallax.harness.conformance.trainings import make_base_hyperparameters, replace_hyperparameter
from parallax.harness.contract.acceleration import NO_ACCELERATION
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.contract.replay import REPLAY_CONFIGS, UNIFORM_REPLAY

FRAMEWORKS = ("cleanrl", "sb3", "sbx", "skrl", "tianshou", "torchrl")
FILE = Path(__file__).with_name("native_settings.json")
CONTEXTS = {
    "plain": {},
    "exact": {"patch_constants": True, "converts_meanings": True},
    "parallel": {"n_envs": 4, "converts_meanings": True},
}
OTHER_TASKS = {
    "ppo": ("CartPole-v1", "MinAtar/Breakout-v1"),
    "dqn": ("MinAtar/Breakout-v1",),
    "td3": ("Pendulum-v1",),
    "sac": ("Pendulum-v1",),
    "ddpg": ("Pendulum-v1",),
}
"""Tasks with other actions, observations or bounds, which are described with few values."""
ATARI = Task("ALE/Pong-v5", 4 * 84 * 84, (), (), 0, 6, image=(4, 84, 84), brightest=255)
UNEVEN = Task("Uneven-v0", 4, (-1.0, -2.0), (1.0, 3.0), 1000)
MIXTURES, GROUPS = 25, 6  # of each algorithm: random values in a group, and groups


def list_variations(framework, algorithm, own):
    """Return the framework's own recipe, small trainings, and each other value by itself."""
    kind = type(own)
    first = make_base_hyperparameters(framework, algorithm)
    second = first
    for name, value in kind.conformance_variation.items():
        second = replace_hyperparameter(framework, algorithm, second, name, value) or second
    yield "own", own
    yield "original", load_recipe(algorithm, "original")
    yield "first", first
    yield "second", second
    for name, values in kind.alternatives.items():
        for value in values:
            yield f"{name}={value}", dataclasses.replace(first, **{name: value})


def list_other_tasks(algorithm, own):
    """Return further tasks of an algorithm: those that it is known for, and odd ones."""
    odd = [ATARI] if hasattr(own, "conv_filters") else []
    odd += [UNEVEN] if own.actions == "continuous" else []
    return [*map(load_task, OTHER_TASKS.get(algorithm, ())), *odd]


def list_cases(framework, algorithm):
    """Yield the name, values and context of each description; values are None for the defaults."""
    own = load_recipe(algorithm, framework)
    usual = load_task(support.ENVS[ALGORITHMS[algorithm].actions])
    for name, options in CONTEXTS.items():
        context = RunContext(usual, 10_003, seed=3, **options)
        for label, values in list_variations(framework, algorithm, own):
            yield f"{algorithm} {name} {label}", values, context
        yield f"{algorithm} {name} defaults", None, context
    gpu = RunContext(usual, 10_003, seed=3, device="cuda")
    yield f"{algorithm} gpu own", own, gpu
    first = make_base_hyperparameters(framework, algorithm)
    for task in list_other_tasks(algorithm, own):
        context = RunContext(task, 10_003, seed=3, **CONTEXTS["exact"])
        for label, values in (("own", own), ("first", first)):
            yield f"{algorithm} {task.env_id} {label}", values.resolve_for_task(task), context
        yield f"{algorithm} {task.env_id} defaults", None, context


def list_other_values(field, alternatives):
    """Return values of a field that differ, or divide others or not."""
    values = [*alternatives, *(field.metadata.get("choices") or ())]
    kinds = () if get_origin(field.type) is tuple else get_args(field.type)
    kinds = kinds or (field.type,)
    small = {int: [1, 2, 3, 4, 6], float: [0.5, 1.0], bool: [False, True]}
    return (
        values
        + next((small[kind] for kind in small if kind in kinds), [])
        + [None for kind in kinds if kind is type(None)]
    )


def list_mixtures(framework, algorithm, own, rng):
    """Yield random changes of several values at once, and contexts for them."""
    first = make_base_hyperparameters(framework, algorithm)
    bases = (own, own, first, load_recipe(algorithm, "original"))
    fields = {
        field.name: list_other_values(field, type(own).alternatives.get(field.name, ()))
        for field in dataclasses.fields(own)
    }
    names = sorted(name for name, values in fields.items() if values)
    usual = load_task(support.ENVS[ALGORITHMS[algorithm].actions])
    tasks = [usual, *list_other_tasks(algorithm, own)]
    adapter = load_adapter(framework)
    replays = [kind() for kind in REPLAY_CONFIGS.values() if hasattr(own, "buffer_size")]
    replays = [one for one in replays if not adapter.why_unsupported_replay(algorithm, one)]
    for _ in range(MIXTURES):
        chosen = rng.sample(names, rng.randint(1, rng.choice((1, 4))))
        changes = {name: rng.choice(fields[name]) for name in chosen}
        context = RunContext(
            rng.choice(tasks),
            rng.choice((10_003, 9_984, 64)),
            seed=rng.randrange(99),
            n_envs=rng.choice((1, 2, 4)),
            patch_constants=rng.random() < 0.7,
            converts_meanings=rng.random() < 0.7,
            replay=rng.choice([*[UNIFORM_REPLAY] * 5, *replays]),
            acceleration=rng.choice([*[NO_ACCELERATION] * 3, *adapter.accelerations]),
        )
        yield dataclasses.replace(rng.choice(bases), **changes), context


def describe(adapter, algorithm, hyperparameters, context, is_mixed=False):
    """Return settings and the table of alignment, or why the values are refused."""
    try:
        if hyperparameters is None:
            own = load_recipe(algorithm, adapter.name)
            found = adapter.get_library_defaults(algorithm, own, context)
            hyperparameters = found.resolve_for_task(context.task)
        elif is_mixed:
            hyperparameters = hyperparameters.resolve_for_task(context.task)
        native = adapter.translate(algorithm, hyperparameters, context)
    except SpecError as error:
        return str(error)
    rows = [
        [row.field, row.kind, row.native_name, row.native_value, row.note]
        for row in native.alignment
    ]
    counts = [native.total_steps, native.framework_steps]
    return [dict(native.settings), rows, counts, dataclasses.asdict(native.update_schedule)]


def collect(framework):
    """Return what a framework receives, a short digest of each by algorithm, context and values."""
    adapter = load_adapter(framework)
    found = {}
    for algorithm in support.algorithms_of(framework):
        for name, values, context in list_cases(framework, algorithm):
            found[name] = hash_content(describe(adapter, algorithm, values, context))
        own = load_recipe(algorithm, framework)
        for group in range(GROUPS):
            rng = random.Random(f"{framework} {algorithm} {group}")
            found[f"{algorithm} mixed {group}"] = hash_content(
                [
                    describe(adapter, algorithm, values, context, is_mixed=True)
                    for values, context in list_mixtures(framework, algorithm, own, rng)
                ]
            )
    return found


def hash_content(content):
    """Return a short hash of plain values."""
    text = json.dumps(content, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def compare_with_stored(framework):
    """Return the values for which a framework now receives something else than is stored."""
    stored, now = json.loads(FILE.read_text())[framework], collect(framework)
    return sorted(name for name in stored.keys() | now.keys() if stored.get(name) != now.get(name))


def main():
    """Write the stored file."""
    content = {framework: collect(framework) for framework in FRAMEWORKS}
    FILE.write_text(json.dumps(content, indent=0) + "\n")


if __name__ == "__main__":
    main()
