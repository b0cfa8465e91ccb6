"""Probes that count the events of an off-policy training and their order."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.algorithms.base import UpdateSchedule
from parallax.harness.probes.experiment_setups import OffPolicyRuns
from parallax.harness.probes.experiments import ExperimentCache, ProbeRun
from parallax.harness.probes.measurements import describe_optimizers
from parallax.harness.probes.probe import Probe, ProbeMeasurement, describe_counts, make_count_probe

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


def compare_counts(
    run: ProbeRun, names: Sequence[str], found: Array, due: Array
) -> ProbeMeasurement:
    """Return counts with those that are due, and the units in which wrong ones are counted."""
    hp, counts = run.hyperparameters, ProbeMeasurement(found, due)
    units = {
        "steps of all environments": run.experiment.n_envs,
        "update cycles": getattr(hp, "train_freq", 1),
        "gradient steps of a cycle": getattr(hp, "gradient_steps", 1),
        "policy steps": getattr(hp, "policy_delay", 1),
        "minibatches": getattr(hp, "batch_size", 1),
    }
    words = [
        f"{name}: {text}"
        for name, number, right in zip(names, found, due, strict=True)
        if number != right and (text := _describe_wrong_count(number, right, units))
    ]
    words += describe_delays(run) if (found != due).any() else []
    if not words:
        return counts
    happened = np.where(found == NO_EVENT, np.nan, found)
    return dataclasses.replace(counts, meaning=describe_counts(names, happened, due, *words))


def _describe_wrong_count(number: float, right: float, units: Mapping[str, int]) -> str:
    if number == NO_EVENT:
        return "never"
    for unit, size in units.items():
        if size > 1 and number == size * right > 0:
            return f"{number / right:g} times, as if counted in {unit}"
    for unit, size in units.items():
        if size > 1 and number > 1 and number * size == right:
            return f"once in {right / number:g}, as if {unit} were counted"
    return f"one {'more' if number > right else 'fewer'}" if abs(number - right) == 1 else ""


def describe_delays(run: ProbeRun) -> list[str]:
    """Return after how many critic steps delayed events happen, if not after as many as due."""
    steps, algorithm = run.record.steps, run.experiment.algorithm
    # Critic steps before each optimizer step, and in all.
    critic_counts = [0, *np.cumsum(["critic1" in step.networks for step in steps])]
    policy = [critic_counts[i] for i, step in enumerate(steps) if "policy" in step.networks]
    moves = [critic_counts[i] for _, i, name in run.record.target_moves if name == "critic1_target"]
    words = [describe_optimizers(run)] if critic_counts[-1] else []
    if algorithm == "dqn":
        every = run.hyperparameters.target_interval_in_updates()
        if every and len(moves) == 1 and critic_counts[-1] - moves[0] > 2 * every:
            words.append("one target update and none later, as if their counter stood still")
    if algorithm == "td3" and (count := critic_counts[-1]):
        words += _describe_delayed_events(policy, moves, run.hyperparameters.policy_delay, count)
    return [each for each in words if each]


def _describe_delayed_events(
    policy: Sequence[int], moves: Sequence[int], delay: int, n_critic_steps: int
) -> list[str]:
    """Return how policy steps and target updates, by critic steps before them, are not as due."""
    n_due = n_critic_steps // delay
    if not n_due:
        return []
    if not policy and not moves:
        return ["no delayed event, as if their counter stood still or began anew each time"]
    words = []
    for name, at in (("policy steps", policy), ("target updates", moves)):
        gaps = np.diff(at)
        if n_due > 2 and len(at) == 1:
            words.append(f"{name}: one, after critic step {at[0]}, and none later")
        elif len(gaps) and np.ptp(gaps):
            shown = ", ".join(map(str, at[:6]))
            words.append(f"{name}: after critic steps {shown}, not each {delay}")
        elif len(gaps) and gaps[0] != delay:
            every = "after every critic step" if gaps[0] == 1 else f"once in {gaps[0]} critic steps"
            words.append(f"{name}: {every}, not once in {delay}")
    return words


def make_count_probes(
    runs: OffPolicyRuns, source: str, policy_delay: int, has_temperature: bool = False
) -> Sequence[Probe]:
    """Return the probes that count the events of an off-policy actor-critic training.

    Args:
        runs: Trainings of the algorithm.
        source: Citation of the paper's algorithm.
        policy_delay: The paper's critic steps per policy and target update.
        has_temperature: Whether the algorithm learns a temperature.
    """
    names = OFF_POLICY_COUNT_NAMES + (("temperature steps",) if has_temperature else ())

    def make_measure(
        run: Callable[[ExperimentCache], ProbeRun],
    ) -> Callable[[ExperimentCache], ProbeMeasurement]:
        def measure(cache: ExperimentCache) -> ProbeMeasurement:
            done = run(cache)
            paper = dataclasses.replace(done.hyperparameters, policy_delay=policy_delay)
            steps = len(done.experiment.scripted_data.rewards)
            expected = _compute_expected_counts(
                paper.compute_update_schedule(steps), steps, policy_delay, has_temperature
            )
            return compare_counts(done, names, count_updates(done, has_temperature), expected)

        return measure

    networks = ("critics", "policy", *(["temperature"] if has_temperature else []))
    moves = [f"target updates before the step of the {name}" for name in networks]
    order = (*(f"place of the {name}" for name in networks), *moves)
    return (
        make_count_probe(
            f"{runs.algorithm}.counts",
            "How often do events of a training happen, and when first?",
            f"{source}; one update after each step that follows the warm-up",
            names,
            make_measure(runs.run_count_experiment),
        ),
        make_count_probe(
            f"{runs.algorithm}.counts_with_copies",
            "How often do events happen with 4 parallel environments, by transitions?",
            f"{source}: a step of each copy is a transition",
            names,
            make_measure(runs.run_parallel_envs),
        ),
        make_count_probe(
            f"{runs.algorithm}.update_order",
            "In which order do networks learn in an update?",
            f"{source}: critics, policy, then the rest",
            order,
            lambda cache: _measure_update_order(runs.run_count_experiment(cache), has_temperature),
        ),
    )


def count_updates(run: ProbeRun, has_temperature: bool = False) -> Array:
    """Return the counts of `OFF_POLICY_COUNT_NAMES`, and the temperature's steps if learned."""
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
            *([float(temperature)] if has_temperature else []),
        ]
    )


def _count_critic_steps_until(run: ProbeRun, steps: int) -> float:
    return float(sum("critic1" in s.networks for s in run.record.steps[:steps]))


def _compute_expected_counts(
    schedule: UpdateSchedule, steps: int, policy_delay: int, has_temperature: bool
) -> Array:
    return np.array(
        [
            steps,
            schedule.random_steps,
            schedule.first_update,
            schedule.total_gradient_steps,
            schedule.policy_updates,
            schedule.target_updates,
            policy_delay,
            policy_delay,
            *([schedule.policy_updates] if has_temperature else []),
        ],
        dtype=float,
    )


def _count_random_steps(run: ProbeRun) -> int:
    # Leading steps whose action is one of the scripted samples of the action space.
    d = run.experiment.scripted_data
    low, high = np.array(d.low), np.array(d.high)
    drawn = low + d.random_actions * (high - low)
    is_drawn = [np.isclose(drawn, a, atol=1e-5).all(axis=1).any() for a in run.get_actions()]
    return int(np.argmin([*is_drawn, False]))


def _measure_update_order(run: ProbeRun, has_temperature: bool) -> ProbeMeasurement:
    networks = ("critic1", "policy", "temperature")[: 3 if has_temperature else 2]
    # The first update cycle in which the policy learns.
    when = next((s.env_steps for s in run.record.steps if "policy" in s.networks), NO_EVENT)
    steps = [s for s in run.record.steps if s.env_steps == when]
    places = [next((i for i, s in enumerate(steps) if n in s.networks), NO_EVENT) for n in networks]
    known = sorted({place for place in places if place != NO_EVENT})
    ranks = [float(known.index(place)) if place in known else NO_EVENT for place in places]
    moved = [taken for at, taken, _ in run.record.target_moves if at == when]
    first = next((i for i, s in enumerate(run.record.steps) if s.env_steps == when), 0)
    # A move is noted with the number of optimizer steps before it.
    early = [float(any(first < taken <= first + place for taken in moved)) for place in places]
    # The networks learn in this order, and no target moves before.
    expected = [float(place) for place in range(len(networks))] + [0.0] * len(networks)
    return ProbeMeasurement(np.array(ranks + early), np.array(expected))
