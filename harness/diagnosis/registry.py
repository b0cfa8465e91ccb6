"""Which checks there are: ours, those of installed packages, and those that a user names."""

import difflib
import functools
import importlib
from collections.abc import Sequence

from harness.contract.fields import SpecError
from harness.contract.installed import entries
from harness.diagnosis.check import Check
from harness.diagnosis.checks import (
    agent,
    environment,
    exploration,
    networks,
    rewards,
    stored,
    targets,
)

GROUP = "parallax.checks"


@functools.cache
def own_checks() -> tuple[Check, ...]:
    """This project's, in the order of Table I."""
    rooms = (agent, environment, exploration, rewards, networks, targets, stored)
    return tuple(check for room in rooms for check in room.CHECKS)


def all_checks(also: Sequence[str] = ()) -> tuple[tuple[Check, ...], tuple[str, ...]]:
    """Every check by now, and what could not be loaded, in words.

    Args:
        also: `module:NAME` of a `Check` each.
    """
    found, troubles = list(own_checks()), []
    for entry in entries(GROUP):
        try:
            found += _checks(entry.load())
        except Exception as error:
            troubles.append(f"{GROUP} {entry.name} cannot be loaded: {_said(error)}")
    for name in also:
        try:
            module, _, attribute = name.partition(":")
            found += _checks(getattr(importlib.import_module(module), attribute))
        except Exception as error:
            troubles.append(f"diagnosis.also={name} cannot be loaded: {_said(error)}")
    return tuple({check.id: check for check in found}.values()), tuple(troubles)


def default_thresholds() -> dict[str, float]:
    """Of this project's checks, by id."""
    return {check.id: check.threshold for check in own_checks()}


def check_thresholds(thresholds: Sequence[str], checks: Sequence[Check]) -> None:
    """Makes sure that every name is that of a check.

    Raises:
        SpecError: Names the one that is not, and the closest that is.
    """
    known = [check.id for check in checks]
    for name in thresholds:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"choose one of {', '.join(known)}."
            raise SpecError(f"diagnosis.{name} is no check: {hint}")


def _checks(loaded: object) -> list[Check]:
    if isinstance(loaded, type):
        loaded = loaded()
    checks = [loaded] if isinstance(loaded, Check) else list(loaded)  # type: ignore[call-overload]
    wrong = [check for check in checks if not isinstance(check, Check)]
    if wrong:
        raise TypeError(f"{wrong[0]!r} is no Check")
    return checks


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
