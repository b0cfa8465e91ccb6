"""The three headline findings of a study, selected by a rule and never by hand."""

from collections.abc import Sequence

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.labels import format_count, format_range
from parallax.analysis.report.document import Inline, Strong, Words
from parallax.analysis.report.sections import hyperparameters, learning
from parallax.analysis.report.sections.pairs_by_setting import (
    describe_pair,
    format_setting_with_recipe,
    format_size_range,
)
from parallax.analysis.verdicts.consistency import PairVerdict
from parallax.analysis.verdicts.margins import compute_min_runs
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.statements import DIFFERENT, EQUIVALENT, INCONCLUSIVE
from parallax.analysis.verdicts.study import StudyVerdicts

SELECTION_RULE = (
    "A rule selects them from all pairs of frameworks in one setting: the largest difference that "
    "is shown; the pair whose interval stays closest to 0, among pairs that have learned and of "
    "these among equivalent ones, as far as there are any; and the inconclusive pair with the "
    "widest interval. Learned: above doing nothing, random actions and the untrained policy by the "
    "margin. Sizes are compared in margins of equivalence, since returns of different tasks cannot "
    "be compared."
)

HeadlineFinding = tuple[str, PairVerdict | None]  # how its sentence begins, and what it is about


def select_headline_findings(verdicts: StudyVerdicts) -> tuple[Words, ...]:
    """Return three sentences; none where no pair has an interval."""
    pairs = [item for item in verdicts.main_consistency if item.high - item.low >= 0]
    if not pairs:
        return ()
    cells = [item.cell for item in pairs]
    return tuple(
        (Strong(f"{head}."),)
        if item is None
        else (Strong(f"{head}:"), " ", *_format_finding(item, cells, verdicts))
        for head, item in (
            _find_largest_difference(pairs),
            _find_closest_pair(pairs, verdicts),
            _find_widest_interval(pairs),
        )
    )


def _find_largest_difference(pairs: Sequence[PairVerdict]) -> HeadlineFinding:
    own = [item for item in pairs if item.verdict == DIFFERENT]
    found = max(own or pairs, key=lambda item: _divide_by_margin(item, abs(item.difference)))
    if own:
        return (
            f"Largest difference ({len(own)} of {_format_pair_count(pairs)} are different)",
            found,
        )
    return (
        f"No difference is shown in {_format_pair_count(pairs)}; the largest, inconclusive",
        found,
    )


def _find_closest_pair(pairs: Sequence[PairVerdict], verdicts: StudyVerdicts) -> HeadlineFinding:
    """Find the closest pair; only frameworks that have learned are called equivalent."""
    both = [item for item in pairs if {item.first.key, item.second.key} <= verdicts.learned]
    own = [item for item in both if item.verdict == EQUIVALENT]
    found = min(
        own or both or pairs,
        key=lambda item: _divide_by_margin(item, max(abs(item.low), abs(item.high))),
    )
    share = f"{verdicts.options.margin_share:.0%}"
    if own:
        return (
            f"Closest pair ({len(own)} of {_format_pair_count(both)} that have learned are "
            f"equivalent within {share})",
            found,
        )
    if not both:
        return f"No pair of {len(pairs)} is shown to have learned; the closest", found
    head = (
        f"No pair of {len(both)} that have learned is shown to be equivalent within {share}"
        f"{_explain_unreachable_equivalence(both, verdicts.options)}; the closest"
    )
    return head, found


def _explain_unreachable_equivalence(pairs: Sequence[PairVerdict], options: VerdictOptions) -> str:
    """Return why no data could show equivalence of some pairs, in brackets; empty if it could."""
    blind = sum(not item.range.known for item in pairs)
    least = [
        (item, compute_min_runs((item.first, item.second), options))
        for item in pairs
        if item.range.known
    ]
    small = sorted(need for item, need in least if min(item.first.n, item.second.n) < need)
    reasons = [f"for {blind} of them no range of returns is known"] if blind else []
    if small:
        reasons.append(
            f"for {len(small)} of them the study has too few seeds to show it: at least "
            f"{format_range(map(int, small))} runs each are needed, by setting"
        )
    return f" ({'; '.join(reasons)})" if reasons else ""


def _find_widest_interval(pairs: Sequence[PairVerdict]) -> HeadlineFinding:
    own = [item for item in pairs if item.verdict == INCONCLUSIVE]
    if not own:
        return (
            f"None of {_format_pair_count(pairs)} is inconclusive (n = {format_size_range(pairs)})",
            None,
        )
    found = max(own, key=lambda item: _divide_by_margin(item, item.high - item.low))
    return f"Widest interval ({len(own)} of {_format_pair_count(pairs)} are inconclusive)", found


def _format_pair_count(pairs: Sequence[PairVerdict]) -> str:
    return format_count(len(pairs), "pair")


def _divide_by_margin(item: PairVerdict, value: float) -> float:
    return value / item.margin.size if item.margin.size else 0.0


def _format_finding(
    item: PairVerdict, cells: Sequence[StudyCell], verdicts: StudyVerdicts
) -> tuple[Inline, ...]:
    where = format_setting_with_recipe(item.cell, [item.first, item.second], cells)
    unlike = hyperparameters.describe_pair_differences(item.first.runs, item.second.runs)
    caveat = learning.remark_on_pair(item, verdicts.not_learned)
    return (f"{where}: {describe_pair(item)}{caveat}", *unlike, ".")
