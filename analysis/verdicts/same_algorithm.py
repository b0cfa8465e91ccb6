"""Pairs whose updates lockstep training shows to be equal to rounding.

No statistics can show two implementations to be the same; training them side by side on identical
weights and data can. Where that was done, it is printed beside the returns.
"""

import functools
import re
from collections.abc import Mapping
from typing import Any

from parallax.analysis.data.published import read_csv_rows
from parallax.analysis.data.runs import CompletedRun
from parallax.analysis.verdicts.groups import ScoreGroup

_COMMON_FORMS = "lockstep/common_forms"  # docs/how-to/lockstep.md, all pairs of an algorithm
# Lockstep training was done without these; with them, equality is not shown.
_OFF: Mapping[str, tuple[Any, ...]] = {
    "max_grad_norm": (None,),
    "learning_rate_schedule": ("constant", None),
    "clip_range_schedule": ("constant", None),
    "policy_weight_decay": (0, None),
    "critic_weight_decay": (0, None),
}


@functools.cache
def _read_common_forms() -> frozenset[tuple[str, str, str]]:
    """Return algorithm, framework and sorted interventions of each implementation."""
    return frozenset(
        (row["algorithm"], row["framework"], row["interventions"])
        for row in read_csv_rows(_COMMON_FORMS)
    )


def is_same_algorithm(first: ScoreGroup, second: ScoreGroup) -> bool:
    """Return whether lockstep shows two groups of runs to compute the same updates.

    Both must have been trained in a form that lockstep found equal to rounding, with the same
    value of every hyperparameter, and with none that lockstep training left out.

    Args:
        first: Runs of one framework.
        second: Runs of another.
    """
    runs = (*first.runs, *second.runs)
    if not (first.runs and second.runs) or first.framework == second.framework:
        return False
    values = runs[0].effective_hyperparameters
    return (
        bool(values)
        and all(_is_in_common_form(run) for run in runs)
        and all(run.effective_hyperparameters == values for run in runs)
        and all(values.get(name) in allowed for name, allowed in _OFF.items())
        and all(run.spec.get("replay", {"name": "uniform"}) == {"name": "uniform"} for run in runs)
    )


def _is_in_common_form(run: CompletedRun) -> bool:
    made = "+".join(sorted(re.split(r"\+", str(run.spec.get("intervention", "none")))))
    return (run.id.cell.algorithm, run.id.framework, made) in _read_common_forms()
