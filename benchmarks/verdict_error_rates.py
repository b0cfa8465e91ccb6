"""Error rates and power of every statement on a pair of frameworks and on a suite of tasks.

    python benchmarks/verdict_error_rates.py

prints the tables in docs/reference/simulations.md. Scores are normalized (0 does nothing, 1 solves
the task), the margin is 0.1, and each pair is judged by itself. A cell has the percentages of the
five words: different in mean, different in distribution, equivalent, equivalent unless more than q%
of runs fail, inconclusive. Each group of shapes states which of them are false.
"""

import argparse
import dataclasses
import functools
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

from parallax.analysis.stats import pooling, two_sample
from parallax.analysis.stats.moments import compute_moments, stack_moments
from parallax.analysis.stats.unobserved_failures import compute_difference_p, compute_equal_means_p
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.statements import FISHER_SHARE, compute_tolerated_failures
from parallax.analysis.verdicts.suite import SuiteSample, judge_suite

SEEDS = (3, 5, 10, 20, 30)
OPTIONS = VerdictOptions()
MEAN, DISTRIBUTION, EQUIVALENT, UNLESS, INCONCLUSIVE = WORDS = (
    "mean",
    "distr",
    "equiv",
    "unless",
    "inconclusive",
)
MARGIN, FAILED_BELOW, LEVEL = 0.1, 0.25, 0.05
# Random splits of permutation tests that are not enumerated.
SPLITS, SUITE_SPLITS = 999, 199

Draw = Callable[[np.random.Generator, int], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Shape:
    """Two frameworks with known laws of scores.

    Attributes:
        name: Name of the laws.
        first: Draws n scores of one framework.
        second: Draws n scores of the other.
        factor: Seeds of the second per seed of the first.
        rare: Share of runs that end far from the others; *unless* is true if q is below it.
    """

    name: str
    first: Draw
    second: Draw
    factor: int = 1
    rare: float = 0.0


@dataclasses.dataclass(frozen=True)
class ShapeGroup:
    """Shapes for which the same words are false.

    Attributes:
        title: Heading of the table.
        false: Words that are false; *unless* only if q is at least the shape's `rare`.
        shapes: The shapes.
        share: Pairs per cell as a share of the requested number.
    """

    title: str
    false: tuple[str, ...]
    shapes: tuple[Shape, ...]
    share: float = 1.0


def make_normal(mean: float, sd: float) -> Draw:
    """Draw normal scores within the range."""
    return lambda rng, n: np.clip(rng.normal(mean, sd, n), 0, 1)


def make_student(mean: float, sd: float) -> Draw:
    """Draw from Student's t with three degrees of freedom, within the range."""
    return lambda rng, n: np.clip(mean + sd * rng.standard_t(3, n) / 3**0.5, 0, 1)


def make_lognormal(top: float, loss: float) -> Draw:
    """Draw scores near the top with a long tail below."""
    return lambda rng, n: np.clip(top - loss * rng.lognormal(0, 1, n) / np.exp(0.5), 0, 1)


def make_failing(rate: float, good: float = 0.95, sd: float = 0.02) -> Draw:
    """Draw runs that reach `good`, except for a share that ends near 0."""
    return lambda rng, n: np.where(
        rng.random(n) < rate, rng.uniform(0, 0.02, n), np.clip(rng.normal(good, sd, n), 0, 1)
    )


def make_capped(mean: float, sd: float, cap: float = 1.0) -> Draw:
    """Draw normal scores, with those above the maximum set to it."""
    return lambda rng, n: np.minimum(cap, np.clip(rng.normal(mean, sd, n), 0, None))


def make_laplace(mean: float, scale: float) -> Draw:
    """Draw from Laplace's distribution within the range."""
    return lambda rng, n: np.clip(rng.laplace(mean, scale, n), 0, 1)


def make_beta(a: float, b: float, width: float = 1.0) -> Draw:
    """Draw beta-distributed scores between 0 and `width`."""
    return lambda rng, n: width * rng.beta(a, b, n)


def make_levels(values: Sequence[float], shares: Sequence[float]) -> Draw:
    """Draw scores from a few values, as in tasks with stages."""
    return lambda rng, n: rng.choice(values, n, p=shares)


def make_shifted(draw: Draw, by: float) -> Draw:
    """Draw the same scores, lower by a number."""
    return lambda rng, n: np.maximum(0.0, draw(rng, n) - by)


def list_equal_laws() -> tuple[Shape, ...]:
    """Return shapes with equal distributions; the last three were chosen after the rules."""
    laws = (
        ("normal", make_normal(0.7, 0.05)),
        ("t3", make_student(0.7, 0.05)),
        ("lognormal", make_lognormal(0.98, 0.1)),
        *((f"{rate:.0%} fail", make_failing(rate)) for rate in (0.1, 0.2, 0.3)),
        ("capped", make_capped(1.0, 0.1)),
        ("beta(0.3, 0.3)", make_beta(0.3, 0.3)),
        ("levels 0, 0.5, 1", make_levels((0, 0.5, 1), (0.2, 0.3, 0.5))),
        ("Laplace", make_laplace(0.6, 0.1)),
    )
    unequal_n = (("normal", make_normal(0.7, 0.05)), ("20% fail", make_failing(0.2)))
    return (
        *(Shape(name, draw, draw) for name, draw in laws),
        *(Shape(f"{name}, n and 3 n", draw, draw, 3) for name, draw in unequal_n),
    )


def list_equal_means() -> tuple[Shape, ...]:
    """Return shapes with equal means of unequal distributions."""
    wide, narrow = make_normal(0.6, 0.15), make_normal(0.6, 0.02)
    return (
        Shape("sd .15 and .02", wide, narrow),
        Shape("sd .15, 3 n of .02", wide, narrow, 3),
        *(
            Shape(
                f"{rate:.0%} fail, none", make_failing(rate), make_normal(0.95 - 0.94 * rate, 0.02)
            )
            for rate in (0.1, 0.2, 0.3)
        ),
        Shape("lognormal, normal", make_lognormal(0.9, 0.1), make_normal(0.8, 0.05)),
        Shape("levels 0.2, 1, beta(2, 2)", make_levels((0.2, 1), (0.625, 0.375)), make_beta(2, 2)),
    )


def list_margin_differences() -> tuple[Shape, ...]:
    """Return shapes whose means differ by the margin, or a little more if scores are clipped."""
    lower = {
        "normal": make_normal(0.7, 0.05),
        "t3": make_student(0.7, 0.05),
        "lognormal": make_lognormal(0.98, 0.1),
        "capped": make_capped(1.0, 0.1),
        "Laplace": make_laplace(0.6, 0.05),
    }
    return (
        *(Shape(name, draw, make_shifted(draw, MARGIN)) for name, draw in lower.items()),
        Shape("normal, n and 3 n", make_normal(0.7, 0.05), make_normal(0.6, 0.05), 3),
        Shape("sd .02 and .15", make_normal(0.7, 0.02), make_normal(0.6, 0.15)),
        Shape("3 n of sd .02, .15", make_normal(0.6, 0.15), make_normal(0.7, 0.02), 3),
        *(
            Shape(
                f"{rate + 0.1 / 0.89:.0%} and {rate:.0%} fail",
                make_failing(rate + 0.1 / 0.89, 0.9),
                make_failing(rate, 0.9),
                rare=rate + 0.1 / 0.89,
            )
            for rate in (0.0, 0.1, 0.2, 0.3)
        ),
        Shape("22% fail, none", make_failing(0.22, 0.9), make_normal(0.9, 0.02), rare=0.22),
        Shape(
            "5% fail and lower by .0585",
            make_failing(0.05, 0.8415),
            make_normal(0.9, 0.02),
            rare=0.05,
        ),
        Shape(
            "20% end half way",
            make_levels((0.4, 0.9), (0.2, 0.8)),
            make_normal(0.9, 0.02),
            rare=0.2,
        ),
        Shape(
            "25% of .6 reach 1",
            make_levels((0.6, 1), (0.75, 0.25)),
            make_normal(0.6, 0.02),
            rare=0.25,
        ),
        Shape("beta(0.3, 0.3)", make_beta(0.3, 0.3), make_beta(0.3, 0.3, 0.8)),
    )


def list_clear_differences() -> tuple[Shape, ...]:
    """Return shapes with clear differences."""
    return (
        Shape("apart .2: normal, sd .1", make_normal(0.7, 0.1), make_normal(0.5, 0.1)),
        Shape("apart .2: normal, n and 3 n", make_normal(0.7, 0.1), make_normal(0.5, 0.1), 3),
        Shape("apart .2: t3, sd .1", make_student(0.7, 0.1), make_student(0.5, 0.1)),
        Shape("apart .2: lognormal", make_lognormal(0.98, 0.1), make_lognormal(0.78, 0.1)),
        Shape("apart .2: capped", make_capped(1.0, 0.1), make_capped(0.8, 0.1, 0.8)),
        Shape("apart .5: normal, sd .1", make_normal(0.9, 0.1), make_normal(0.4, 0.1)),
        *(
            Shape(f"{rate:.0%} fail, none", make_failing(rate), make_failing(0.0), rare=rate)
            for rate in (0.3, 0.5, 0.8)
        ),
    )


def list_groups() -> tuple[ShapeGroup, ...]:
    """Return every shape, grouped by the words that are false for it."""
    return (
        ShapeGroup("Equal distributions", (MEAN, DISTRIBUTION), list_equal_laws()),
        ShapeGroup("Equal means, unequal distributions", (MEAN,), list_equal_means()),
        ShapeGroup("Means apart by the margin", (EQUIVALENT, UNLESS), list_margin_differences()),
        ShapeGroup("Clear differences", (EQUIVALENT, UNLESS), list_clear_differences(), 0.25),
    )


@dataclasses.dataclass(frozen=True)
class CountedWords:
    """Shares of pairs of one shape and number of seeds.

    Attributes:
        shares: Share of each of `WORDS`.
        false: Share of false words.
    """

    shares: dict[str, float]
    false: float

    def __str__(self) -> str:
        """Return the percentages."""
        return " / ".join(f"{100 * self.shares[word]:.0f}" for word in WORDS)


def count_words(shape: Shape, false: Sequence[str], n: int, repeats: int) -> CountedWords:
    """Count the words on pairs; each pair is a separate family.

    Args:
        shape: Laws of both frameworks.
        false: Words that are false.
        n: Seeds of the first framework.
        repeats: Number of pairs.
    """
    rng = np.random.default_rng((n, zlib.crc32(shape.name.encode())))
    first = [shape.first(rng, n) for _ in range(repeats)]
    second = [shape.second(rng, n * shape.factor) for _ in range(repeats)]
    found = find_words(first, second)
    wrong = sum(word in false and (word != UNLESS or q >= shape.rare - 1e-9) for word, q in found)
    words = [word for word, _ in found]
    return CountedWords({word: words.count(word) / repeats for word in WORDS}, wrong / repeats)


def find_words(
    first: Sequence[np.ndarray], second: Sequence[np.ndarray]
) -> list[tuple[str, float]]:
    """Return the word on each pair, with the q of *unless*.

    The rules are those of `verdicts.consistency` and `verdicts.statements`, which a test checks;
    tests that can no longer change the word are left out.
    """
    moments = [stack_moments([compute_moments(x) for x in side]) for side in (first, second)]
    item = two_sample.compute_contrast(moments[:1], moments[1:])
    p, p_tost = two_sample.compute_two_sided_p(item), two_sample.compute_equivalence_p(item, MARGIN)
    means = np.array([side.mean for side in moments])
    rooms = np.maximum(means.max(axis=0), 1 - means.min(axis=0))
    q = compute_tolerated_failures(item, np.full(len(first), MARGIN), rooms, LEVEL)
    words = [
        find_word(one, two, float(p[i]), float(p_tost[i]))
        for i, (one, two) in enumerate(zip(first, second, strict=True))
    ]
    return [(word, float(rate)) for word, rate in zip(words, q, strict=True)]


def find_word(one: np.ndarray, two: np.ndarray, p: float, p_tost: float) -> str:
    """Return the word on one pair."""
    ends = 0.0, 1.0
    if p_tost < LEVEL and compute_difference_p(one, two, ends, MARGIN) < LEVEL:
        return EQUIVALENT
    if p < LEVEL and is_confirmed_by_permutation(one, two, p):
        return MEAN if compute_equal_means_p(one, two, ends) < LEVEL else DISTRIBUTION
    failed = int((one < FAILED_BELOW).sum()), int((two < FAILED_BELOW).sum())
    if sum(failed) and compute_fisher_p(failed, (len(one), len(two))) < (FISHER_SHARE * LEVEL):
        return DISTRIBUTION
    return UNLESS if p_tost < LEVEL and not any(failed) else INCONCLUSIVE


def is_confirmed_by_permutation(one: np.ndarray, two: np.ndarray, p: float) -> bool:
    """Return whether the permutation test rejects, too.

    With twenty seeds it always does where Welch's test is very clear. Splits that cannot be
    enumerated are fewer than in verdicts: this adds noise to p, but no bias.
    """
    n, m = len(one), len(two)
    if min(n, m) >= 20 and p < 1e-5:
        return True
    rng = np.random.default_rng(0)
    if n + m <= 16:
        return two_sample.compute_permutation_p(one, two, rng) < LEVEL
    rows = np.tile(np.concatenate([one, two]), (SPLITS + 1, 1))
    rows[1:] = rng.permuted(rows[1:], axis=1)
    a, b = rows[:, :n], rows[:, n:]
    error = np.sqrt(a.var(axis=1, ddof=1) / n + b.var(axis=1, ddof=1) / m)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.nan_to_num((a.mean(axis=1) - b.mean(axis=1)) / error, nan=0.0)
    tails = (ratio >= ratio[0] - 1e-9).mean(), (ratio <= ratio[0] + 1e-9).mean()
    return bool(2 * min(tails) < LEVEL)


@functools.lru_cache(maxsize=100_000)
def compute_fisher_p(failed: tuple[int, int], sizes: tuple[int, int]) -> float:
    """Return the p-value of Fisher's test, cached since counts repeat."""
    return two_sample.compute_fisher_p(failed, sizes)


def count_suite_words(
    name: str,
    draws: Sequence[tuple[Draw, Draw]],
    n: int,
    frameworks: int,
    repeats: int,
    factor: int = 1,
) -> dict[str, float]:
    """Return the share of each statement over a suite of tasks, on pairs with the first framework.

    Args:
        name: Seeds the draws.
        draws: By task the law of the first framework, and of all others.
        n: Seeds per task of the first framework.
        frameworks: Number of frameworks, all pairs of which are corrected together.
        repeats: Number of suites.
        factor: Seeds of the others per seed of the first.
    """
    rng = np.random.default_rng((len(draws), n, frameworks, zlib.crc32(name.encode())))
    found = []
    for _ in range(repeats):
        scores = {
            str(k): tuple(law[min(k, 1)](rng, n * (factor if k else 1)) for law in draws)
            for k in range(frameworks)
        }
        names = tuple(map(str, range(len(draws))))
        sample = SuiteSample(("s", "ppo", "original", ""), names, scores, (0.0, 1.0), ())
        found += [item.statement for item in judge_suite(sample, OPTIONS) if item.first == "0"]
    texts = ("different in mean", "different in distribution", "equivalent", "", "inconclusive")
    return {word: found.count(text) / len(found) for word, text in zip(WORDS, texts, strict=True)}


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=1_000, help="pairs per cell")
    parser.add_argument("--suites", type=int, default=200, help="suites of two frameworks per cell")
    parser.add_argument("--families", type=int, default=12, help="suites of six per cell")
    options = parser.parse_args()
    pooling.PERMUTATIONS = SUITE_SPLITS
    if options.repeats:
        print_pairs(options.repeats)
    if options.suites:
        print_suites(options.suites)
    if options.families:
        print_families(options.families)
    return 0


def print_heading(title: str, text: str, repeats: int) -> None:
    """Print the title of a table, its number of repeats, and the heads of its columns."""
    error = (0.05 * 0.95 / repeats) ** 0.5
    print(f"\n**{title}.** {text} (standard error of 5%: {error:.1%}).\n")
    print(f"| scores | {' | '.join(f'n = {n}' for n in SEEDS)} | false, at most |")
    print(f"|{'---|' * (len(SEEDS) + 2)}")


def print_pairs(repeats: int) -> None:
    """Print a table of pairs per group of shapes."""
    for group in list_groups():
        number = max(1, round(repeats * group.share))
        text = f"False are {' and '.join(group.false)}. {number:,} pairs per cell"
        print_heading(group.title, text, number)
        for shape in group.shapes:
            cells = [count_words(shape, group.false, n, number) for n in SEEDS]
            shown = " | ".join(map(str, cells))
            worst = max(cell.false for cell in cells)
            print(f"| {shape.name} | {shown} | {worst:.1%} |", flush=True)


def print_suites(repeats: int) -> None:
    """Print a table of suites of two frameworks in seven tasks per group of shapes."""
    for group in list_groups():
        number = max(1, round(repeats * group.share))
        text = f"False are {' and '.join(group.false)}. {number:,} suites of 7 tasks per cell"
        print_heading(f"{group.title}, suites", text, number)
        rows = [(shape.name, [(shape.first, shape.second)] * 7) for shape in group.shapes]
        factors = [shape.factor for shape in group.shapes]
        if EQUIVALENT in group.false:
            good = make_normal(0.9, 0.02)
            rows.append(
                ("79% fail in one task", [(make_failing(0.79, 0.9), good), *[(good, good)] * 6])
            )
            factors.append(1)
        for (name, draws), factor in zip(rows, factors, strict=True):
            cells = [count_suite_words(name, draws, n, 2, number, factor) for n in SEEDS]
            shown = " | ".join(str(CountedWords(cell, 0.0)) for cell in cells)
            worst = max(sum(cell[word] for word in group.false) for cell in cells)
            print(f"| {name} | {shown} | {worst:.1%} |", flush=True)


def print_families(suites: int) -> None:
    """Print the table of suites of six frameworks."""
    print(f"\nSuites of six frameworks, {suites} each, Holm's correction over 15 pairs\n")
    print("| scores | tasks | n | equivalent | different |\n|---|---|---|---|---|")
    good = make_normal(0.9, 0.05)
    unequal = [(make_normal(mean, 0.05),) * 2 for mean in np.linspace(0.4, 0.9, 7)]
    name = "no run fails, means of tasks from 0.4 to 0.9"
    for n in (10, 20, 30):
        row = count_suite_words(name, unequal, n, 6, suites)
        different = row[MEAN] + row[DISTRIBUTION]
        print(f"| {name} | 7 | {n} | {row[EQUIVALENT]:.2f} | {different:.2f} |", flush=True)
    for name, draws in (
        ("no run fails", (good, good)),
        ("2% of runs fail in all", (make_failing(0.02, 0.9), make_failing(0.02, 0.9))),
        ("11% of the first one's runs fail", (make_failing(0.112, 0.9), make_failing(0.0, 0.9))),
        ("first one lower by 0.1", (make_normal(0.8, 0.05), good)),
        ("first one lower by 0.3", (make_normal(0.6, 0.1), make_normal(0.9, 0.1))),
    ):
        for tasks, n in ((4, 5), (4, 10), (7, 5), (7, 10), (7, 20)):
            row = count_suite_words(name, [draws] * tasks, n, 6, suites)
            different = row[MEAN] + row[DISTRIBUTION]
            print(
                f"| {name} | {tasks} | {n} | {row[EQUIVALENT]:.2f} | {different:.2f} |", flush=True
            )


if __name__ == "__main__":
    sys.exit(main())
