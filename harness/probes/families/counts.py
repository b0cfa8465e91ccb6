"""Probes that count what happens over a training."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.algorithms.base import UpdateSchedule
from parallax.harness.probes.experiments import ExperimentCache, ProbeRun
from parallax.harness.probes.probe import Probe, ProbeMeasurement, make_entry_description

NO_EVENT = -1.0
OFF_POLICY_COUNT_NAMES = (
    "environment steps",
    "warm-up steps",
    "environment steps at the first update",
    "critic steps",
    "policy steps",
    "target updates",
    "critic steps at the first policy step",
    "critic steps at the first target update",
)


def make_count_probes(
    algorithm: str,
    run: Callable[[ExperimentCache], ProbeRun],
    copies: Callable[[ExperimentCache], ProbeRun],
    source: str,
    policy_delay: int,
) -> Sequence[Probe]:
    """Counts of TD3 and SAC.

    Args:
        algorithm: `td3` or `sac`.
        run: A training without exploration noise.
        copies: One with several copies of the environment.
        source: The paper's algorithm.
        policy_delay: Critic steps per policy and target update, there.
    """
    names = OFF_POLICY_COUNT_NAMES + (("temperature steps",) if algorithm == "sac" else ())

    def counts(
        of: Callable[[ExperimentCache], ProbeRun],
    ) -> Callable[[ExperimentCache], ProbeMeasurement]:
        def measure(lab: ExperimentCache) -> ProbeMeasurement:
            paper = dataclasses.replace(of(lab).hyperparameters, policy_delay=policy_delay)
            asked = len(of(lab).experiment.scripted_data.rewards)
            expected = _compute_expected_counts(
                algorithm, paper.compute_update_schedule(asked), asked, policy_delay
            )
            return ProbeMeasurement(count_updates(of(lab)), expected)

        return measure

    return (
        Probe(
            f"{algorithm}.counts",
            "What happens how often, and when for the first time?",
            f"{source}; one update after each step that follows the warm-up",
            ", ".join(names),
            counts(run),
            make_entry_description(names),
            counts=True,
        ),
        Probe(
            f"{algorithm}.counts_with_copies",
            "What happens how often with 4 copies of the environment, by transitions?",
            f"{source}: a step of each copy is a transition",
            ", ".join(names),
            counts(copies),
            make_entry_description(names),
            counts=True,
        ),
        Probe(
            f"{algorithm}.update_order",
            "In which order do networks learn in an update?",
            f"{source}: critics, policy, then the rest",
            "place, -1 for never: critics, policy"
            + (", temperature" if algorithm == "sac" else ""),
            lambda lab: _measure_update_order(run(lab), algorithm),
            make_entry_description(("place of the critics", "of the policy", "of the temperature")),
            counts=True,
        ),
    )


def count_updates(run: ProbeRun) -> Array:
    """The counts of `OFF_POLICY_COUNT_NAMES`, and steps of the temperature where there is one."""
    critic = [s.env_steps for s in run.record.steps if "critic1" in s.networks]
    policy = [i for i, s in enumerate(run.record.steps) if "policy" in s.networks]
    moves = [steps for _, steps, name in run.record.target_moves if name == "critic1_target"]
    temperature = sum("temperature" in s.networks for s in run.record.steps)
    return np.array(
        [
            float(len(run.transitions)),
            float(_count_random_steps(run)),
            float(critic[0]) if critic else NO_EVENT,
            float(len(critic)),
            float(len(policy)),
            float(len(moves)),
            _count_critic_steps_until(run, policy[0] + 1) if policy else NO_EVENT,
            _count_critic_steps_until(run, moves[0]) if moves else NO_EVENT,
            *([float(temperature)] if run.experiment.algorithm == "sac" else []),
        ]
    )


def _count_critic_steps_until(run: ProbeRun, steps: int) -> float:
    return float(sum("critic1" in s.networks for s in run.record.steps[:steps]))


def _compute_expected_counts(
    algorithm: str, update_schedule: UpdateSchedule, asked: int, policy_delay: int
) -> Array:
    return np.array(
        [
            asked,
            update_schedule.random_steps,
            update_schedule.first_update,
            update_schedule.total_gradient_steps,
            update_schedule.policy_updates,
            update_schedule.target_updates,
            policy_delay,
            policy_delay,
            *([update_schedule.policy_updates] if algorithm == "sac" else []),
        ],
        dtype=float,
    )


def _count_random_steps(run: ProbeRun) -> int:
    # Leading steps whose action is one of those that the action space was dictated to draw.
    d = run.experiment.scripted_data
    low, high = np.array(d.low), np.array(d.high)
    drawn = low + d.random_actions * (high - low)
    is_drawn = [np.isclose(drawn, a, atol=1e-5).all(axis=1).any() for a in run.actions()]
    return int(np.argmin([*is_drawn, False]))


def _measure_update_order(run: ProbeRun, algorithm: str) -> ProbeMeasurement:
    networks = ("critic1", "policy", "temperature")[: 3 if algorithm == "sac" else 2]
    # The first round of updates in which the policy learns.
    when = next((s.env_steps for s in run.record.steps if "policy" in s.networks), NO_EVENT)
    steps = [s for s in run.record.steps if s.env_steps == when]
    places = [next((i for i, s in enumerate(steps) if n in s.networks), NO_EVENT) for n in networks]
    known = sorted({place for place in places if place != NO_EVENT})
    ranks = [float(known.index(place)) if place in known else NO_EVENT for place in places]
    return ProbeMeasurement(np.array(ranks), np.arange(len(networks), dtype=float))
