"""What the runs of a study decide, setting by setting, in words with n and interval.

Which pairs of frameworks differ, which are equivalent, which are undecided; how algorithms rank in
each framework; what can be held against published numbers.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence

from tabulate import tabulate

from analysis.data.runs import Cell
from analysis.report import held, learned
from analysis.report.statements import (
    ends_from_above,
    p_text,
    plural,
    recipe_words,
    verdict_counts,
)
from analysis.verdicts.consistency import DIFFERENT, EQUIVALENT, UNDECIDED, PairVerdict
from analysis.verdicts.defaults import members
from analysis.verdicts.groups import Group
from analysis.verdicts.learning import Learning
from analysis.verdicts.options import Options
from analysis.verdicts.ranking import (
    MAGNITUDE,
    NOT_PRESERVED,
    PRESERVED,
    Ranked,
    RankingVerdict,
)
from analysis.verdicts.ranking import UNDECIDED as OPEN
from analysis.verdicts.reproduction import ReproductionVerdict
from analysis.verdicts.study import StudyVerdicts
from analysis.words import label, number, order_words, own_parts, plain, seeds_words, span


@dataclasses.dataclass(frozen=True)
class Section:
    """Some lines of Markdown under a heading.

    Attributes:
        heading: The heading.
        blocks: Paragraphs, lists and tables.
    """

    heading: str
    blocks: tuple[str, ...]


def settings(verdicts: StudyVerdicts, pairs: Sequence[PairVerdict]) -> tuple[Section, ...]:
    """A section for each algorithm, task and recipe that two frameworks or more were run in.

    Args:
        verdicts: Those of the study.
        pairs: Which of them it is about: `main_pairs` or `default_pairs`.
    """
    cells = sorted({item.cell for item in pairs}, key=lambda cell: (cell.algorithm, cell))
    sections = []
    for cell in cells:
        own = [item for item in pairs if item.cell == cell]
        groups = members(cell, verdicts.groups)
        heading = place(cell, groups, cells)
        found = _learning(cell, verdicts)
        blocks = _setting(own, groups, found, verdicts.options)
        sections.append(Section(heading, (*blocks, _every_pair(own))))
    return tuple(sections)


def place(cell: Cell, groups: Sequence[Group], cells: Sequence[Cell]) -> str:
    """A setting in words, with what is held of its recipe and the steps that runs were scored at.

    Args:
        cell: The setting.
        groups: Its groups.
        cells: All settings; what is the same in all of the algorithm's is left out.
    """
    parts = own_parts(cell, [other for other in cells if other.algorithm == cell.algorithm])
    parts += [f"study {cell.study}"] * (len({other.study for other in cells}) > 1)
    own = f" ({', '.join(part for part in parts if part)})" if any(parts) else ""
    steps = sorted({step for group in groups for step in group.steps})
    at = " to ".join(f"{step:,}" for step in dict.fromkeys((steps[0], steps[-1]))) if steps else ""
    after = f", after {at} steps" if at else ""
    own += held.as_in_recipe(group.runs for group in groups)
    return f"{label(cell.algorithm)} on {cell.env} under {recipe_words(cell.hps)}{own}{after}"


def summary(verdicts: StudyVerdicts, pairs: Sequence[PairVerdict]) -> str:
    """A table of each setting: who is above random actions, how many pairs are decided how."""
    if not pairs:
        return ""
    rows = []
    for cell in sorted({item.cell for item in pairs}, key=lambda cell: (cell.algorithm, cell)):
        own = [item for item in pairs if item.cell == cell]
        counts = [
            str(sum(item.verdict == verdict for item in own))
            for verdict in (DIFFERENT, EQUIVALENT, UNDECIDED)
        ]
        named = [label(cell.algorithm), cell.env, recipe_words(cell.hps), sizes_in_words(own)]
        found = _learning(cell, verdicts)
        above = learned.counted(found) + learned.below(found)
        margin = " to ".join(dict.fromkeys(number(size) for size in _ends(own)))
        rows.append([*named, above, margin, str(len(own)), *counts])
    heads = ["algorithm", "task", "hyperparameters", "n", "above random actions", "margin"]
    heads += ["pairs", DIFFERENT, EQUIVALENT, UNDECIDED]
    return tabulate(rows, heads, tablefmt="pipe", disable_numparse=True)


def _ends(pairs: Sequence[PairVerdict]) -> tuple[float, float]:
    sizes = [item.margin.size for item in pairs]
    return min(sizes), max(sizes)


def existence(verdicts: StudyVerdicts) -> str:
    """Whether frameworks differ at all, be it that no pair can be named, for each algorithm."""
    known = [item for item in verdicts.existence if item.count.tests]
    if not known:
        return ""
    several = len({item.variant for item in known}) > len({item.algorithm for item in known})
    lines = [
        f"- {label(item.algorithm)}{f' ({plain(item.variant)})' * several}: {item.verdict}; "
        f"{item.count.observed} of {plural(item.count.tests, 'pair')} significant one by one, "
        f"{item.count.mean:.1f} on average if nothing differed, {plain(p_text(item.count.p))}."
        for item in known
    ]
    lead = (
        "Do frameworks differ at all, be it that no pair can be named? Pairs of all tasks and "
        "recipes above, against studies made up of the same scores in which nothing differs:"
    )
    return "\n".join([lead, "", *lines])


def main_pairs(verdicts: StudyVerdicts) -> tuple[PairVerdict, ...]:
    """Pairs of frameworks in what the study is about; all of them where it is about nothing."""
    main = tuple(item for item in verdicts.consistency if verdicts.is_main(item.cell))
    return main or verdicts.consistency


def default_pairs(verdicts: StudyVerdicts) -> tuple[PairVerdict, ...]:
    """Pairs of frameworks, each under its own defaults, in what the study is about."""
    return tuple(item for item in verdicts.defaults if verdicts.is_main(item.cell))


def _learning(cell: Cell, verdicts: StudyVerdicts) -> list[Learning]:
    groups = members(cell, verdicts.groups)
    return [item for item in verdicts.learning if item.group in groups]


def _setting(
    pairs: Sequence[PairVerdict],
    groups: Sequence[Group],
    found: Sequence[Learning],
    options: Options,
) -> tuple[str, ...]:
    blocks = [_sizes(groups), *filter(None, [learned.in_words(found, pairs)])]
    for verdict, lead in (
        (DIFFERENT, "Different"),
        (EQUIVALENT, f"Equivalent within {options.margin_share:.0%}"),
    ):
        own = [item for item in pairs if item.verdict == verdict]
        own.sort(key=lambda item: -abs(item.difference))
        head = f"{lead}: {len(own) or 'none'} of {plural(len(pairs), 'pair')}"
        head += f" (n = {sizes_in_words(pairs)})" * (not own)
        blocks.append(_listed(head, [pair_in_words(item) for item in own]))
    undecided = [item for item in pairs if item.verdict == UNDECIDED]
    blocks += [_undecided(undecided, len(pairs), options), _so_far(pairs, options)]
    if not all(item.range.known for item in pairs):
        blocks.append(
            "Parallax has no published score of this algorithm on this task and no range of its "
            "scores was given, so that no number of runs can show frameworks to be equivalent here."
        )
    return tuple(blocks)


def _so_far(pairs: Sequence[PairVerdict], options: Options) -> str:
    """Pairs that only runs not seen keep from being equivalent."""
    found = [
        f"{label(item.first.framework)} and {label(item.second.framework)}"
        for item in pairs
        if item.alike_so_far
    ]
    if not found:
        return ""
    return (
        f"Of the undecided, {plural(len(found), 'pair')} would be equivalent but for runs that "
        f"were not seen, by two one-sided tests at {options.alpha:.0%}, one by one: "
        f"{', '.join(found)}."
    )


def _sizes(groups: Sequence[Group]) -> str:
    sizes = {group.framework: (group.requested, group.completed, group.n) for group in groups}
    found = [*sizes.values()]
    usual = max(sorted(set(found), reverse=True), key=found.count)
    odd = [
        f"{label(name)} {'/'.join(map(str, size))}" for name, size in sizes.items() if size != usual
    ]
    text = f"{plural(len(sizes), 'framework')}, runs requested/completed/used: "
    text += f"{'/'.join(map(str, usual))} of each"
    text += f", but {', '.join(odd)}." if odd else "."
    return text + held.alike_in_words([run for group in groups for run in group.runs])


def _listed(head: str, items: Sequence[str]) -> str:
    if not items:
        return f"{head}."
    return "\n".join([f"{head}:", "", *(f"- {item}." for item in items)])


def pair_in_words(item: PairVerdict) -> str:
    """Two frameworks, how far they are apart with the 95% interval, n and the corrected p-value."""
    high, low = sorted((item.first, item.second), key=lambda group: -float(group.moments.mean))
    text = (
        f"{label(high.framework)} ({number(float(high.moments.mean))}) above "
        f"{label(low.framework)} ({number(float(low.moments.mean))}) by "
        f"{number(abs(item.difference))}, 95% interval "
        f"{ends_from_above(item.difference, item.low, item.high)}, n = {high.n} and {low.n}"
    )
    if item.verdict == EQUIVALENT:
        p = p_text(item.p_equivalence_holm)
        return f"{text}, margin {number(item.margin.size)}, corrected {p}"
    return f"{text}, corrected {p_text(item.p_holm)}"


def _every_pair(pairs: Sequence[PairVerdict]) -> str:
    """A table of all pairs, folded."""
    rows = [
        [
            f"{label(item.first.framework)} less {label(item.second.framework)}",
            number(item.difference),
            f"\\[{number(item.low)}, {number(item.high)}]",
            f"{item.first.n} and {item.second.n}",
            plain(p_text(item.p_holm).removeprefix("p = ").removeprefix("p ")),
            item.verdict,
            plain(seeds_words(item.seeds_needed)) if item.verdict == UNDECIDED else "",
        ]
        for item in pairs
    ]
    heads = ["pair", "difference", "95% interval", "n", "corrected p", "verdict"]
    heads.append("seeds needed")
    table = tabulate(rows, heads, tablefmt="pipe", disable_numparse=True)
    lead = f"<summary>All {plural(len(pairs), 'pair')}</summary>"
    return f"<details>{lead}\n\n{table}\n\n</details>"


def _undecided(items: Sequence[PairVerdict], total: int, options: Options) -> str:
    if not items:
        return f"Undecided: none of {plural(total, 'pair')}."
    gaps = sorted(abs(item.difference) for item in items)
    known = [item for item in items if not math.isnan(item.low)]
    apart = " to ".join(dict.fromkeys((number(gaps[0]), number(gaps[-1]))))
    text = (
        f"Undecided: {len(items)} of {plural(total, 'pair')}, by n = {sizes_in_words(items)} runs "
        f"per framework. {'Their means are' if len(items) > 1 else 'Its means are'} {apart} apart."
    )
    if known:
        widest = max(known, key=lambda item: item.high - item.low)
        text += (
            f" The widest 95% interval, of {label(widest.first.framework)} less "
            f"{label(widest.second.framework)}, is [{number(widest.low)}, {number(widest.high)}]."
        )
    needed = sorted(item.seeds_needed for item in items if not math.isnan(item.seeds_needed))
    if needed:
        middle = needed[len(needed) // 2]
        seeds = f"at least {middle:.0f}" if math.isfinite(middle) else "more than 1,000"
        who = "Half of them" if len(items) > 1 else "It"
        text += (
            f" {who} would need {seeds} seeds per framework for {options.power:.0%} power, "
            "if the measured values were the true ones."
        )
    return text


def sizes_in_words(items: Sequence[PairVerdict]) -> str:
    """The least and the largest number of runs behind a mean."""
    return span(group.n for item in items for group in (item.first, item.second))


def ranking(verdicts: StudyVerdicts) -> tuple[Section, ...]:
    """A section for each task and configuration in which algorithms can be ranked."""
    main = [item for item in verdicts.rankings if verdicts.ranks_main(item)]
    return tuple(
        Section(
            f"{item.env}, {recipe_words(item.hps)}: {', '.join(map(label, item.algorithms))}",
            _ranking(item),
        )
        for item in main or verdicts.rankings
    )


def unranked(verdicts: StudyVerdicts) -> str:
    """A sentence on algorithms that stand in no ranking; empty where there are none."""
    ranked = {name for item in verdicts.rankings for name in item.algorithms}
    others = sorted({group.cell.algorithm for group in verdicts.groups if group.n} - ranked)
    if not others:
        return ""
    names = ", ".join(map(label, others))
    return (
        f"In no ranking: {names}. Algorithms are ranked where two frameworks ran the same two of "
        "them on the same task, for the same steps and with hyperparameters of the same name."
    )


_ENOUGH = 10  # runs per mean; of fewer a bootstrap's means lie too close together
_HOLDS = {
    PRESERVED: "The ranking holds",
    MAGNITUDE: "No reversal is shown, but distances differ",
    NOT_PRESERVED: "The ranking does not hold",
    OPEN: "Whether the ranking holds is undecided",
}


def _ranking(item: RankingVerdict) -> tuple[str, ...]:
    counts = verdict_counts(
        [pair.verdict for pair in item.pairs], (PRESERVED, MAGNITUDE, NOT_PRESERVED, OPEN)
    )
    groups = [group for ranked in item.rankings for group in ranked.groups]
    alike = sum(pair.tau_b_means == 1 for pair in item.pairs)
    text = (
        f"{_HOLDS[item.verdict]}, by the worst of {plural(len(item.pairs), 'pair')} of frameworks: "
        f"{counts}; means alone are in the same order in {alike}; "
        f"n = {span(group.n for group in groups)} runs per mean."
    )
    if min(group.n for group in groups) >= _ENOUGH:
        text += (
            " Probability that no two means are in opposite orders, by the bootstrap: "
            f"{order_words(item.same_order, item.chance)}."
        )
    two = list(itertools.combinations(range(len(item.algorithms)), 2))
    heads = [f"{label(item.algorithms[i])} less {label(item.algorithms[j])}" for i, j in two]
    rows = [
        [label(one.framework), *(_gap(one, *pair) for pair in two), _ranks(one, item)]
        for one in item.rankings
    ]
    table = tabulate(rows, ["framework", *heads, "ranks"], tablefmt="pipe", disable_numparse=True)
    note = "Differences of means with 95% intervals; bold: separated after correction."
    left = f" Left out: {'; '.join(item.left_out)}." if item.left_out else ""
    return text, table, note + left


def _gap(ranked: Ranked, i: int, j: int) -> str:
    gap, low, high = ranked.gap(i, j)
    text = number(gap) if math.isnan(low) else f"{number(gap)} \\[{number(low)}, {number(high)}]"
    return f"**{text}**" if ranked.signs[i, j] else text


def _ranks(ranked: Ranked, item: RankingVerdict) -> str:
    found = sorted(zip(ranked.ranks, item.algorithms, strict=True))
    return ", ".join(f"{label(name)} {rank:g}" for rank, name in found)


def published(verdicts: StudyVerdicts) -> tuple[str, ...]:
    """What can be held against published numbers, and of how many numbers that cannot be said."""
    groups = [group for group in verdicts.groups if group.n]
    items = verdicts.reproduction
    comparable = [item for item in items if not item.remarks]
    blocks = []
    if comparable:
        tested = sorted(comparable, key=lambda item: (item.group.cell, item.group.framework))
        head = f"Of one kind with a published number: {plural(len(tested), 'comparison')}"
        blocks.append(_listed(head, [_held_against(item) for item in tested]))
    others = [item for item in items if item.remarks]
    if others:
        lead = "Nothing comparable is published. " * (not comparable)
        blocks.append(
            f"{lead}{plural(len(others), 'comparison')} with published numbers of another kind "
            f"stand in tables/reproduction.csv, each with what is another: {_kinds(others)}. The "
            "tests in that file take both numbers as if they were of one kind; nothing here rests "
            "on them."
        )
    bare = sorted(
        {(group.cell.algorithm, group.cell.env) for group in groups}
        - {(item.group.cell.algorithm, item.group.cell.env) for item in items}
    )
    if bare:
        names = ", ".join(f"{label(algorithm)} on {env}" for algorithm, env in bare)
        blocks.append(f"Parallax has no published number for {names} under a recipe of these runs.")
    return tuple(blocks)


def _held_against(item: ReproductionVerdict) -> str:
    group, cell = item.group, item.group.cell
    return (
        f"{place(cell, [group], [cell])}: {label(group.framework)} is "
        f"{item.two_sided or 'not tested'}, "
        f"{number(float(group.moments.mean))} against {number(item.published.mean)} "
        f"({item.published.source}), difference {number(item.difference)}, 95% interval "
        f"[{number(item.low)}, {number(item.high)}], n = {group.n}"
    )


def _kinds(items: Sequence[ReproductionVerdict]) -> str:
    """How many of the numbers differ in what."""
    kinds = {"another statistic": "published: ", "another version of the task": "task "}
    kinds["another number of steps"] = "published at "
    counts = {
        words: sum(any(remark.startswith(lead) for remark in item.remarks) for item in items)
        for words, lead in kinds.items()
    }
    return ", ".join(f"{words} in {count}" for words, count in counts.items() if count)
