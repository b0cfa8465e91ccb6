"""Error rates and power of every statement on a pair of frameworks and on a suite of tasks.

    python benchmarks/verdict_error_rates.py

prints the tables in docs/reference/simulations.md. Scores are normalized (0 does nothing, 1 solves
the task), the margin is 0.1, and one pair is judged by itself. A column counts a word: `mean`
different in mean, `distr` different in distribution, `equiv` equivalent, `unless` equivalent unless
more than q% of runs fail. Words are false where the shape's last column says so.
"""

import argparse
import dataclasses
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

from parallax.analysis.stats import two_sample
from parallax.analysis.stats.moments import compute_moments, stack_moments
from parallax.analysis.stats.unobserved_failures import (
    compute_difference_p,
    compute_equal_means_p,
)
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.statements import FISHER_SHARE
from parallax.analysis.verdicts.suite import SuiteSample, judge_suite

SEEDS = (3, 5, 10, 20, 30)
OPTIONS = VerdictOptions()

Draw = Callable[[np.random.Generator, int], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Shape:
    """Two frameworks with known laws of scores.

    Attributes:
        name: What the laws are like.
        first: Draws n scores of one framework.
        second: The same of the other.
        false: Words that would be false.
        factor: Seeds of the second per seed of the first.
    """

    name: str
    first: Draw
    second: Draw
    false: tuple[str, ...]
    factor: int = 1


def normal(mean: float, sd: float) -> Draw:
    """Normal scores within the range."""
    return lambda rng, n: np.clip(rng.normal(mean, sd, n), 0, 1)


def student(mean: float, sd: float) -> Draw:
    """Student's t with three degrees of freedom, within the range."""
    return lambda rng, n: np.clip(mean + sd * rng.standard_t(3, n) / 3**0.5, 0, 1)


def lognormal(top: float, loss: float) -> Draw:
    """Most near the top, with a long tail below."""
    return lambda rng, n: np.clip(top - loss * rng.lognormal(0, 1, n) / np.exp(0.5), 0, 1)


def failing(rate: float, good: float = 0.95, sd: float = 0.02) -> Draw:
    """Runs that reach `good`, but for a share that ends near 0."""
    return lambda rng, n: np.where(
        rng.random(n) < rate, rng.uniform(0, 0.02, n), np.clip(rng.normal(good, sd, n), 0, 1)
    )


def capped(mean: float, sd: float) -> Draw:
    """Normal scores of which those above the maximum score it."""
    return lambda rng, n: np.minimum(1.0, np.clip(rng.normal(mean, sd, n), 0, None))


def list_shapes() -> tuple[Shape, ...]:
    """Equal laws, equal means with unequal laws, and differences."""
    same, unequal = ("mean", "distr"), ("mean",)
    fail_mean = 0.8 * 0.95 + 0.2 * 0.01
    return (
        *(
            Shape(f"same: {name}", draw, draw, same)
            for name, draw in (
                ("normal", normal(0.7, 0.05)),
                ("t3", student(0.7, 0.05)),
                ("lognormal", lognormal(0.98, 0.1)),
                ("10% fail", failing(0.1)),
                ("20% fail", failing(0.2)),
                ("30% fail", failing(0.3)),
                ("capped", capped(1.0, 0.1)),
            )
        ),
        Shape("same: normal, n and 3 n", normal(0.7, 0.05), normal(0.7, 0.05), same, 3),
        Shape("same: 20% fail, n and 3 n", failing(0.2), failing(0.2), same, 3),
        Shape("same mean: sd .15 and .02", normal(0.6, 0.15), normal(0.6, 0.02), unequal),
        Shape("same mean: sd .15, 3 n of .02", normal(0.6, 0.15), normal(0.6, 0.02), unequal, 3),
        Shape("same mean: 20% fail, none", failing(0.2), normal(fail_mean, 0.02), unequal),
        Shape("same mean: 10% fail, none", failing(0.1), normal(0.856, 0.02), unequal),
        Shape("margin apart: normal", normal(0.7, 0.05), normal(0.8, 0.05), ("equiv", "unless")),
        Shape("margin apart: t3", student(0.7, 0.05), student(0.8, 0.05), ("equiv", "unless")),
        Shape("margin apart: 12% fail", failing(0.12, 0.9), normal(0.9, 0.02), ("equiv",)),
        Shape("margin apart: 22% fail", failing(0.22, 0.9), normal(0.9, 0.02), ("equiv",)),
        Shape("apart .2: normal, sd .1", normal(0.7, 0.1), normal(0.5, 0.1), ("equiv", "unless")),
        Shape("apart .5: normal, sd .1", normal(0.9, 0.1), normal(0.4, 0.1), ("equiv", "unless")),
        Shape("50% fail, none", failing(0.5), failing(0.0), ("equiv", "unless")),
    )


MARGIN, FAILED_BELOW, LEVEL = 0.1, 0.25, 0.05


def count_words(shape: Shape, n: int, repeats: int) -> dict[str, float]:
    """Return the share of pairs with each word, every pair a family of its own.

    The rules are those of `verdicts.consistency` and `verdicts.statements`; tests that cannot
    change the word any more are left out.
    """
    rng = np.random.default_rng((n, zlib.crc32(shape.name.encode())))
    first = [shape.first(rng, n) for _ in range(repeats)]
    second = [shape.second(rng, n * shape.factor) for _ in range(repeats)]
    moments = [stack_moments([compute_moments(x) for x in side]) for side in (first, second)]
    item = two_sample.compute_contrast(moments[:1], moments[1:])
    p, p_tost = two_sample.compute_two_sided_p(item), two_sample.compute_equivalence_p(item, MARGIN)
    words = [
        find_word(one, two, float(p[i]), float(p_tost[i]))
        for i, (one, two) in enumerate(zip(first, second, strict=True))
    ]
    return {word: words.count(word) / repeats for word in ("mean", "distr", "equiv", "unless")}


def find_word(one: np.ndarray, two: np.ndarray, p: float, p_tost: float) -> str:
    """Return the word on one pair."""
    ends = 0.0, 1.0
    if p_tost < LEVEL and compute_difference_p(one, two, ends, MARGIN) < LEVEL:
        return "equiv"
    if p < LEVEL:
        permutation = two_sample.compute_permutation_p(one, two, np.random.default_rng(0))
        if permutation < LEVEL:
            return "mean" if compute_equal_means_p(one, two, ends) < LEVEL else "distr"
    failed = int((one < FAILED_BELOW).sum()), int((two < FAILED_BELOW).sum())
    if sum(failed) and two_sample.compute_fisher_p(failed, (len(one), len(two))) < (
        FISHER_SHARE * LEVEL
    ):
        return "distr"
    return "unless" if p_tost < LEVEL and not any(failed) else ""


def count_suite_words(
    draws: tuple[Draw, Draw], tasks: int, n: int, frameworks: int, repeats: int
) -> tuple[float, float]:
    """Return the shares of pairs that are equivalent and different over a suite of tasks.

    Args:
        draws: Law of the first framework, and of all others.
        tasks: Number of tasks.
        n: Seeds per task.
        frameworks: Number of frameworks, all pairs of which are corrected together.
        repeats: Number of suites.
    """
    rng = np.random.default_rng((tasks, n, frameworks))
    found = []
    for _ in range(repeats):
        scores = {
            str(k): tuple(draws[min(k, 1)](rng, n) for _ in range(tasks)) for k in range(frameworks)
        }
        names = tuple(map(str, range(tasks)))
        sample = SuiteSample(("s", "ppo", "original", ""), names, scores, (0.0, 1.0), ())
        # All pairs with the first framework, whose law may differ.
        found += [item.verdict for item in judge_suite(sample, OPTIONS) if item.first == "0"]
    return found.count("equivalent") / len(found), found.count("different") / len(found)


def format_shares(row: dict[str, float]) -> str:
    """Return the words that occur, with their shares."""
    return ", ".join(f"{word} {share:.1%}" for word, share in row.items() if share)


def main() -> int:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--suites", type=int, default=40)
    options = parser.parse_args()
    if options.repeats:
        print_pairs(options.repeats)
    if options.suites:
        print_suites(options.suites)
    return 0


def print_pairs(repeats: int) -> None:
    """Prints the table of pairs."""
    error = (0.05 * 0.95 / repeats) ** 0.5
    print(f"{repeats} pairs each; standard error of 5%: {error:.1%}\n")
    print(f"| scores | {' | '.join(f'n = {n}' for n in SEEDS)} | false words |")
    print(f"|{'---|' * (len(SEEDS) + 2)}")
    worst = 0.0
    for shape in list_shapes():
        rows = [count_words(shape, n, repeats) for n in SEEDS]
        worst = max([worst, *(sum(row[word] for word in shape.false) for row in rows)])
        cells = [format_shares(row) for row in rows]
        shown = " | ".join(cell or "-" for cell in cells)
        print(f"| {shape.name} | {shown} | {', '.join(shape.false)} |", flush=True)
    print(f"\nLargest rate of false words: {worst:.1%}")


def print_suites(suites: int) -> None:
    """Prints the table of suites."""
    print(f"\nSuites, {suites} each, six frameworks, Holm over 15 pairs\n")
    print("| scores | tasks | n | equivalent | different |\n|---|---|---|---|---|")
    good = normal(0.9, 0.05)
    for name, draws in (
        ("no run fails", (good, good)),
        ("2% of runs fail in all", (failing(0.02, 0.9), failing(0.02, 0.9))),
        ("11% of the first one's runs fail", (failing(0.112, 0.9), failing(0.0, 0.9))),
        ("first one lower by 0.1", (normal(0.8, 0.05), good)),
        ("first one lower by 0.3", (normal(0.6, 0.1), normal(0.9, 0.1))),
    ):
        for tasks, n in ((4, 5), (4, 10), (7, 5), (7, 10), (7, 20)):
            alike, apart = count_suite_words(draws, tasks, n, 6, suites)
            print(f"| {name} | {tasks} | {n} | {alike:.2f} | {apart:.2f} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
