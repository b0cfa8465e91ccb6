"""Probes of options: does a setting take effect by itself?"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from harness.probes import setups
from harness.probes.contract import Parameters
from harness.probes.lab import Experiment, Lab
from harness.probes.ppo import trainings as ppo_runs
from harness.probes.probe import Measurement, Probe

SOURCE = "none in the paper; here: every setting can be set, and does something"
ROLLOUTS = 3


def _base(lab: Lab, algorithm: str) -> Experiment:
    # Networks are the framework's own, so that their sizes can be set.
    name = f"{algorithm} options"
    if algorithm == "ppo":
        world = setups.dictation(lab, ROLLOUTS * ppo_runs.ROLLOUT)
        changes = {**ppo_runs.plain(lab), "value_clip_range": None}
        return Experiment(name, algorithm, world, changes)
    world = setups.dictation(lab, setups.ROWS + 6)
    return setups.off_policy(name, algorithm, world, {})


def final(lab: Lab, base: Experiment, changes: Mapping[str, Any]) -> Parameters:
    """Weights at the end of a training with some settings changed.

    Raises:
        SpecError: The framework refuses one.
    """
    name = ", ".join([base.name, *(f"{field}={value}" for field, value in changes.items())])
    changed = dataclasses.replace(base, name=name, changes={**base.changes, **changes})
    return lab.run(changed).record.final


def same(one: Parameters, other: Parameters) -> bool:
    """Whether weights are the same, sizes included."""
    return one.keys() == other.keys() and all(np.array_equal(one[n], other[n]) for n in one)


def option(algorithm: str, changes: Mapping[str, Any], name: str, what: str) -> Probe:
    """A probe of whether settings can be changed by themselves, and change what is learned.

    Args:
        algorithm: Name.
        changes: Unified hyperparameters and their new values.
        name: Of the probe.
        what: The setting, for the question.
    """

    def measure(lab: Lab) -> Measurement:
        base = _base(lab, algorithm)
        # The new value first: where it is refused, nothing is run.
        changed = final(lab, base, changes)
        effect = not same(changed, final(lab, base, {}))
        return Measurement(np.array([float(effect)]), np.ones(1))

    return Probe(
        f"{algorithm}.{name}",
        f"Can {what} be set by itself?",
        SOURCE,
        "0 without effect, 1 with",
        measure,
        lambda comparison, measurement: "the setting has no effect",
        counts=True,
    )


def _clip_range_by_default(lab: Lab) -> Measurement:
    base = _base(lab, "ppo")
    kept = {k: v for k, v in base.changes.items() if k != "clip_range_schedule"}
    base = dataclasses.replace(base, name="ppo own schedule", changes=kept)
    constant = final(lab, base, {"clip_range_schedule": "constant"})
    return Measurement(np.array([float(same(constant, final(lab, base, {})))]), np.ones(1))


PROBES: Sequence[Probe] = (
    option(
        "ppo",
        {"value_clip_range": ppo_runs.CLIP / 10},
        "value_clip_range",
        "the range of value clipping",
    ),
    Probe(
        "ppo.clip_range_by_default",
        "Is the clip range constant over a run, by default?",
        f"{ppo_runs.PAPER}, table 3: yes",
        "0 no, 1 yes",
        _clip_range_by_default,
        lambda comparison, measurement: "the clip range changes over a run",
        counts=True,
    ),
    option("td3", {"hidden_sizes": (48, 32)}, "hidden_sizes", "the size of the hidden layers"),
    option("td3", {"target_policy_noise": 0.15}, "target_policy_noise", "the noise in targets"),
    option("td3", {"gradient_steps_per_round": 2}, "update_ratio", "gradient steps per round"),
    option("sac", {"gradient_steps_per_round": 2}, "update_ratio", "gradient steps per round"),
    option(
        "sac",
        {"critic_learning_rate": 2e-3, "temperature_learning_rate": 2e-3},
        "critic_learning_rate",
        "the learning rate of critics and temperature, apart from the policy's,",
    ),
)
