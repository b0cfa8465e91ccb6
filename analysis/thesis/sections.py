"""What the published tables answer to the three questions, as Markdown."""

import collections
import dataclasses
from collections.abc import Sequence

from tabulate import tabulate

from analysis.answers import Answers
from analysis.consistency import UNDECIDED, PairVerdict
from analysis.consistency import consistency as pairs_of
from analysis.numbers import number
from analysis.options import FAMILIES, Options
from analysis.published import split_version
from analysis.ranking import OWN
from analysis.thesis.statements import CONFIGURATIONS

_ALGORITHMS = ("ppo", "td3", "sac")
_FAMILY_WORDS = {
    "algorithm": "96 pairs of an algorithm",
    "setting": "3 pairs of a setting",
    "all": "all 288 pairs",
}


def table(rows: Sequence[Sequence[object]], headings: Sequence[str]) -> str:
    """A Markdown table; nothing in it is read as a number."""
    return tabulate(rows, headings, tablefmt="pipe", disable_numparse=True)


def reproduction(answers: Answers) -> list[str]:
    """The section on reproduction: heading, text and tables."""
    items = [item for item in answers.reproduction if item.published.table == "thesis_targets"]
    cells: dict[tuple[str, str], dict[str, str]] = collections.defaultdict(dict)
    for item in items:
        key = (item.group.cell.algorithm, item.published.env)
        remark = "" if item.published.steps == item.group.steps[0] else "*"
        cells[key][item.group.framework] = f"{item.thesis_form} / {item.two_sided}{remark}"
    frameworks = sorted({item.group.framework for item in items})
    targets = {(item.group.cell.algorithm, item.published.env): item.published for item in items}
    rows = [
        (
            algorithm,
            env,
            f"{number(targets[algorithm, env].mean)} at {targets[algorithm, env].steps:,}",
            *(cells[algorithm, env].get(name, "") for name in frameworks),
        )
        for algorithm, env in sorted(cells, key=lambda key: (_ALGORITHMS.index(key[0]), key[1]))
    ]
    forms = collections.Counter(item.thesis_form for item in items)
    counts = ", ".join(f"{forms[word]} {word}" for word in ("worse", "similar", "better"))
    return [
        "## Reproduction",
        "The 18 read-offs of the thesis against its own tables: in the thesis' form / by a "
        "two-sided t test that takes the read-off as exact. The read-offs are of task versions v1 "
        "and v2, the tables of v4.",
        table(rows, ("", "task", "published", *frameworks)),
        f"\\* published at fewer steps than the tables' 3,000,000. In the thesis' form: {counts} "
        f"of {len(items)}. The thesis counts 17, 21 and 16, at the published numbers of steps, "
        "which its tables do not show.",
    ]


def consistency(answers: Answers) -> list[str]:
    """The section on consistency: heading, text and tables."""
    rows = []
    for family in FAMILIES:
        options = dataclasses.replace(answers.options, family=family)
        found = pairs_of(answers.groups, options)
        for algorithm in _ALGORITHMS:
            own = [item for item in found if item.cell.algorithm == algorithm]
            words = collections.Counter(item.verdict for item in own)
            rows.append(
                (
                    _FAMILY_WORDS[family],
                    algorithm,
                    *(str(words[word]) for word in ("different", "equivalent", "undecided")),
                    str(sum(item.p_welch < answers.options.alpha for item in own)),
                )
            )
    likely = sorted(answers.consistency, key=lambda item: item.p_welch)[:12]
    headings = ("family of the correction", "", "different", "equivalent", "undecided")
    return [
        "## Consistency",
        "288 pairs of frameworks under equal hyperparameters, with a margin of "
        f"{answers.options.margin_share:.0%} of the published score.",
        table(rows, (*headings, "p < 0.05 uncorrected")),
        _needed(answers.consistency, answers.options),
        f"The likeliest differences, none of which needs to be one ({_FAMILY_WORDS['algorithm']} "
        "is the family):",
        table([_pair(item) for item in likely], _PAIR_HEADINGS),
    ]


_PAIR_HEADINGS = ("cell", "frameworks", "difference", "95% interval", "p", "corrected p", "seeds")


def _pair(item: PairVerdict) -> tuple[str, ...]:
    cell = item.cell
    return (
        f"{cell.algorithm}, {split_version(cell.env)[0]}, {cell.hps}",
        f"{item.first.framework} - {item.second.framework}",
        number(item.difference),
        f"{number(item.low)} to {number(item.high)}",
        f"{item.p_welch:.4f}",
        f"{item.p_holm:.2f}",
        f"{item.seeds_needed:.0f}" if item.seeds_needed < float("inf") else "over 1000",
    )


def _needed(items: Sequence[PairVerdict], options: Options) -> str:
    needed = [item.seeds_needed for item in items if item.verdict == UNDECIDED]
    parts = [
        f"{sum(low < value <= high for value in needed)} with {words}"
        for low, high, words in (
            (0, 10, "up to 10 seeds"),
            (10, 20, "11 to 20"),
            (20, 50, "21 to 50"),
            (50, 1000, "51 to 1000"),
            (1000, float("inf"), "more"),
        )
    ]
    return (
        f"Of the {len(needed)} undecided pairs, {options.power:.0%} power for a verdict either way "
        f"would be reached, if what is printed were the truth: {', '.join(parts)} per framework."
    )


def ranking(answers: Answers) -> list[str]:
    """The section on ranking: heading, text and tables."""
    envs = sorted({item.env for item in answers.rankings})
    cells = {(item.env, item.hps): item for item in answers.rankings}
    rows = [
        (
            split_version(env)[0],
            *(
                f"{cells[env, hps].verdict} ({cells[env, hps].same_order:.2f})"
                for hps in (*CONFIGURATIONS, OWN)
            ),
        )
        for env in envs
    ]
    return [
        "## Ranking",
        "Whether three frameworks rank PPO, TD3 and SAC alike: the worst verdict over pairs of "
        "frameworks, and in brackets the probability that no two algorithms' means are in opposite "
        "orders in any two frameworks.",
        table(rows, ("task", *(f"under {hps}" for hps in CONFIGURATIONS), OWN)),
    ]
