"""Three findings of a study, picked by a rule and never by hand."""

from collections.abc import Sequence

from analysis.data.runs import Cell
from analysis.report import held, learned
from analysis.report.decided import main_pairs, pair_in_words, place, sizes_in_words
from analysis.report.statements import plural
from analysis.verdicts.consistency import DIFFERENT, EQUIVALENT, UNDECIDED, PairVerdict
from analysis.verdicts.equivalence import least_runs
from analysis.verdicts.options import Options
from analysis.verdicts.study import StudyVerdicts
from analysis.words import span

RULE = (
    "They are picked by a rule: of all pairs of frameworks in one setting, the largest difference "
    "that is decided; the pair whose interval stays closest to 0, of those that are equivalent if "
    "there are any, and of two that are above random actions by more than a margin if there are "
    "any; and of the undecided pairs, that with the widest interval. How large, close or wide "
    "something is, is counted in its setting's margins of equivalence, since returns of different "
    "tasks cannot be compared."
)

Finding = tuple[str, PairVerdict | None]  # how its sentence begins, and what it is about


def findings(verdicts: StudyVerdicts) -> tuple[str, ...]:
    """The findings, in Markdown.

    Args:
        verdicts: Those of the study.

    Returns:
        Three sentences; none where no pair has an interval.
    """
    pairs = [item for item in main_pairs(verdicts) if item.high - item.low >= 0]
    if not pairs:
        return ()
    cells = [item.cell for item in pairs]
    return tuple(
        f"**{head}.**" if item is None else f"**{head}:** {_sentence(item, cells, verdicts)}"
        for head, item in (_largest(pairs), _closest(pairs, verdicts), _widest(pairs))
    )


def _largest(pairs: Sequence[PairVerdict]) -> Finding:
    own = [item for item in pairs if item.verdict == DIFFERENT]
    found = max(own or pairs, key=lambda item: _margins(item, abs(item.difference)))
    if own:
        return f"The largest of {len(own)} decided differences, of {_pairs(pairs)}", found
    return f"No difference is decided in {_pairs(pairs)}; the largest, undecided", found


def _closest(pairs: Sequence[PairVerdict], verdicts: StudyVerdicts) -> Finding:
    own = [item for item in pairs if item.verdict == EQUIVALENT]
    better = [item for item in own or pairs if learned.clearly(item, verdicts.learning)]
    found = min(
        better or own or pairs,
        key=lambda item: _margins(item, max(abs(item.low), abs(item.high))),
    )
    share = f"{verdicts.options.margin_share:.0%}"
    if own:
        return f"{len(own)} of {_pairs(pairs)} are equivalent within {share}, the closest", found
    but = _out_of_reach(pairs, verdicts.options)
    head = f"None of {_pairs(pairs)} is shown to be equivalent within {share}{but}; the closest"
    return head, found


def _out_of_reach(pairs: Sequence[PairVerdict], options: Options) -> str:
    """Why pairs could not be equivalent, however alike, in brackets; empty if they could."""
    blind = sum(not item.range.known for item in pairs)
    least = [
        (item, least_runs((item.first, item.second), options)) for item in pairs if item.range.known
    ]
    small = sorted(need for item, need in least if min(item.first.n, item.second.n) < need)
    told = [f"{blind} cannot be, since no range is known"] if blind else []
    if small:
        told.append(
            f"{len(small)} of them could not be, however alike: runs that were not seen leave too "
            f"much open below some {span(map(int, small))} runs each, by setting, and below more "
            "with the correction"
        )
    return f" ({'; '.join(told)})" if told else ""


def _widest(pairs: Sequence[PairVerdict]) -> Finding:
    own = [item for item in pairs if item.verdict == UNDECIDED]
    if not own:
        return f"None of {_pairs(pairs)} is undecided, by n = {sizes_in_words(pairs)}", None
    found = max(own, key=lambda item: _margins(item, item.high - item.low))
    return f"{len(own)} of {_pairs(pairs)} are undecided, the widest", found


def _pairs(pairs: Sequence[PairVerdict]) -> str:
    return plural(len(pairs), "pair")


def _margins(item: PairVerdict, value: float) -> float:
    return value / item.margin.size if item.margin.size else 0.0


def _sentence(item: PairVerdict, cells: Sequence[Cell], verdicts: StudyVerdicts) -> str:
    where = place(item.cell, [item.first, item.second], cells)
    unlike = held.between(item.first.runs, item.second.runs)
    return f"{where}: {pair_in_words(item)}{learned.remark(item, verdicts.learning)}{unlike}."
