"""Consistency (RQ2): the answer in words on whether frameworks score the same."""

import collections
import math
from collections.abc import Sequence

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.labels import (
    MISSING,
    describe_sizes_used,
    format_count,
    format_higher_minus_lower_interval,
    format_number,
    format_p_value,
    format_range,
    format_setting,
    format_verdict_counts,
    get_label,
    group_by_variant,
    split_main_variants,
)
from parallax.analysis.report import document
from parallax.analysis.report.sections import learning
from parallax.analysis.report.sections.suite import describe_suites
from parallax.analysis.verdicts import statements
from parallax.analysis.verdicts.consistency import PairVerdict
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.statements import DIFFERENT, EQUIVALENT, INCONCLUSIVE
from parallax.analysis.verdicts.study import StudyVerdicts

_FAMILY_PHRASES = {
    "algorithm": "all pairs of an algorithm in a study",
    "setting": "all pairs of a setting",
    "all": "all pairs",
}
VERDICT_ORDER = (DIFFERENT, EQUIVALENT, INCONCLUSIVE)
_FINDING_ORDER = (DIFFERENT, statements.UNEQUAL_FAILURES, EQUIVALENT, statements.CONDITIONAL_PREFIX)


def answer_consistency(verdicts: StudyVerdicts) -> document.QuestionAnswer:
    """Answer whether frameworks score the same under equal settings."""
    items = verdicts.consistency
    question = "Do frameworks score the same under the same hyperparameters?"
    if not items:
        text = "No two frameworks have a run used in the same setting."
        return document.QuestionAnswer(
            question, document.LinkedSentence(text), _describe_defaults(verdicts)
        )
    cells = [item.cell for item in items]
    main, shown = verdicts.main_consistency, set(verdicts.main_consistency)
    others = [item for item in items if item not in shown]
    parts = [
        _link_sentence(
            f"{get_label(own[0].cell.algorithm)}: {_describe_study_part(own, verdicts)}", own
        )
        for _, own in group_by_variant(main, cells, lambda item: item.cell)
    ]
    parts += [
        _link_sentence(f"Apart from these, {words}: {_describe_study_part(own, verdicts)}", own)
        for words, own in group_by_variant(others, cells, lambda item: item.cell)
    ]
    parts += _describe_defaults(verdicts)
    parts += _link_suites(verdicts)
    findings = [
        _describe_finding(group[0], cells, verdicts)
        if len(group) == 1
        else _describe_outlier_framework(name, group, cells)
        for name, group in group_by_outlier_framework(_select_findings(main, verdicts))
    ]
    headline = _link_sentence(_format_headline(main, verdicts), main)
    return document.QuestionAnswer(question, headline, tuple(parts), tuple(findings))


def _link_sentence(text: str, items: Sequence[PairVerdict]) -> document.LinkedSentence:
    return document.LinkedSentence(text, _link_pairs(items), "t-consistency")


def _select_findings(items: Sequence[PairVerdict], verdicts: StudyVerdicts) -> list[PairVerdict]:
    """Return the pairs with a finding, the clearest first."""
    found = [
        item
        for item in items
        if _name_finding(item) != INCONCLUSIVE and not _is_unlearned(item, verdicts)
    ]

    def get_sort_key(item: PairVerdict) -> tuple[object, ...]:
        order = _FINDING_ORDER.index(_name_finding(item))
        return order, item.p_holm, -abs(item.hedges_g[0]), item.cell

    return sorted(found, key=get_sort_key)


def _describe_defaults(verdicts: StudyVerdicts) -> tuple[document.LinkedSentence, ...]:
    """Return a sentence for each algorithm and variant that ran under library defaults."""
    _, begun = split_main_variants(verdicts.defaults, verdicts.main_cells, lambda item: item.cell)
    found = []
    for words, own in begun:
        counts = format_verdict_counts([item.verdict for item in own], VERDICT_ORDER)
        text = f"{words} under library defaults: {counts}."
        text += _describe_failures(own, verdicts.options.alpha)
        text += _describe_learned_count(own, verdicts)
        found.append(document.LinkedSentence(text, _link_pairs(own), "t-defaults"))
    return tuple(found)


def _link_suites(verdicts: StudyVerdicts) -> list[document.LinkedSentence]:
    """Return the sentences on all tasks of an algorithm together, with their runs."""
    keys = dict.fromkeys(item.key for item in verdicts.suites)
    return [
        document.LinkedSentence(
            text,
            tuple(
                group for group in verdicts.groups for cell in group.cells if cell.suite_key == key
            ),
            "t-suite",
        )
        for key, text in zip(keys, describe_suites(verdicts), strict=True)
    ]


def _describe_study_part(own: Sequence[PairVerdict], verdicts: StudyVerdicts) -> str:
    """Return the counts of one algorithm and variant, and whether there is any difference."""
    cell = own[0].cell
    text = f"{format_verdict_counts([item.verdict for item in own], VERDICT_ORDER)}."
    text += describe_statements(own)
    omnibus = verdicts.omnibus_by_variant.get(cell.variant_key)
    if omnibus:
        count = omnibus.count
        text += (
            f" {omnibus.verdict.capitalize()}: {count.observed} of {count.tests} significant "
            f"uncorrected, {count.expected_under_null:.1f} if nothing differed "
            f"({format_p_value(count.p)})."
        )
    text += _describe_failures(own, verdicts.options.alpha)
    return text + _describe_learned_count(own, verdicts)


def name_statement(item: PairVerdict) -> str:
    """Return the statement on a pair, in words that match the counts of verdicts."""
    text = item.statement.text
    if item.verdict == INCONCLUSIVE and text == statements.DIFFERENT_IN_DISTRIBUTION:
        return statements.UNEQUAL_FAILURES
    return text or "too few seeds"


def _name_finding(item: PairVerdict) -> str:
    """Return the kind of a finding: one of `_FINDING_ORDER`, or `inconclusive` for none."""
    if item.statement.is_conditional:
        return statements.CONDITIONAL_PREFIX
    has_unequal_failures = name_statement(item) == statements.UNEQUAL_FAILURES
    return statements.UNEQUAL_FAILURES if has_unequal_failures else item.verdict


def describe_statements(items: Sequence[PairVerdict]) -> str:
    """Return the counts of what is shown of means, distributions and algorithms; may be empty."""
    conditional = _describe_tolerated_failures(items)
    counts = collections.Counter(
        conditional if item.statement.is_conditional else name_statement(item)
        for item in items
        # Equivalent and inconclusive pairs are in the counts of verdicts.
        if item.statement.text not in (EQUIVALENT, INCONCLUSIVE)
    )
    words = ", ".join(f"{count} {text}" for text, count in sorted(counts.items()))
    same = [item for item in items if item.is_same_algorithm]
    text = f" In words: {words}." if words else ""
    if same:
        text += f" The same algorithm by lockstep training: {format_count(len(same), 'pair')}."
    return text


def _describe_tolerated_failures(items: Sequence[PairVerdict]) -> str:
    """Describe the pairs that are equivalent unless runs fail, with the range of their rates."""
    rates = statements.format_tolerated_failures(item.statement for item in items)
    return statements.EQUIVALENT_UNLESS.format(rate=rates)


def describe_intention_to_treat(verdicts: StudyVerdicts) -> tuple[str, ...]:
    """Return a line for each pair in which runs failed, with the result of complete runs alone.

    `describe_bottom_score` says for all of them how failed runs count.
    """
    complete = {
        (item.cell, item.first.framework, item.second.framework): item
        for item in (*verdicts.consistency, *verdicts.defaults)
    }
    cells = [item.cell for item in verdicts.intention_to_treat]
    found = []
    for item in verdicts.intention_to_treat:
        names = item.first.framework, item.second.framework
        failed = " and ".join(
            f"{group.failed} of {get_label(group.framework)}"
            for group in (item.first, item.second)
            if group.failed
        )
        alone = complete.get((item.cell, *names))
        found.append(
            f"{format_setting(item.cell, cells)}, {' and '.join(map(get_label, names))} ({failed} "
            f"failed): {_format_result(item)}. Complete runs alone: "
            f"{_format_result(alone) if alone else 'one has none'}."
        )
    return tuple(found)


def describe_bottom_score(verdicts: StudyVerdicts) -> str:
    """Return how failed runs count, without the end of the sentence; empty if none failed."""
    if verdicts.with_failed_runs is None:
        return ""
    counts: collections.Counter[str] = collections.Counter()
    for group in verdicts.groups:
        counts[group.framework] += group.failed
    text = ", ".join(
        f"{get_label(name)} {count}" for name, count in sorted(counts.items()) if count
    )
    known = all(item.range.known for item in verdicts.intention_to_treat)
    lowest = "" if known else ", or as the lowest score of the algorithm where no range is known"
    return f"With failed trainings ({text}) at the bottom of the task's range{lowest}"


def _format_result(item: PairVerdict) -> str:
    interval = f"[{format_number(item.low)}, {format_number(item.high)}]"
    return (
        f"{name_statement(item)}, difference {format_number(item.difference)}"
        f"{'' if math.isnan(item.low) else f' {interval}'}, n = {item.first.n} and {item.second.n}"
    )


def _describe_failures(own: Sequence[PairVerdict], alpha: float) -> str:
    """Return the numbers of failed runs per framework, and of pairs in which they differ."""
    groups: dict[str, dict[StudyCell, tuple[int, int]]] = {}
    known = [item for item in own if item.failures.known]
    for item in known:
        found = zip(
            (item.first, item.second), item.failures.failed, item.failures.sizes, strict=True
        )
        for group, failed, size in found:
            groups.setdefault(group.framework, {})[item.cell] = failed, size
    if not known:
        return ""
    counts = ", ".join(
        f"{get_label(name)} {sum(k for k, _ in cells.values())} of "
        f"{sum(n for _, n in cells.values())}"
        for name, cells in sorted(groups.items())
    )
    pairs = format_count(sum(item.failures.p_holm < alpha for item in known), "pair")
    return f" Runs below the failure threshold: {counts}; they differ in {pairs}."


def _describe_learned_count(own: Sequence[PairVerdict], verdicts: StudyVerdicts) -> str:
    cells = {item.cell for item in own}
    found = [item for cell in cells for item in verdicts.learning_by_cell.get(cell, ())]
    count = learning.count_learned(found)
    return f" Shown to have learned: {count} means." if count != MISSING else ""


def _format_headline(items: Sequence[PairVerdict], verdicts: StudyVerdicts) -> str:
    words = format_verdict_counts([item.verdict for item in items], VERDICT_ORDER)
    inconclusive = [item for item in items if item.verdict == INCONCLUSIVE]
    sentences = [
        f"Of {format_count(len(items), 'pair')} of frameworks with equal hyperparameters: {words}.",
        _describe_unlearned(items, verdicts),
        describe_sizes_used([group.n for item in items for group in (item.first, item.second)]),
        _describe_families(items),
        describe_seeds_needed(inconclusive, verdicts.options),
        "parallax study plan lists the seeds needed and their cost." if inconclusive else "",
    ]
    return " ".join(filter(None, sentences))


def _is_unlearned(item: PairVerdict, verdicts: StudyVerdicts) -> bool:
    """Return whether a pair is equivalent and not both have learned: both may score 0."""
    alike = item.verdict == EQUIVALENT or item.statement.is_conditional
    return alike and not {item.first.key, item.second.key} <= verdicts.learned


def _describe_unlearned(items: Sequence[PairVerdict], verdicts: StudyVerdicts) -> str:
    """Return how many equivalent pairs have not both learned, since such scores may be equal."""
    own = [item for item in items if _is_unlearned(item, verdicts)]
    sure = sum(item.verdict == EQUIVALENT for item in own)
    parts = [f"{sure} of the equivalent pairs"] if sure else []
    if len(own) > sure:
        parts.append(f"{len(own) - sure} of those that are equivalent unless runs fail")
    verb = "is" if len(own) == 1 else "are"
    return f"{' and '.join(parts)} {verb} not shown to have learned." if own else ""


def describe_verdict_terms(options: VerdictOptions) -> tuple[str, ...]:
    """Return the meanings of the verdicts on a pair of frameworks, a sentence for each."""
    return (
        f"Different: {options.difference_test} is significant at {options.alpha:.0%} after "
        f"Holm's correction over {_FAMILY_PHRASES[options.family]}, and a permutation test is "
        "significant without correction.",
        "Equivalent: two one-sided tests show the difference to be within "
        f"{options.margin_description}, even if runs not observed fail as often as the runs "
        "observed leave possible.",
        "Different in mean: the means differ whatever the distributions are, by a bound that "
        "assumes only the range of scores. Different in distribution: returns or rates of failed "
        "runs differ, which need not show in the means.",
        "Equivalent unless more than q% of runs fail: the observed runs are equivalent, none has "
        "failed, and means stay within the margin as long as at most q% of one framework's runs "
        "end unlike all observed ones.",
        "Same algorithm: lockstep training shows both to compute the same updates.",
        "Inconclusive: neither a difference nor equivalence is shown.",
        "Seeds needed: runs per framework that would show one of them with "
        f"{options.power:.0%} power, if the measured means and deviations were the true ones.",
        "Intervals are Welch's and uncorrected: a pair can be inconclusive although its interval "
        "excludes 0. With fewer than four runs each, no permutation test is significant at 5%.",
    )


def describe_seeds_needed(items: Sequence[PairVerdict], options: VerdictOptions) -> str:
    """Return the number of seeds that half of some inconclusive pairs need; empty if unknown."""
    needed = sorted(item.seeds_needed for item in items if not math.isnan(item.seeds_needed))
    if not needed:
        return ""
    middle = needed[len(needed) // 2]
    seeds = f"at least {middle:.0f}" if math.isfinite(middle) else "more than 1,000"
    who = "Half of the inconclusive pairs need" if len(items) > 1 else "The inconclusive pair needs"
    return f"{who} {seeds} seeds per framework for {options.power:.0%} power."


def _describe_families(items: Sequence[PairVerdict]) -> str:
    sizes = sorted({item.family_size for item in items})
    number_of = len({item.family for item in items})
    if sizes[-1] == 1:
        return "A single test needs no correction."
    each = f" in each of {number_of} families" if number_of > 1 else ""
    return f"Tests are corrected together in families of {format_range(sizes)} tests{each}."


def _link_pairs(items: Sequence[PairVerdict]) -> tuple[ScoreGroup, ...]:
    return tuple(group for item in items for group in (item.first, item.second))


def _describe_finding(
    item: PairVerdict, cells: Sequence[StudyCell], verdicts: StudyVerdicts
) -> document.LinkedSentence:
    high, low = sorted((item.first, item.second), key=lambda g: -float(g.moments.mean))
    text = (
        f"{format_setting(item.cell, cells)}: {_format_score(high)} and {_format_score(low)} are "
        f"{name_statement(item)}: they are {format_number(abs(item.difference))} apart, 95% "
        f"interval {format_higher_minus_lower_interval(item.difference, item.low, item.high)}, "
        f"{_format_evidence(item)}{learning.remark_on_pair(item, verdicts.not_learned)}."
    )
    if item.verdict == EQUIVALENT:
        way = f"{format_number(item.margin.zero)} to {format_number(item.margin.reference)}"
        text += (
            f" The margin is {format_number(item.margin.size)}, a share of {way} "
            f"({item.margin.source}); runs are taken to end between "
            f"{format_number(item.range.low)} and "
            f"{format_number(item.range.high)} ({item.range.source})."
        )
    return document.LinkedSentence(text, (high, low), "t-consistency")


def _format_evidence(item: PairVerdict) -> str:
    """Return the decisive number: a p-value, or how many unobserved failures are possible."""
    kind = _name_finding(item)
    if kind == statements.CONDITIONAL_PREFIX:
        limit = item.statement.failure_limit
        return f"none of the runs failed, which leaves rates up to {limit:.0%} possible"
    if kind == statements.UNEQUAL_FAILURES:
        counts = " and ".join(item.failures.counts)
        return f"failed runs {counts}, corrected {format_p_value(item.failures.p_holm)}"
    p = item.p_holm if kind == DIFFERENT else item.p_equivalence_holm
    return f"corrected {format_p_value(p)}"


def group_by_outlier_framework(items: Sequence[PairVerdict]) -> list[tuple[str, list[PairVerdict]]]:
    """Group the pairs that one outlying framework explains, the clearest first.

    Within a task and algorithm, the framework that is on the same side of the most different pairs
    gets these pairs, then the next one. Other pairs of one kind are grouped by task. Items are
    ordered, the clearest first.

    Returns:
        The framework's name, empty for pairs that are not different, and its pairs.
    """
    left: dict[tuple[str, ...], list[PairVerdict]] = {}
    for item in items:
        cell = item.cell
        key = (_name_finding(item), cell.study, cell.env, cell.algorithm, cell.variant)
        left.setdefault(key, []).append(item)
    causes = []
    for (kind, *_), pairs in left.items():
        while pairs:
            sides = collections.Counter(
                (group.framework, sign) for item in pairs for group, sign in _list_sides(item)
            )
            side, _ = max(sides.items(), key=lambda entry: entry[1])
            own = [
                item
                for item in pairs
                if kind != DIFFERENT
                or side in [(group.framework, sign) for group, sign in _list_sides(item)]
            ]
            causes.append((side[0] if kind == DIFFERENT else "", own))
            pairs = [item for item in pairs if item not in own]
    return sorted(causes, key=lambda cause: items.index(cause[1][0]))


def _list_sides(item: PairVerdict) -> list[tuple[ScoreGroup, bool]]:
    """Return both groups, and whether each is the higher one."""
    return [(item.first, item.difference > 0), (item.second, item.difference <= 0)]


def _describe_outlier_framework(
    name: str, items: Sequence[PairVerdict], cells: Sequence[StudyCell]
) -> document.LinkedSentence:
    """Describe several pairs of one task and kind of finding in one sentence.

    `name` is the framework that explains them if they are different, otherwise empty.
    """
    cell, kind = items[0].cell, _name_finding(items[0])
    recipes = sorted({item.cell.hps for item in items})
    place, under = format_setting(cell, cells), ""
    if len(recipes) > 1:
        place, under = f"{cell.env}, {get_label(cell.algorithm)}", f", under {', '.join(recipes)}"
    gaps = [format_number(gap) for gap in sorted(abs(item.difference) for item in items)]
    apart = gaps[0] if len(gaps) == 1 else f"{gaps[0]} to {gaps[-1]}"
    count = format_count(len(items), "pair")
    if kind == statements.CONDITIONAL_PREFIX:
        text = f"{count} are {_describe_tolerated_failures(items)}"
        evidence = f"none of their runs failed; {apart} apart"
    elif not name:
        text = f"{count} are {kind}, {apart} apart"
        p_values = [
            item.p_equivalence_holm if kind == EQUIVALENT else item.failures.p_holm
            for item in items
        ]
        evidence = f"corrected {format_p_value(max(p_values))} or less"
    else:
        others = sorted({g.framework for i in items for g, _ in _list_sides(i)} - {name})
        above = any(group.framework == name and high for group, high in _list_sides(items[0]))
        in_mean = sum(item.statement.text == statements.DIFFERENT_IN_MEAN for item in items)
        text = (
            f"{get_label(name)} scores {'higher' if above else 'lower'} than "
            f"{' and '.join(map(get_label, others))}, by {apart} in {count}, "
            f"{in_mean} of them different in mean"
        )
        evidence = f"corrected {format_p_value(max(item.p_holm for item in items))} or less"
    text = f"{place}: {text}{under}; {evidence}."
    return document.LinkedSentence(
        text, _link_pairs(items), "t-consistency", f"{name} {kind}".strip()
    )


def _format_score(group: ScoreGroup) -> str:
    mean = format_number(float(group.moments.mean))
    return f"{get_label(group.framework)} ({mean}, n = {group.n})"
