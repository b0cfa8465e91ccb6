"""Verdicts on the thesis' published tables alone, as one page.

It also checks whether the deviations recovered from its intervals can be those of five runs.
"""

import collections
import dataclasses
from collections.abc import Sequence

import numpy as np

from parallax.analysis.data.published import split_version
from parallax.analysis.labels import LIBRARY_DEFAULTS, format_number
from parallax.analysis.report import document
from parallax.analysis.thesis.claims import judge_thesis_claims
from parallax.analysis.thesis.evidence import (
    CONFIGURATIONS,
    NOT_CONTRADICTED,
    NOT_SUPPORTED,
    UNNAMED,
    ThesisClaim,
)
from parallax.analysis.verdicts.consistency import PairVerdict, judge_consistency
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import FAMILIES, VerdictOptions
from parallax.analysis.verdicts.reproduction import TARGETS_TABLE
from parallax.analysis.verdicts.statements import INCONCLUSIVE
from parallax.analysis.verdicts.study import StudyVerdicts

_ALGORITHMS = ("ppo", "td3", "sac")
_FAMILY_PHRASES = {
    "algorithm": "96 pairs of an algorithm",
    "setting": "3 pairs of a setting",
    "all": "all 288 pairs",
}


def make_reproduction_section(verdicts: StudyVerdicts) -> document.ReportSection:
    """Return the section on reproduction."""
    items = [item for item in verdicts.reproduction if item.published.table == TARGETS_TABLE]
    cells: dict[tuple[str, str], dict[str, str]] = collections.defaultdict(dict)
    for item in items:
        key = (item.group.cell.algorithm, item.published.env)
        remark = "" if item.published.steps == item.group.steps[0] else "*"
        cells[key][item.group.framework] = (
            f"{item.verdict_thesis_interval} / {item.verdict_two_sided_test}{remark}"
        )
    frameworks = sorted({item.group.framework for item in items})
    targets = {(item.group.cell.algorithm, item.published.env): item.published for item in items}
    rows = [
        (
            algorithm,
            env,
            f"{format_number(targets[algorithm, env].mean)} at {targets[algorithm, env].steps:,}",
            *(cells[algorithm, env].get(name, "") for name in frameworks),
        )
        for algorithm, env in sorted(cells, key=lambda key: (_ALGORITHMS.index(key[0]), key[1]))
    ]
    forms = collections.Counter(item.verdict_thesis_interval for item in items)
    counts = ", ".join(f"{forms[word]} {word}" for word in ("worse", "similar", "better"))
    blocks: tuple[document.Block, ...] = (
        "The thesis read 18 scores off figures. Here its tables are compared with them, by its "
        "rule / by a two-sided t test with the score as exact. The scores are of task versions v1 "
        "and v2, the tables of v4.",
        _make_grid(rows, ("", "task", "published", *frameworks)),
        f"* published at fewer steps than the tables' 3,000,000. In the thesis' form: {counts} "
        f"of {len(items)}. The thesis counts 17, 21 and 16, at the published numbers of steps, "
        "which its tables do not show.",
    )
    return document.ReportSection("Reproduction", blocks)


def make_consistency_section(verdicts: StudyVerdicts) -> document.ReportSection:
    """Return the section on consistency."""
    rows = []
    for family in FAMILIES:
        options = dataclasses.replace(verdicts.options, family=family)
        found = judge_consistency(verdicts.groups, options)
        for algorithm in _ALGORITHMS:
            own = [item for item in found if item.cell.algorithm == algorithm]
            words = collections.Counter(item.verdict for item in own)
            rows.append(
                (
                    _FAMILY_PHRASES[family],
                    algorithm,
                    *(str(words[word]) for word in ("different", "equivalent", "inconclusive")),
                    str(sum(item.p_welch < verdicts.options.alpha for item in own)),
                )
            )
    likely = sorted(verdicts.consistency, key=lambda item: item.p_welch)[:12]
    headings = ("family of the correction", "", "different", "equivalent", "inconclusive")
    blocks: tuple[document.Block, ...] = (
        "288 pairs of frameworks under equal hyperparameters, with a margin of "
        f"{verdicts.options.margin_description}. Five runs of each can show no equivalence: that "
        "none of five failed still allows a failure rate of 45%.",
        _make_grid(rows, (*headings, "p < 0.05 uncorrected")),
        _describe_seeds_needed(verdicts.consistency, verdicts.options),
        f"The most likely differences, which may all be chance ({_FAMILY_PHRASES['algorithm']} "
        "is the family):",
        _make_grid([_format_pair(item) for item in likely], _PAIR_HEADINGS),
    )
    return document.ReportSection("Consistency", blocks)


_PAIR_HEADINGS = ("cell", "frameworks", "difference", "95% interval", "p", "corrected p", "seeds")


def _format_pair(item: PairVerdict) -> tuple[str, ...]:
    cell = item.cell
    return (
        f"{cell.algorithm}, {split_version(cell.env)[0]}, {cell.hps}",
        f"{item.first.framework} - {item.second.framework}",
        format_number(item.difference),
        f"{format_number(item.low)} to {format_number(item.high)}",
        f"{item.p_welch:.4f}",
        f"{item.p_holm:.2f}",
        f"{item.seeds_needed:.0f}" if item.seeds_needed < float("inf") else "over 1000",
    )


def _describe_seeds_needed(items: Sequence[PairVerdict], options: VerdictOptions) -> str:
    needed = [item.seeds_needed for item in items if item.verdict == INCONCLUSIVE]
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
        f"If the printed values were true, the {len(needed)} inconclusive pairs would get a "
        f"verdict with {options.power:.0%} power with these numbers of seeds per framework: "
        f"{', '.join(parts)}."
    )


def make_ranking_section(verdicts: StudyVerdicts) -> document.ReportSection:
    """Return the section on ranking."""
    envs = sorted({item.env for item in verdicts.rankings})
    cells = {(item.env, item.hps): item for item in verdicts.rankings}
    rows = [
        (
            split_version(env)[0],
            *(
                f"{cells[env, hps].verdict} ({cells[env, hps].same_order:.2f}, "
                f"{cells[env, hps].chance.mean:.2f})"
                for hps in (*CONFIGURATIONS, LIBRARY_DEFAULTS)
            ),
        )
        for env in envs
    ]
    blocks: tuple[document.Block, ...] = (
        "Do three frameworks rank PPO, TD3 and SAC in the same order? A cell has the worst verdict "
        "over pairs of frameworks. In brackets are the probability that no two algorithms' means "
        "are in opposite orders in any two frameworks, and its average if all algorithms tied.",
        _make_grid(rows, ("task", *(f"under {hps}" for hps in CONFIGURATIONS), LIBRARY_DEFAULTS)),
    )
    return document.ReportSection("Ranking", blocks)


CAPPED_TASK, MAX_RETURN = "InvertedPendulum", 1000.0  # no return there is below 0 or above 1000


def make_deviations_section(groups: Sequence[ScoreGroup]) -> document.ReportSection:
    """Return the section on recovered deviations."""
    own = [group for group in groups if split_version(group.cell.env)[0] == CAPPED_TASK]
    possible = sum(_is_possible_deviation(group) for group in own)
    solved = sum(float(group.moments.sd) == 0 for group in own)
    blocks: tuple[document.Block, ...] = (
        "Standard deviations are recovered from the intervals, mean ± 1.96·d/√5 with the "
        'population deviation d. "800.6 ± 349.6" on InvertedPendulum results from four runs at '
        f"1000 and one at 3. Returns of this task are between 0 and {MAX_RETURN:g}, so d² is at "
        f"most mean·({MAX_RETURN:g} - mean): {possible} of {len(own)} cells satisfy this, and "
        f"{solved} of them have five runs at {MAX_RETURN:g} with no deviation at all.",
    )
    return document.ReportSection("Recovered deviations", blocks)


def _is_possible_deviation(group: ScoreGroup) -> bool:
    """Return whether five returns in [0, MAX_RETURN] can have these moments, up to rounding."""
    n, half = float(group.moments.n), group.rounding
    population = float(group.moments.sd) * np.sqrt((n - 1) / n)
    least = max(0.0, population - half * np.sqrt(n) / 1.96)
    means = np.clip(float(group.moments.mean) + np.array([-half, 0, half]), 0, MAX_RETURN)
    return bool(least**2 <= max(means * (MAX_RETURN - means)))


_STATISTICS = document.Link("Statistics", "explanation/statistics.md")
_INTRODUCTION: tuple[document.Block, ...] = (
    (
        'Tables 9 to 11 of "How Stable are Baselines" (Janssens 2025) give means and intervals of '
        "five runs for 288 cells. This page applies the rules of ",
        _STATISTICS,
        " to them. It contains no run of ours. It is written by",
    ),
    document.CodeBlock(("parallax study thesis --output docs",)),
    "The thesis says that two of PPO's runs with TorchRL failed; n = 5 is used as printed. Tests "
    "assume normal means, which is a rough approximation with five runs of which one may have "
    "failed. The single runs are not published.",
)


def make_thesis_document(verdicts: StudyVerdicts) -> document.Document:
    """Return the whole page, from the verdicts on the thesis' tables."""
    blocks = (
        *_INTRODUCTION,
        make_deviations_section(verdicts.groups),
        _make_claims_section(judge_thesis_claims(verdicts), verdicts.options),
        make_reproduction_section(verdicts),
        make_consistency_section(verdicts),
        make_ranking_section(verdicts),
    )
    return document.Document("What the thesis' tables show", blocks)


def _make_grid(rows: Sequence[Sequence[document.Words]], heads: Sequence[str]) -> document.Grid:
    return document.Grid(tuple(heads), tuple(map(tuple, rows)))


def _make_claims_section(
    statements: Sequence[ThesisClaim], options: VerdictOptions
) -> document.ReportSection:
    rows: list[tuple[document.Words, ...]] = [
        (str(i), item.section, item.claim, (document.Strong(item.verdict),))
        for i, item in enumerate(statements, 1)
    ]
    details = tuple(f"{item.reading} Found: {item.outcome}." for item in statements)
    blocks: tuple[document.Block, ...] = (
        f"Statements of sections 6.2 and 6.3 at {options.alpha:.0%}, corrected by Holm's method "
        "over the comparisons of each statement. The text does not name the tasks of most panels "
        "of Figures 6 to 11, so the widest set of cells that fits was used.",
        _make_grid(rows, ("", "section", "statement", "verdict")),
        (
            f"Not supported by the numbers: {_list_with_verdict(statements, NOT_SUPPORTED)}. "
            f"Neither shown nor contradicted: {_list_with_verdict(statements, NOT_CONTRADICTED)}. "
            f"Differences exist, none can be named: {_list_with_verdict(statements, UNNAMED)}. Not "
            "supported does not mean refuted: five runs leave most differences open. Differences "
            "exist if more comparisons are significant without correction than in simulated "
            "studies in which nothing differs, with the same cells compared (",
            _STATISTICS,
            ").",
        ),
        document.Listing(details, "How each statement was tested", is_numbered=True),
    )
    return document.ReportSection("The thesis' statements on its results", blocks)


def _list_with_verdict(statements: Sequence[ThesisClaim], verdict: str) -> str:
    found = [str(i) for i, item in enumerate(statements, 1) if item.verdict == verdict]
    return f"{', '.join(found) or 'none'} of {len(statements)}"
