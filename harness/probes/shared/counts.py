"""Probes that count what happens over a training."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from harness.contract.algorithms import Cadence
from harness.probes.lab import Lab, Run
from harness.probes.probe import Measurement, Probe, listed
from harness.probes.results import Array

NEVER = -1.0
OFF_POLICY = (
    "environment steps",
    "warm-up steps",
    "environment steps at the first update",
    "critic steps",
    "policy steps",
    "target updates",
    "critic steps at the first policy step",
    "critic steps at the first target update",
)


def off_policy(
    algorithm: str,
    run: Callable[[Lab], Run],
    copies: Callable[[Lab], Run],
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
    names = OFF_POLICY + (("temperature steps",) if algorithm == "sac" else ())

    def counts(of: Callable[[Lab], Run]) -> Callable[[Lab], Measurement]:
        def measure(lab: Lab) -> Measurement:
            paper = dataclasses.replace(of(lab).hyperparameters, policy_delay=policy_delay)
            asked = len(of(lab).experiment.dictation.rewards)
            expected = _expected(algorithm, paper.cadence(asked), asked, policy_delay)
            return Measurement(counted(of(lab)), expected)

        return measure

    return (
        Probe(
            f"{algorithm}.counts",
            "What happens how often, and when for the first time?",
            f"{source}; one update after each step that follows the warm-up",
            ", ".join(names),
            counts(run),
            listed(names),
            counts=True,
        ),
        Probe(
            f"{algorithm}.counts_with_copies",
            "What happens how often with 4 copies of the environment, by transitions?",
            f"{source}: a step of each copy is a transition",
            ", ".join(names),
            counts(copies),
            listed(names),
            counts=True,
        ),
        Probe(
            f"{algorithm}.update_order",
            "In which order do networks learn in an update?",
            f"{source}: critics, policy, then the rest",
            "place, -1 for never: critics, policy"
            + (", temperature" if algorithm == "sac" else ""),
            lambda lab: _order(run(lab), algorithm),
            listed(("place of the critics", "of the policy", "of the temperature")),
            counts=True,
        ),
    )


def counted(run: Run) -> Array:
    """The counts of `OFF_POLICY`, and steps of the temperature where there is one."""
    critic = [s.env_steps for s in run.record.steps if "critic1" in s.networks]
    policy = [i for i, s in enumerate(run.record.steps) if "policy" in s.networks]
    moves = [steps for _, steps, name in run.record.target_moves if name == "critic1_target"]
    temperature = sum("temperature" in s.networks for s in run.record.steps)
    return np.array(
        [
            float(len(run.transitions)),
            float(_random_steps(run)),
            float(critic[0]) if critic else NEVER,
            float(len(critic)),
            float(len(policy)),
            float(len(moves)),
            _critic_steps_until(run, policy[0] + 1) if policy else NEVER,
            _critic_steps_until(run, moves[0]) if moves else NEVER,
            *([float(temperature)] if run.experiment.algorithm == "sac" else []),
        ]
    )


def _critic_steps_until(run: Run, steps: int) -> float:
    return float(sum("critic1" in s.networks for s in run.record.steps[:steps]))


def _expected(algorithm: str, cadence: Cadence, asked: int, policy_delay: int) -> Array:
    return np.array(
        [
            asked,
            cadence.random_steps,
            cadence.first_update,
            cadence.gradient_steps,
            cadence.policy_updates,
            cadence.target_updates,
            policy_delay,
            policy_delay,
            *([cadence.policy_updates] if algorithm == "sac" else []),
        ],
        dtype=float,
    )


def _random_steps(run: Run) -> int:
    # Leading steps whose action is one of those that the action space was dictated to draw.
    d = run.experiment.dictation
    low, high = np.array(d.low), np.array(d.high)
    drawn = low + d.random_actions * (high - low)
    is_drawn = [np.isclose(drawn, a, atol=1e-5).all(axis=1).any() for a in run.actions()]
    return int(np.argmin([*is_drawn, False]))


def _order(run: Run, algorithm: str) -> Measurement:
    networks = ("critic1", "policy", "temperature")[: 3 if algorithm == "sac" else 2]
    # The first round of updates in which the policy learns.
    when = next((s.env_steps for s in run.record.steps if "policy" in s.networks), NEVER)
    steps = [s for s in run.record.steps if s.env_steps == when]
    places = [next((i for i, s in enumerate(steps) if n in s.networks), NEVER) for n in networks]
    known = sorted({place for place in places if place != NEVER})
    ranks = [float(known.index(place)) if place in known else NEVER for place in places]
    return Measurement(np.array(ranks), np.arange(len(networks), dtype=float))
