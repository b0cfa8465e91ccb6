"""Three findings of a study, picked by a rule and never by hand."""

from collections.abc import Sequence

from analysis.data.runs import Cell
from analysis.report import held, learned
from analysis.report.decided import main_pairs, pair_in_words, place, sizes_in_words
from analysis.report.statements import plural
from analysis.verdicts.consistency import DIFFERENT, EQUIVALENT, UNDECIDED, PairVerdict
from analysis.verdicts.study import StudyVerdicts

RULE = (
    "They are picked by a rule: of all pairs of frameworks in one setting, the largest difference "
    "that is decided; the pair whose interval stays closest to 0, of those that are equivalent if "
    "there are any, and of two that are above random actions if there are any; and of the "
    "undecided pairs, that with the widest interval. What is large, close or wide is told in "
    "margins of equivalence, which are shares of different things where nothing is published and "
    "no range was given."
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
    better = [item for item in own or pairs if not learned.remark(item, verdicts.learning)]
    found = min(
        better or own or pairs,
        key=lambda item: _margins(item, max(abs(item.low), abs(item.high))),
    )
    share = f"{verdicts.options.margin_share:.0%}"
    if own:
        return f"{len(own)} of {_pairs(pairs)} are equivalent within {share}, the closest", found
    blind = sum(not item.range.known for item in pairs)
    but = f" ({blind} cannot be, since no range is known)" if blind else ""
    head = f"None of {_pairs(pairs)} is shown to be equivalent within {share}{but}; the closest"
    return head, found


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
