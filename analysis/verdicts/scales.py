"""Scale of a task: the score of doing nothing, and the score at which it counts as solved."""

import dataclasses

from parallax.analysis.data.published import (
    get_do_nothing_score,
    get_random_score,
    get_reference_score,
    get_solved_score,
)
from parallax.analysis.data.runs import StudyCell
from parallax.analysis.verdicts.options import VerdictOptions


@dataclasses.dataclass(frozen=True)
class ScoreScale:
    """Scores that are 0 and 1 after normalization in one task.

    Attributes:
        zero: Score, in units of return.
        one: Score, in units of return; above `zero`.
        source: Source of both, in words.
    """

    zero: float
    one: float
    source: str

    @property
    def width(self) -> float:
        """Units of return per unit of normalized score."""
        return self.one - self.zero


def find_task_scale(cell: StudyCell, options: VerdictOptions) -> ScoreScale | None:
    """Return the scale on which 0 is doing nothing and 1 a solved task; None if unknown.

    0 is the better score of a policy that does nothing and of random actions, 1 the published score
    of the algorithm. A range given for the task takes precedence: its upper end is 1, and 0 is the
    largest of its lower end and the two policies' scores.

    Args:
        cell: The setting.
        options: Given ranges.
    """
    return _make_scale(cell, options, get_reference_score(cell.algorithm, cell.env))


def find_solved_scale(cell: StudyCell, options: VerdictOptions) -> ScoreScale | None:
    """Return the same with 1 = the score at which the task counts as solved, for any algorithm.

    The published score of the algorithm is taken where no such score is known.

    Args:
        cell: The setting.
        options: Given ranges.
    """
    found = get_solved_score(cell.env) or get_reference_score(cell.algorithm, cell.env)
    return _make_scale(cell, options, found)


def _make_scale(
    cell: StudyCell, options: VerdictOptions, found: tuple[float, str] | None
) -> ScoreScale | None:
    given = options.range_by_env.get(cell.env)
    known = [
        (score[0], name)
        for name, score in (
            ("random actions", get_random_score(cell.env)),
            ("doing nothing", get_do_nothing_score(cell.env)),
        )
        if score is not None
    ]
    if given:
        known.append((given[0], "the lower end of the range given"))
    one = given[1] if given else None if found is None else found[0]
    if one is None or not known or max(known)[0] >= one:
        return None
    zero, name = max(known)
    return ScoreScale(zero, one, f"0: {name}; 1: {'given' if given else found and found[1]}")
