"""The tasks that can be stepped without their Gymnasium classes.

Each one is shown by a test to agree with Gymnasium bit for bit.
"""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import mujoco
import numpy as np
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray

from envs.raw import outcomes
from envs.raw.outcomes import Outcome, State

Views = Mapping[str, NDArray[np.float64]]


def _nothing(_: mujoco.MjData) -> Views:
    return {}


def _pole_tip(data: mujoco.MjData) -> Views:
    return {"tip": data.site_xpos[0], "constraint": data.qfrc_constraint}


def _finger(data: mujoco.MjData) -> Views:
    tip, target = (data.xpos[data.body(name).id] for name in ("fingertip", "target"))
    return {"tip": tip, "target": target}


def _torso(data: mujoco.MjData) -> Views:
    # Body positions lag behind qpos by one physics step; Gymnasium takes the speed from them.
    return {"torso": data.xpos[data.body("torso").id]}


def _torso_and_contact(data: mujoco.MjData) -> Views:
    return {**_torso(data), "contact": data.cfrc_ext.reshape(-1)}


@dataclasses.dataclass(frozen=True)
class RawTask:
    """One task without its Gymnasium class.

    Attributes:
        outcome: What a step leads to, from the state before and after it, the actions and
            the seconds per step.
        extras: What the outcome looks at besides positions and velocities, as views of a
            simulation's memory, each of one dimension.
        contact_forces: Whether `cfrc_ext` is looked at, which MuJoCo computes on demand only.
    """

    outcome: Callable[[State, State, NDArray[Any], float], Outcome]
    extras: Callable[[mujoco.MjData], Views] = _nothing
    contact_forces: bool = False


def raw_task(spec: EnvSpec | None) -> RawTask | None:
    """The task behind `spec`, if it is in the table and made as Gymnasium registers it."""
    if spec is None or spec.kwargs or spec.additional_wrappers:
        return None
    return RAW_TASKS.get(spec.entry_point) if isinstance(spec.entry_point, str) else None


def _raw_tasks() -> dict[str, RawTask]:
    """Every task's version 4 and version 5, by Gymnasium's module and class."""
    cheetah = RawTask(partial(outcomes.run, hidden=1, effort=0.1))
    swimmer = RawTask(partial(outcomes.run, hidden=2, effort=1e-4))
    hop = partial(outcomes.walk, healthy=outcomes.hopper_healthy)
    walk = partial(outcomes.walk, healthy=outcomes.walker_healthy)
    stand, swing = outcomes.pendulum, outcomes.double_pendulum
    reach, crawl = outcomes.reacher, outcomes.ant
    versions = {
        ("half_cheetah", "HalfCheetahEnv"): (cheetah, cheetah),
        ("swimmer", "SwimmerEnv"): (swimmer, swimmer),
        # Version 4 pays the bonus for the step of the fall as well.
        ("hopper", "HopperEnv"): [RawTask(partial(hop, fallen_bonus=b)) for b in (1.0, 0.0)],
        ("walker2d", "Walker2dEnv"): [RawTask(partial(walk, fallen_bonus=b)) for b in (1.0, 0.0)],
        ("inverted_pendulum", "InvertedPendulumEnv"): [
            RawTask(partial(stand, fallen_bonus=b)) for b in (1.0, 0.0)
        ],
        ("inverted_double_pendulum", "InvertedDoublePendulumEnv"): [
            RawTask(partial(swing, fallen_bonus=b, constraints=n), _pole_tip)
            for b, n in ((10.0, 3), (0.0, 1))
        ],
        ("reacher", "ReacherEnv"): [
            RawTask(partial(reach, lagging=lagging), _finger) for lagging in (True, False)
        ],
        ("ant", "AntEnv"): (
            RawTask(partial(crawl, contact=False), _torso),
            RawTask(partial(crawl, contact=True), _torso_and_contact, contact_forces=True),
        ),
    }
    return {
        f"gymnasium.envs.mujoco.{module}_v{version}:{name}": task
        for (module, name), tasks in versions.items()
        for version, task in zip((4, 5), tasks, strict=True)
    }


RAW_TASKS: Mapping[str, RawTask] = _raw_tasks()
"""Tasks by the entry point under which Gymnasium registers them."""
