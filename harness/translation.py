"""Collects native settings while it keeps, per unified field, how it was honoured."""

import dataclasses
from typing import Any

from harness.adapter import Native, Setting
from harness.cadence import Cadence, expected_cadence
from harness.fields import SpecError
from harness.spec import Hyperparameters

_AS_IS: Any = object()


class Translation:
    """Builds a `Native`; every hyperparameter must be claimed exactly once.

    Settings and the alignment table come from the same calls, so they cannot disagree.
    Refusals are collected, so that a user sees all of them at once.
    """

    def __init__(self, framework: str, hyperparameters: Hyperparameters) -> None:
        self._framework = framework
        self._hyperparameters = hyperparameters
        self._values = {
            field.name: getattr(hyperparameters, field.name)
            for field in dataclasses.fields(hyperparameters)
        }
        self._settings: dict[str, Any] = {}
        self._rows: dict[str, Setting] = {}
        self._refusals: list[str] = []

    def aligned(self, field: str, name: str, native: Any = _AS_IS, note: str = "") -> None:
        """Sets the framework's public option `name`, to the unified value unless given."""
        self._claim(field, "aligned", name, native, note)

    def part_of(self, field: str, name: str, note: str = "") -> None:
        """Declares that the public option `name`, set before, carries `field` as well."""
        self._rows[field] = Setting(
            field, self._values[field], "aligned", name, self._settings[name], note
        )

    def emulated(self, field: str, name: str, native: Any = _AS_IS, note: str = "") -> None:
        """Sets what the adapter does around upstream; `note` says how."""
        self._claim(field, "emulated", name, native, note)

    def constant(self, field: str, constant: Any, note: str = "") -> None:
        """Declares that the framework fixes `field`; any other value is refused."""
        self._rows[field] = Setting(field, constant, "constant", "", constant, note)
        if self._values[field] != constant:
            self.refuse(field, f"fixed at {plain(constant)}{f' ({note})' if note else ''}")

    def refuse(self, field: str, reason: str) -> None:
        """Notes that the asked value of `field` cannot be honoured."""
        self._refusals.append(
            f"hyperparameters.{field}={plain(self._values[field])}: "
            f"in {self._framework} it is {reason}"
        )

    def extra(self, **settings: Any) -> None:
        """Sets native options that no unified field stands for."""
        self._settings.update(settings)

    def finish(
        self,
        total_steps: int,
        framework_steps: int | None = None,
        cadence: Cadence | None = None,
    ) -> Native:
        """The native settings.

        Args:
            total_steps: Environment transitions upstream will take.
            framework_steps: What its own counter will show, where that differs.
            cadence: How often upstream will update, where the hyperparameters say otherwise.

        Raises:
            SpecError: Lists every value that cannot be honoured.
        """
        if self._refusals:
            raise SpecError("; ".join(self._refusals) + ".")
        unclaimed = set(self._values) - set(self._rows)
        if unclaimed:
            raise AssertionError(f"{self._framework} declares nothing for {sorted(unclaimed)}")
        rows = tuple(self._rows[name] for name in self._values)
        counted = total_steps if framework_steps is None else framework_steps
        if cadence is None:
            cadence = expected_cadence(self._hyperparameters, total_steps)
        return Native(self._settings, rows, total_steps, counted, cadence)

    def _claim(self, field: str, kind: str, name: str, native: Any, note: str) -> None:
        value = self._values[field]
        native = value if native is _AS_IS else native
        self._settings[name] = native
        self._rows[field] = Setting(field, value, kind, name, native, note)


def plain(value: Any) -> str:
    """A value as a user would type it: lists for tuples, null for None, calls for objects."""
    if value is None:
        return "null"
    if isinstance(value, tuple):
        return str(list(value))
    if isinstance(value, dict):
        return ", ".join(f"{name}({_arguments(given)})" for name, given in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def _arguments(given: Any) -> str:
    return ", ".join(map(plain, given)) if isinstance(given, list | tuple) else plain(given)
