"""Known differences between the update code of frameworks, by the interventions that remove them.

Lockstep training found the implementations of an algorithm equal up to rounding in two forms. A
form is a set of interventions per framework. Each intervention of its framework's set that a run
lacks is a difference from the others.
"""

import functools
import json
from collections.abc import Iterable, Mapping
from typing import Any

from parallax.analysis.data.published import read_csv_rows
from parallax.analysis.data.runs import CompletedRun
from parallax.analysis.verdicts.groups import ScoreGroup

INTERVENTION_SEPARATOR, NO_INTERVENTION = "+", "none"  # as run.json has them
REFERENCE_FORMS = "lockstep/reference_forms"  # alignment=lockstep, docs/reference/lockstep-pairs.md
_COMMON_FORMS = "lockstep/common_forms"  # docs/how-to/lockstep.md
_PATCH_PREFIX = "patch."
FormKey = tuple[str, str]  # algorithm, framework
# Lockstep training was done without these; with them, equality is not shown.
_OFF: Mapping[str, tuple[Any, ...]] = {
    "max_grad_norm": (None,),
    "learning_rate_schedule": ("constant", None),
    "clip_range_schedule": ("constant", None),
    "policy_weight_decay": (0, None),
    "critic_weight_decay": (0, None),
}
_SCALED_ACTIONS = "scaled-critic-actions"
# Parts of reference forms that have no effect on tasks whose actions range from -1 to 1.
_ACTION_UNIT_PARTS = frozenset({_SCALED_ACTIONS, "log-probability-of-the-scaled-action"})
_TASKS_WITH_UNIT_BOUNDS = (
    *("Ant-", "HalfCheetah-", "Hopper-", "InvertedDoublePendulum-", "Reacher-", "Swimmer-"),
    "Walker2d-",
)
# Parts of reference forms that have no effect at certain values of a hyperparameter.
_DEPENDENT_PARTS = "lockstep/dependent_parts"


@functools.cache
def _read_dependent_parts() -> Mapping[FormKey, tuple[tuple[str, str, tuple[Any, ...]], ...]]:
    """Return intervention, hyperparameter and values without effect, by implementation."""
    found: dict[FormKey, tuple[tuple[str, str, tuple[Any, ...]], ...]] = {}
    for row in read_csv_rows(_DEPENDENT_PARTS):
        key = row["algorithm"], row["framework"]
        values = tuple(json.loads(row["values_without_effect"]))
        found[key] = (*found.get(key, ()), (row["intervention"], row["hyperparameter"], values))
    return found


@functools.cache
def _read_forms(table: str) -> Mapping[FormKey, frozenset[str]]:
    """Return the interventions of each implementation in a form."""
    return {
        (row["algorithm"], row["framework"]): _split_names(row["interventions"])
        for row in read_csv_rows(table)
    }


def _split_names(text: str) -> frozenset[str]:
    return frozenset(text.split(INTERVENTION_SEPARATOR)) - {NO_INTERVENTION}


def list_remaining_differences(
    algorithm: str, framework: str, runs: Iterable[CompletedRun]
) -> tuple[str, ...] | None:
    """List the interventions of a framework's reference form that its runs do not have.

    Each names a known difference between the framework's update and the reference form.

    Args:
        algorithm: Algorithm of the runs.
        framework: Framework of the runs.
        runs: Runs of one setting; empty for the unchanged framework.

    Returns:
        Names in alphabetical order; None where no reference form of the framework was measured.
    """
    form = _read_forms(REFERENCE_FORMS).get((algorithm, framework))
    if form is None:
        return None
    key = (algorithm, framework)
    whole = form | {name for name, *_ in _read_dependent_parts().get(key, ())}
    remaining = [whole - _list_inert(key, run) - list_applied_interventions(run) for run in runs]
    return tuple(sorted(frozenset.union(*remaining) if remaining else whole))


def _list_inert(key: FormKey, run: CompletedRun) -> frozenset[str]:
    """Return the parts of a reference form without effect at a run's values and task."""
    parts = _read_dependent_parts().get(key, ())
    values = run.effective_hyperparameters
    found = frozenset(name for name, field, inert in parts if values.get(field) in inert)
    has_unit_bounds = run.id.cell.env.startswith(_TASKS_WITH_UNIT_BOUNDS)
    is_wrapped = bool(run.spec.get("env_wrappers"))
    return found | _ACTION_UNIT_PARTS if has_unit_bounds and not is_wrapped else found


def list_applied_interventions(run: CompletedRun) -> frozenset[str]:
    """Return the names of a run's interventions without patches, which only set values."""
    names = run.interventions or _split_names(str(run.spec.get("intervention", NO_INTERVENTION)))
    return frozenset(name for name in names if not name.startswith(_PATCH_PREFIX))


def _have_one_action_unit(first: ScoreGroup, second: ScoreGroup) -> bool:
    """Return whether the critics of two groups of runs see actions in the same unit."""
    one, other = (
        list_remaining_differences(group.cell.algorithm, group.framework, group.runs) or ()
        for group in (first, second)
    )
    return (_SCALED_ACTIONS in one) == (_SCALED_ACTIONS in other)


def is_same_algorithm(first: ScoreGroup, second: ScoreGroup) -> bool:
    """Return whether lockstep training shows that two groups of runs compute the same updates.

    Both must have been trained in a form that lockstep training found equal up to rounding, with
    the same value of every hyperparameter, with none that lockstep training left out, and with
    critics that see actions in the same units.
    """
    runs = (*first.runs, *second.runs)
    if not (first.runs and second.runs) or first.framework == second.framework:
        return False
    values = runs[0].effective_hyperparameters
    return (
        bool(values)
        and _have_one_action_unit(first, second)
        and any(
            all(_is_in_form(run, form) for run in runs) for form in (_COMMON_FORMS, REFERENCE_FORMS)
        )
        and all(run.effective_hyperparameters == values for run in runs)
        and all(values.get(name) in allowed for name, allowed in _OFF.items())
        and all(run.spec.get("replay", {"name": "uniform"}) == {"name": "uniform"} for run in runs)
    )


def _is_in_form(run: CompletedRun, table: str) -> bool:
    key = run.id.cell.algorithm, run.id.framework
    form, inert = _read_forms(table).get(key), _list_inert(key, run)
    acting = {name for name, *_ in _read_dependent_parts().get(key, ())} - inert
    if form is None or (acting - form and table != REFERENCE_FORMS):
        return False
    return (form | acting) - inert == list_applied_interventions(run) - inert
