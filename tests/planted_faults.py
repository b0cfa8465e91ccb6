"""Runs the probes on healthy and faulty implementations, and returns what they found.

`python -m tests.planted_faults` plants every fault and prints the score.
`python -m tests.planted_faults misses`, `... fresh` and `... fresh later` plant the faults of those
modules of `tests/plants`, and print whether the expected probe finds each, another one, or none.
`... blind` and `... skrl` do so for faults with words that name them.
"""

import dataclasses
import fnmatch
import functools
import sys

import numpy as np

from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.probes import catalogue as registry
from parallax.harness.probes.experiments import ExperimentCache
from parallax.harness.probes.probe import compare_in_probe_units, is_same_answer, run_probe
from parallax.harness.probes.results import AGREES, ProbeAnswer
from tests.plants import LATER_PLANTS, PLANTS, misses

CORE = {
    "ppo": "gae termination rollout_end value_target policy_gradient_direction std_gradient "
    "value_loss_factor epoch_coverage reshuffling advantages_recomputed activation "
    "gradient_source optimizer_step log_prob stored_action total_loss entropy_bonus",
    "td3": "critic_loss_factor critic_target target_weights termination_target truncation_target "
    "target_update policy_terms critics_seen_by_policy stored_transition replay_sampling "
    "activation gradient_source optimizer_step target_action exploration",
    "sac": "critic_loss_factor critic_target target_weights termination_target truncation_target "
    "target_update policy_terms critics_seen_by_policy stored_transition replay_sampling "
    "activation gradient_source optimizer_step",
    "ddpg": "critic_loss_factor critic_target target_weights termination_target truncation_target "
    "target_update policy_terms critics_seen_by_policy stored_transition replay_sampling "
    "activation gradient_source optimizer_step exploration",
    "dqn": "exploration_schedule exploration_shape greedy_action greedy_ties critic_loss "
    "loss_numbers critic_target target_weights termination_target truncation_target "
    "target_update counts stored_transition stored_action replay_sampling activation "
    "gradient_source optimizer_step",
}
"""Probes that need few trainings, and are put with each plant."""
PROBES = {probe.name: probe for probe in registry.PROBES}
FRAMEWORKS = ("sb3", "cleanrl", "torchrl", "tianshou")
ALGORITHMS = ("ppo", "td3", "sac", "ddpg", "dqn")
ROUNDING = 0.01
"""Largest relative error of a size that was measured."""


@dataclasses.dataclass(frozen=True)
class PlantResult:
    """Answer of the probes about a planted fault.

    Attributes:
        found: Whether the probe that must find it did.
        kind: How its answer relates to the unplanted one.
        size: Of that difference.
        meaning: Its words.
        others: Further probes whose answers changed and should not have.
    """

    found: bool
    kind: str
    size: float
    meaning: str
    other_answers: tuple[str, ...]


@functools.cache
def get_cache(framework, algorithm) -> ExperimentCache:
    """A cached store of the trainings of one algorithm."""
    return ExperimentCache(load_adapter(framework))


@functools.cache
def unplanted(framework, name) -> ProbeAnswer:
    """An answer without a plant."""
    return answer(get_cache(framework, name.split(".")[0]), name)


def answer(cache, name) -> ProbeAnswer:
    """One answer of one implementation."""
    return run_probe(PROBES[name], {cache.adapter.name: cache}).answers[cache.adapter.name]


def core(algorithm) -> list[str]:
    """Names of cheap probes."""
    return [f"{algorithm}.{part}" for part in CORE[algorithm].split()]


def every(algorithm) -> list[str]:
    """Names of all probes."""
    return [name for name in PROBES if name.startswith(f"{algorithm}.")]


def measure_plant(plant, names) -> PlantResult:
    """Plants, measures, and compares with the answers before.

    Args:
        plant: What is planted.
        names: Probes to put besides the one that must find it.
    """
    cache = ExperimentCache(load_adapter(plant.framework))
    with plant.planted():
        after = {name: answer(cache, name) for name in dict.fromkeys([plant.probe, *names])}
    before = {name: unplanted(plant.framework, name) for name in after}
    allowed = tuple(f"{plant.algorithm}.{part}*" for part in plant.also)
    changed = [name for name in after if not unchanged(name, before[name], after[name])]
    hit = compare_in_probe_units(
        PROBES[plant.probe], after[plant.probe].value, before[plant.probe].value
    )
    return PlantResult(
        found=plant.probe in changed and hit.kind != AGREES,
        kind=hit.kind,
        size=hit.size,
        meaning=after[plant.probe].meaning,
        other_answers=tuple(n for n in changed if n != plant.probe and not _matches(n, allowed)),
    )


def is_right(plant, result: PlantResult) -> bool:
    """Return whether a planted fault was found by the right probe alone, with its kind and size."""
    sized = plant.size is None or np.isclose(result.size, plant.size, rtol=ROUNDING, atol=1e-4)
    return bool(result.found and result.kind == plant.kind and sized and not result.other_answers)


@dataclasses.dataclass(frozen=True)
class PlantDetection:
    """Probe that found a planted fault and its description; empty if none did."""

    probe: str
    meaning: str


def find(plant) -> PlantDetection:
    """Asks the probe that is meant for a plant, then all others until one changes its answer."""
    cache = ExperimentCache(load_adapter(plant.framework))
    for name in dict.fromkeys([plant.probe, *every(plant.algorithm)]):
        if name not in PROBES:
            continue
        before = unplanted(plant.framework, name)
        with plant.planted():  # a text that cannot be planted is an error, not a find
            try:
                after = answer(cache, name)
            except Exception as error:
                return PlantDetection(name, f"{type(error).__name__}: {error}")
        if not unchanged(name, before, after):
            return PlantDetection(name, after.unmeasured or after.meaning)
    return PlantDetection("", "")


def tally(plants) -> int:
    """Plants everything; prints who found what, and how many were found."""
    meant = other = 0
    for plant in plants:
        found = find(plant)
        right = found.probe == plant.probe
        meant, other = meant + right, other + (bool(found.probe) and not right)
        word = "found" if right else f"found by {found.probe}" if found.probe else "MISSED"
        print(f"{plant.framework} {plant.algorithm} {plant.name}: {word}", flush=True)
        print(f"       {plant.probe}: {found.meaning}", flush=True)
    missed = len(plants) - meant - other
    print(f"{meant} of {len(plants)} found by the probe meant, {other} by another, {missed} missed")
    return 0 if not missed else 1


def tally_named(plants, subjects=()) -> int:
    """Plants faults of some subjects; prints for each whether it was found, and named."""
    found = named = planted = 0
    for plant in plants:
        if subjects and plant.subject not in subjects:
            continue
        result = find(plant)
        right = bool(result.probe) and plant.says in result.meaning
        planted, found, named = planted + 1, found + bool(result.probe), named + right
        word = "named" if right else "found" if result.probe else "MISSED"
        print(f"{word:6} {plant.subject}: {plant.framework} {plant.algorithm} {plant.name}")
        print(f"       {result.probe}: {result.meaning}", flush=True)
    print(f"{found} of {planted} found, {named} named, {planted - found} missed")
    return 0 if found == planted else 1


def unchanged(name, before: ProbeAnswer, after: ProbeAnswer) -> bool:
    """Return whether two answers of one implementation agree."""
    if before.unmeasured or after.unmeasured:
        return bool(before.unmeasured) == bool(after.unmeasured)
    return is_same_answer(PROBES[name], before, after)


def _matches(name, patterns) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def score() -> int:
    """Plants everything; prints a line per plant and the score."""
    right, plants = 0, (*PLANTS, *LATER_PLANTS)
    for plant in plants:
        result = measure_plant(plant, every(plant.algorithm))
        right += is_right(plant, result)
        verdict = "found " if is_right(plant, result) else "MISSED"
        print(f"{verdict} {plant.framework:8} {plant.algorithm} {plant.name}: {plant.probe}")
        print(
            f"       {result.kind} {result.size:.4g}; {result.meaning}",
            *result.other_answers,
            flush=True,
        )
    print(f"{right} of {len(plants)} plants found, named right and of the right size")
    return 0 if right == len(plants) else 1


def steady(name, first: ProbeAnswer, other: ProbeAnswer) -> bool:
    """Return whether answers on two seeds agree on whether there is a difference."""
    if first.unmeasured or other.unmeasured:
        return bool(first.unmeasured) == bool(other.unmeasured)
    kinds = first.comparison.kind, other.comparison.kind
    return (kinds[0] == AGREES) == (kinds[1] == AGREES)


def main(arguments) -> int:
    """Run the command line."""
    match arguments:
        case ["misses"]:
            return tally(misses.PLANTS)
        case ["blind", *subjects]:
            from tests.plants import blind_spots

            return tally_named(blind_spots.PLANTS, subjects)
        case ["skrl", *subjects]:
            from tests.plants import skrl_copies

            return tally_named(skrl_copies.PLANTS, subjects)
        case ["fresh"]:
            from tests.plants import fresh

            return tally(fresh.PLANTS)
        case ["fresh", "later"]:
            from tests.plants import fresh_later

            return tally(fresh_later.PLANTS)
    return score()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
