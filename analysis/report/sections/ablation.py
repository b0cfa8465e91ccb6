"""Ablations: effects of single changes, and the share of a gap that they explain."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from parallax.analysis.data.published import get_return_bounds
from parallax.analysis.data.runs import CompletedRun, LoadedRuns, StudyCell
from parallax.analysis.figures.ablation import make_ablation_figure_spec
from parallax.analysis.figures.figure_spec import FigureSpec
from parallax.analysis.labels import (
    format_count,
    format_number,
    format_p_value,
    format_range,
    get_label,
    make_anchor,
)
from parallax.analysis.report import document
from parallax.analysis.report.sections.pairs_by_setting import format_setting_with_recipe
from parallax.analysis.report.tables import TableRow, format_bare_p_value, list_size_values
from parallax.analysis.stats.two_sample import MeanRatio, PairedDifference
from parallax.analysis.verdicts.ablation import (
    CHANGES,
    INCONCLUSIVE,
    JOINT_SEPARATOR,
    NO_EFFECT,
    TOO_FEW_PAIRS,
    AblationVerdict,
    FrameworkGap,
    InterventionEffect,
    judge_ablations,
)
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.harness.record.reading import decode_record

ABLATION_HEADING = "Causes of differences, by ablation"
ABLATION_ANCHOR = make_anchor(ABLATION_HEADING)
EXPLANATIONS_HEADING = "Some differences are explained by ablations"
ABLATION_TERMS = (
    "Only the named code of a framework is changed. Runs with and without the change are "
    "compared seed by seed with Student's paired test, and p-values are corrected with Holm's "
    'method over the changes of a framework\'s algorithm in one file. "No effect" means '
    "equivalent within the margin. Gaps to other frameworks are computed over pairs of seeds "
    "here, like the effects that close them. The verdicts use Welch's intervals for the same "
    "gaps, since two frameworks share little more than the number of a seed. Shares of a gap "
    "have Fieller's interval. Tables also list a corrected p-value by sign flips, which assumes "
    "no normal distribution; no verdict uses it. Several changes made together count as one: "
    "how much each contributes is not known. The choice of the changes is not corrected for: if "
    "it was made after runs of the study had been seen, and these runs are among those "
    "compared, effects are too large on average. Differences that were not tried are not "
    "assessed."
)


StudyRuns = Mapping[tuple[str, str, str, str, str, int | None], CompletedRun]


@dataclasses.dataclass(frozen=True)
class AblationRow:
    """Row of a page on one change, or on several made together.

    Attributes:
        parts: Name and description of each change; the description is empty if not recorded.
        effect: On the score, with its interval.
        shares: Of the gap to each other framework, with intervals.
        p: Corrected p-value, and that by sign flips, corrected too.
        verdict: Its verdict in words.
        runs: Runs with it that were requested, completed and used, and pairs of seeds.
        sum_of_parts: Sum of the effects of the parts alone; empty where that is not known.
        single_effects_remark: Whether one of several has the effect alone; empty if not known.
    """

    parts: tuple[tuple[str, str], ...]
    effect: str
    shares: tuple[str, ...]
    p: tuple[str, str]
    verdict: str
    runs: str
    sum_of_parts: str
    single_effects_remark: str


@dataclasses.dataclass(frozen=True, eq=False)
class AblationReport:
    """Effects of changes of one framework in one setting.

    Attributes:
        source: The file, as seen from where the command runs.
        where: Framework, algorithm, task, recipe and steps.
        base: Runs of the unchanged framework and of others, and how many of them the study has.
    """

    source: str
    item: AblationVerdict
    where: str
    in_study: bool
    base: str
    changes: tuple[AblationRow, ...]

    @property
    def figure_spec(self) -> FigureSpec:
        """The figure of the setting."""
        return make_ablation_figure_spec(self.item)

    @property
    def key(self) -> tuple[str, ...]:
        """The setting and the framework, without the name of the study."""
        return (*_get_setting_key(self.item.cell), self.item.framework)

    @property
    def heads(self) -> tuple[str, ...]:
        """Heads of the table."""
        others = (f"share of the gap to {get_label(gap.other)}" for gap in self.item.gaps)
        first = ("change", f"effect on the {self.item.score_name}", *others)
        return (*first, "corrected p", "by sign flips", "verdict", "runs")

    @property
    def texts(self) -> tuple[tuple[str, str], ...]:
        """Return the description of each change, by its name."""
        return tuple(sorted({part for change in self.changes for part in change.parts}))


def make_ablation_reports(
    source: str, loaded: LoadedRuns, options: VerdictOptions, study: LoadedRuns
) -> tuple[AblationReport, ...]:
    """Return the ablations in a file of packed runs, setting by setting.

    `study` has the runs whose differences are to be explained, `source` is the file as seen from
    where the command runs.
    """
    found = judge_ablations(loaded, options)
    cells = [item.cell for item in found]
    theirs = {
        (*_get_setting_key(run.id.cell), run.id.framework, run.id.seed): run for run in study.runs
    }
    return tuple(
        AblationReport(
            source,
            item,
            f"{get_label(item.framework)}'s "
            f"{format_setting_with_recipe(item.cell, [item.effects[0].baseline], cells)}",
            any(key[:4] == _get_setting_key(item.cell) for key in theirs),
            _describe_baseline(item, theirs),
            tuple(_make_ablation_row(effect, item) for effect in item.effects),
        )
        for item in found
    )


def _get_setting_key(cell: StudyCell) -> tuple[str, str, str, str]:
    return cell.env, cell.algorithm, cell.hps, cell.variant


def _describe_baseline(item: AblationVerdict, theirs: StudyRuns) -> str:
    own = item.effects[0].baseline
    sizes = f"{own.requested}/{own.completed}/{own.n}"
    sentences = [
        f"Unchanged: {format_number(float(own.moments.mean))}, {sizes} runs "
        f"requested/completed/used{_format_same_runs(own, theirs)}{_format_runs_at_maximum(own)}."
    ]
    sentences += [
        f"{get_label(gap.other)} differs from it by {_format_effect_size(gap.result)}, "
        f"n = {format_count(gap.result.n, 'pair')}"
        f"{_format_same_runs(gap.group, theirs)}{_format_runs_at_maximum(gap.group)}."
        for gap in item.gaps
    ]
    tests = item.effects[0].family_size
    return " ".join([*sentences, f"Tests corrected together: {tests}. {item.cell.variant}."])


def _format_same_runs(group: ScoreGroup, theirs: StudyRuns) -> str:
    """Return the number of runs whose evaluations equal the study's bit for bit, in words."""
    count = sum(
        (other := theirs.get((*_get_setting_key(run.id.cell), run.id.framework, run.id.seed)))
        is not None
        and np.array_equal(other.results, run.results)
        for run in group.runs
    )
    return f", {count} of them in the study too" if count else ""


def _format_runs_at_maximum(group: ScoreGroup) -> str:
    """Return the number of runs that end at the task's maximum, in words; empty if none do."""
    most = get_return_bounds(group.cell.env)[1]
    count = sum(run.final_score == most for run in group.runs)
    return f", {count} at {format_number(most)}, the most that the task allows" if count else ""


def _make_ablation_row(effect: InterventionEffect, item: AblationVerdict) -> AblationRow:
    names = effect.name.split(JOINT_SEPARATOR)
    total = item.sum_single_effects(effect) if len(names) > 1 else None
    return AblationRow(
        tuple((name, _find_description(name, effect)) for name in names),
        _format_effect_size(effect.result),
        tuple(_format_share(effect.shares.get(gap.other), effect) for gap in item.gaps),
        (format_bare_p_value(effect.p_holm), format_bare_p_value(effect.p_sign_flips_holm)),
        _format_effect_verdict(effect),
        f"{effect.changed.requested}/{effect.changed.completed}/{effect.changed.n}, "
        f"{format_count(effect.result.n, 'pair')}{_format_runs_at_maximum(effect.changed)}",
        "" if total is None else f"{total:+.4g}",
        _describe_single_effects(item.list_part_effects(effect)) if len(names) > 1 else "",
    )


def _describe_single_effects(parts: Sequence[InterventionEffect]) -> str:
    if not parts:
        return ""
    decided = sum(part.verdict == CHANGES for part in parts)
    return f", of which {decided or 'none'} {'has' if decided < 2 else 'have'} an effect alone"


def _find_description(name: str, effect: InterventionEffect) -> str:
    """Return a change's description from the first run that records it; empty if none does."""
    for run in effect.changed.runs:
        recorded = decode_record(run.record).get("interventions", {}).get(name)
        if recorded:
            return " ".join(str(recorded["does"]).split())
    return ""


def _format_effect_verdict(effect: InterventionEffect) -> str:
    if effect.result.low == effect.result.high == 0:
        return "never took effect"
    margin, far = effect.pair.margin.size, max(abs(effect.result.low), abs(effect.result.high))
    if effect.verdict == NO_EFFECT:
        return f"{NO_EFFECT} beyond {format_number(margin)}"
    if effect.verdict == CHANGES and far < margin:
        return f"{CHANGES}, by less than the margin of {format_number(margin)}"
    if effect.verdict == INCONCLUSIVE and effect.pair.is_limited_by_unobserved_failures:
        return (
            f"{INCONCLUSIVE}; no effect beyond {format_number(margin)} but for possible "
            "unobserved failures"
        )
    return effect.verdict


def _format_effect_size(result: PairedDifference) -> str:
    sign = "+" if result.difference > 0 else ""
    ends = f" [{format_number(result.low)}, {format_number(result.high)}]" if result.n > 1 else ""
    return f"{sign}{format_number(result.difference)}{ends}"


def _format_share(share: MeanRatio | None, effect: InterventionEffect) -> str:
    if share is None or not share.is_bounded:
        return "unknown"
    fewer = f", {format_count(share.n, 'pair')}" if share.n != effect.result.n else ""
    return f"{share.share:.0%} [{share.low:.0%}, {share.high:.0%}]{fewer}"


def find_explanations(
    found: Sequence[AblationReport], *, is_short: bool = False
) -> tuple[tuple[str, AblationRow], ...]:
    """Find changes that explain a part of a gap in the study, largest shares first.

    The effect of a listed change is decided, and the whole interval of its share is above 0. For
    each gap, the change and the single intervention with the largest shares are listed. The short
    form has only the single intervention, if any, without sizes of effects and p-values.

    Returns:
        Effect of each change in words, with all such gaps, and the change.
    """
    describe = _format_short_explanation if is_short else _format_explanation
    gaps: dict[AblationRow, list[tuple[AblationReport, InterventionEffect, FrameworkGap]]] = {}
    for one in found:
        for gap in one.item.gaps if one.in_study else ():
            for effect, change in _select_largest_shares(one, gap, is_short):
                gaps.setdefault(change, []).append((one, effect, gap))
    explained = [(*own[0][:2], [gap for *_, gap in own], change) for change, own in gaps.items()]
    explained.sort(key=lambda entry: -max(entry[1].shares[gap.other].share for gap in entry[2]))
    return tuple((describe(*entry), entry[-1]) for entry in explained)


def _select_largest_shares(
    one: AblationReport, gap: FrameworkGap, is_short: bool
) -> list[tuple[InterventionEffect, AblationRow]]:
    own = [
        (share.share, effect, change)
        for effect, change in zip(one.item.effects, one.changes, strict=True)
        if effect.verdict == CHANGES
        and (share := effect.shares.get(gap.other)) is not None
        and share.is_bounded
        and share.low > 0
    ]
    singles = [found for found in own if len(found[2].parts) == 1]
    groups = [singles or own] if is_short else [own, singles]
    picked = [max(group, key=lambda found: found[0]) for group in groups if group]
    return [(effect, change) for _, effect, change in dict.fromkeys(picked)]


def _format_explanation(
    one: AblationReport,
    effect: InterventionEffect,
    gaps: Sequence[FrameworkGap],
    change: AblationRow,
) -> str:
    shares = " and ".join(
        f"{_format_share(effect.shares[gap.other], effect)} of the gap to {get_label(gap.other)} "
        f"of {_format_effect_size(gap.result)}"
        for gap in gaps
    )
    return (
        f"{one.where}: {one.item.score_name} {change.effect}, which is {shares}, n = "
        f"{format_count(effect.result.n, 'pair')}, corrected {format_p_value(effect.p_holm)}, with"
    )


def _format_short_explanation(
    one: AblationReport, effect: InterventionEffect, gaps: Sequence[FrameworkGap], _: AblationRow
) -> str:
    cell, verb, parts = one.item.cell, "", []
    for gap in gaps:
        share, previous = effect.shares[gap.other], verb
        is_below = gap.result.difference > 0
        verb, size = ("closes", "gap to") if is_below else ("loses", "advantage over")
        parts.append(
            f"{verb if verb != previous else ''} {share.share:.0%} [{share.low:.0%}, "
            f"{share.high:.0%}] of its {size} {get_label(gap.other)} "
            f"(n = {format_count(share.n, 'pair')})"
        )
    where = f"{get_label(one.item.framework)}'s {get_label(cell.algorithm)} on {cell.env}"
    return f"{where} {' and '.join(map(str.strip, parts))} when it is trained with"


def list_explanations(
    found: Sequence[AblationReport], page: str = "", *, is_short: bool = False
) -> document.Listing | None:
    """Return the changes of `find_explanations` as a list; None if there are none.

    Args:
        found: All settings.
        page: Address of the page that has the section; empty on the page itself.
        is_short: Leave sizes of effects and p-values out.
    """
    items = tuple(
        document.join_words(
            [
                f"{words} ",
                _join_names(change),
                f"{change.single_effects_remark}.",
                *_describe_changes(change.parts),
            ]
        )
        for words, change in find_explanations(found, is_short=is_short)
    )
    link = document.Link(
        "how, with which runs, and what had no effect", f"{page}#{ABLATION_ANCHOR}"
    )
    return document.Listing(items, (f"{EXPLANATIONS_HEADING} (", link, ")")) if items else None


def _join_names(change: AblationRow) -> tuple[document.Inline, ...]:
    """Return the names of changes, such as `a`, `b` and `c` together."""
    *others, last = ((document.Code(name),) for name, _ in change.parts)
    if not others:
        return last
    return (*document.join_words(others, ", "), " and ", *last, " together")


def _describe_changes(parts: Sequence[tuple[str, str]]) -> list[document.Words]:
    """Return the descriptions of one or two changes; more are left to the section."""
    if len(parts) > 2:
        return []
    described = [(name, does) for name, does in parts if does]
    lead = len(parts) > 1
    return [
        (" ", document.Code(name), f": {does}") if lead else f" The change: {does}"
        for name, does in described
    ]


def make_ablation_section(found: Sequence[AblationReport]) -> document.ReportSection:
    """Return the section on the effects of all changes, setting by setting."""
    sections = tuple(
        document.ReportSection(
            one.where,
            (
                "" if one.in_study else "The study has no runs in this setting.",
                one.base,
                document.Listing(
                    tuple((document.Code(name), f": {does}") for name, does in one.texts if does)
                ),
                document.Grid(
                    one.heads,
                    tuple((_format_row_names(row), *_list_row_values(row)) for row in one.changes),
                ),
                one.figure_spec,
                (
                    "From ",
                    document.Code(one.source),
                    ", which ",
                    document.Code("parallax study ablation"),
                    " reads too.",
                ),
            ),
        )
        for one in found
    )
    return document.ReportSection(ABLATION_HEADING, (ABLATION_TERMS, *sections), ABLATION_ANCHOR)


def _list_row_values(change: AblationRow) -> tuple[str, ...]:
    """Return a row of the table, without the names."""
    return (change.effect, *change.shares, *change.p, change.verdict, change.runs)


def _format_row_names(change: AblationRow) -> tuple[document.Inline, ...]:
    names = document.join_words([(document.Code(name),) for name, _ in change.parts], ", ")
    if len(change.parts) == 1:
        return names
    total = f" (their single effects add up to {change.sum_of_parts})"
    return (*names, f", together{total if change.sum_of_parts else ''}")


def make_ablation_rows(item: AblationVerdict) -> list[TableRow]:
    """Return a row per effect and other framework; one per effect if there is no other."""
    others = [gap.other for gap in item.gaps] or [""]
    gaps = {gap.other: gap for gap in item.gaps}
    return [
        {
            **dataclasses.asdict(item.cell),
            "framework": item.framework,
            "intervention": effect.name,
            "verdict": effect.verdict,
            **list_size_values("changed", effect.changed),
            **list_size_values("baseline", effect.baseline),
            "pairs": effect.result.n,
            "seeds": " ".join(map(str, effect.seeds)),
            "effect": effect.result.difference,
            "low": effect.result.low,
            "high": effect.result.high,
            "p_paired": effect.result.p,
            "p_holm": effect.p_holm,
            "family_size": effect.family_size,
            "p_sign_flips": effect.p_sign_flips,
            "p_sign_flips_holm": effect.p_sign_flips_holm,
            "margin": effect.pair.margin.size,
            **_make_failed_columns(effect),
            "sum_of_parts": item.sum_single_effects(effect) if effect in item.joint_effects else "",
            "other": other,
            **_make_gap_columns(gaps.get(other)),
            **_make_share_columns(effect.shares.get(other)),
        }
        for effect in item.effects
        for other in others
    ]


def _make_failed_columns(effect: InterventionEffect) -> TableRow:
    failed = (*effect.pair.failures.failed, "", "")  # nothing where no scale is known
    return {"failed_changed": failed[0], "failed_baseline": failed[1]}


def _make_gap_columns(gap: FrameworkGap | None) -> TableRow:
    names = ("gap", "gap_low", "gap_high", "gap_p", "gap_pairs")
    if gap is None:
        return dict.fromkeys(names, "")
    found = gap.result
    return dict(
        zip(names, (found.difference, found.low, found.high, found.p, found.n), strict=True)
    )


def _make_share_columns(share: MeanRatio | None) -> TableRow:
    names = ("share", "share_low", "share_high", "share_pairs")
    if share is None:
        return dict.fromkeys(names, "")
    return dict(zip(names, (share.share, share.low, share.high, share.n), strict=True))


def format_ablation(item: AblationVerdict) -> list[str]:
    """Return the results of one setting in words, with every n."""
    cell = item.cell
    head = (
        f"{get_label(item.framework)}, {get_label(cell.algorithm)}, {cell.env}, "
        f"hyperparameters {cell.hps}, {cell.variant}:"
    )
    lines = [head]
    for gap in item.gaps:
        lines.append(
            f"  {get_label(gap.other)} differs from it by {_format_difference(gap.result)} "
            f"({gap.result.n} pairs of seeds)."
        )
    for effect in item.effects:
        lines.append(f"  {_format_effect(effect)}{format_caveats(effect)}")
        parts = item.list_part_effects(effect) if effect in item.joint_effects else []
        if parts:
            total = sum(part.result.difference for part in parts)
            sizes = format_range(part.result.n for part in parts)
            lines.append(f"    Its parts alone add up to {total:+.4g} ({sizes} pairs of seeds).")
        lines += [
            f"    {_format_gap_share(other, share)}" for other, share in effect.shares.items()
        ]
    return lines


def _format_effect(effect: InterventionEffect) -> str:
    size = f"{_format_difference(effect.result)}, {_format_counts(effect)}"
    if effect.verdict == CHANGES:
        p = f"p = {effect.p_holm:.2g} after Holm over {effect.family_size}"
        return f"{effect.name} changes the return: {size}; {p}."
    if effect.verdict == NO_EFFECT:
        margin = f"{effect.pair.margin.size:.4g}"
        return f"{effect.name} has no effect beyond the margin of {margin}: {size}."
    if effect.verdict == TOO_FEW_PAIRS:
        return f"{effect.name}: too few pairs of seeds to tell ({_format_counts(effect)})."
    if effect.result.low == effect.result.high == 0:
        return f"{effect.name} changed no return: it never took effect in {_format_counts(effect)}."
    constant = "; all differences are equal, so there is no t test" * math.isnan(effect.result.p)
    return f"{effect.name}: inconclusive, {size}{constant}."


def format_caveats(effect: InterventionEffect) -> str:
    """Return unintended differences between runs with and without a change, in a sentence."""
    return f" Besides the change: {'; '.join(found)}." if (found := effect.pair.caveats) else ""


def _format_counts(effect: InterventionEffect) -> str:
    changed, plain = effect.changed, effect.baseline
    return (
        f"{effect.result.n} pairs of {changed.requested} and {plain.requested} runs requested, "
        f"{changed.completed} and {plain.completed} complete"
    )


def _format_gap_share(other: str, share: MeanRatio) -> str:
    if not share.is_bounded:
        return (
            f"The share of the gap to {get_label(other)} is unknown: over {share.n} seeds the gap "
            "may be 0."
        )
    return (
        f"Of the gap to {get_label(other)} it is {share.share:.0%} "
        f"({share.low:.0%} to {share.high:.0%}, {share.n} seeds)."
    )


def _format_difference(result: PairedDifference) -> str:
    if math.isnan(result.low):
        return f"{result.difference:+.4g}"
    return f"{result.difference:+.4g} ({result.low:+.4g} to {result.high:+.4g})"


def summarize_ablations(items: Sequence[AblationVerdict]) -> str:
    """Return the number of effects of each verdict, in words."""
    words = [effect.verdict for item in items for effect in item.effects]
    parts = [f"{words.count(word)} {word}" for word in dict.fromkeys(words)]
    counts = f"{format_count(len(words), 'effect')} in {format_count(len(items), 'setting')}"
    return f"{counts}: {', '.join(parts)}."
