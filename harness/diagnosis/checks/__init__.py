"""All checks: this project's, one file per subject, those of other packages, and a user's own."""

import difflib
import functools
import importlib
from collections.abc import Sequence

from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.packages import find_entry_points
from parallax.harness.diagnosis.check import DiagnosisCheck
from parallax.harness.diagnosis.checks import (
    agent,
    environment,
    exploration,
    networks,
    recomputed_targets,
    reported_targets,
    rewards,
)

GROUP = "parallax.checks"


@functools.cache
def load_own_checks() -> tuple[DiagnosisCheck, ...]:
    """Return this project's checks in the order of Table I."""
    modules = (
        agent,
        environment,
        exploration,
        rewards,
        networks,
        reported_targets,
        recomputed_targets,
    )
    return tuple(check for module in modules for check in module.CHECKS)


def load_all_checks(
    extra: Sequence[str] = (),
) -> tuple[tuple[DiagnosisCheck, ...], tuple[str, ...]]:
    """Return all checks and those named `module:NAME`, and messages about unusable ones."""
    found, troubles = {check.id: check for check in load_own_checks()}, []
    for entry in find_entry_points(GROUP):
        try:
            _add_checks(found, entry.load())
        except (Exception, SystemExit) as error:
            troubles.append(f"{GROUP} {entry.name} cannot be loaded: {_format_error(error)}")
    for name in extra:
        try:
            module, _, attribute = name.partition(":")
            _add_checks(found, getattr(importlib.import_module(module), attribute))
        except (Exception, SystemExit) as error:
            troubles.append(
                f"diagnosis.extra_checks={name} cannot be loaded: {_format_error(error)}"
            )
    return tuple(found.values()), tuple(troubles)


def get_default_thresholds() -> dict[str, float]:
    """Return the default thresholds of this project's checks by id."""
    return {check.id: check.threshold for check in load_own_checks()}


def list_left_out(
    checks: Sequence[DiagnosisCheck], only: Sequence[str], skip: Sequence[str]
) -> dict[str, str]:
    """Return the checks that a user excludes, with the setting that excludes them.

    Args:
        checks: All checks.
        only: Ids of the checks to evaluate; all if empty.
        skip: Ids of checks to leave out.

    Raises:
        SpecError: A name is not the id of a check, or no check is left.
    """
    check_names([*only, *skip], checks)
    left_out = {check.id: "diagnosis.skip" for check in checks if check.id in skip}
    if only:
        left_out |= {check.id: "diagnosis.only" for check in checks if check.id not in only}
    if checks and len(left_out) == len(checks):
        raise SpecError(
            "diagnosis.only and diagnosis.skip leave no check: name fewer in diagnosis.skip, or "
            "use diagnosis=off."
        )
    return left_out


def check_names(names: Sequence[str], checks: Sequence[DiagnosisCheck]) -> None:
    """Require that every name is the id of a check.

    Raises:
        SpecError: A name is not the id of a check; the message has the closest id.
    """
    known = [check.id for check in checks]
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"choose one of {', '.join(known)}."
            raise SpecError(f"diagnosis.{name} is not a check: {hint}")


def _add_checks(found: dict[str, DiagnosisCheck], loaded: object) -> None:
    if isinstance(loaded, type):
        loaded = loaded()
    checks = [loaded] if isinstance(loaded, DiagnosisCheck) else list(loaded)  # type: ignore[call-overload]
    wrong = [check for check in checks if not isinstance(check, DiagnosisCheck)]
    if wrong:
        raise TypeError(f"{wrong[0]!r} is not a DiagnosisCheck")
    for check in checks:
        if found.setdefault(check.id, check) != check:
            raise ValueError(f"a check {check.id} already exists")


def _format_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
