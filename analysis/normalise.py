"""Scores of different tasks on one scale: 0 and 1 per task, and where they come from."""

import dataclasses
from collections.abc import Iterable, Mapping

from analysis.groups import Group
from analysis.published import read_table, split_version

KINDS = ("reference", "min-max")


@dataclasses.dataclass(frozen=True)
class Scale:
    """What counts as 0 and as 1 in one task.

    Attributes:
        zero: Score, in units of return.
        one: Score, in units of return; above `zero`.
        source: Where both come from.
    """

    zero: float
    one: float
    source: str


def scales(groups: Iterable[Group], kind: str = "reference") -> Mapping[str, Scale]:
    """A scale for every task that has one.

    `reference`: 0 is the score of random actions, 1 the best of the original papers' scores on
    the task, read off by the thesis; neither depends on the runs compared. `min-max`: 0 and 1
    are the worst and the best seed of the runs compared, so adding a run changes all scores.

    Args:
        groups: The scores compared.
        kind: One of `KINDS`.

    Raises:
        ValueError: The kind is unknown.
    """
    if kind not in KINDS:
        raise ValueError(f"normalisation={kind!r} is not known. Known: {', '.join(KINDS)}.")
    groups = list(groups)
    envs = sorted({group.cell.env for group in groups})
    if kind == "reference":
        found = {env: reference_scale(env) for env in envs}
    else:
        found = {
            env: _min_max([group for group in groups if group.cell.env == env]) for env in envs
        }
    return {env: scale for env, scale in found.items() if scale is not None}


def reference_scale(env: str) -> Scale | None:
    """Random and best published score of a task; None where either is not known.

    Random scores are known for versions v4 and v5; the published ones are of earlier versions.
    """
    task, version = split_version(env)
    random = [row for row in read_table("random") if (row.env, row.version) == (task, version)]
    best = max(
        (row for row in read_table("thesis_targets") if row.env == task),
        key=lambda row: row.mean,
        default=None,
    )
    if not random or best is None:
        return None
    source = f"0: random actions on {env}; 1: {best.algorithm} of the original paper, {best.mean:g}"
    return Scale(random[0].mean, best.mean, source)


def _min_max(groups: list[Group]) -> Scale | None:
    values = [
        float(value) for group in groups if group.scores is not None for value in group.scores
    ]
    if not values or min(values) == max(values):
        return None
    return Scale(min(values), max(values), "0 and 1: worst and best seed of the runs compared")
