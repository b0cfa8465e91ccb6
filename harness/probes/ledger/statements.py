"""Statements about implementations, as they stand in `statements.yaml`."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.contract.fields import SpecError

FILE = Path(__file__).with_name("statements.yaml")
TAKES = ("all", "smallest", "largest", "first", "last")
TEXTS = ("text", "absent")
CHECKS = (
    *("equals", "above", "below", "paper", "factor", "offset", "like", "unlike", "says", "set"),
    *TEXTS,
)


@dataclasses.dataclass(frozen=True)
class Check:
    """What one probe must have measured, or a file must hold, for a statement to be true.

    Attributes:
        probe: Its name; empty where a file is read.
        who: Frameworks that the statement is about.
        kind: One of `CHECKS`: the numbers equal, are above or below a number; the answer is the
            paper's or is not; is a factor of it or an offset away; is like or unlike that of
            another framework; its meaning contains a text; the probe's setting can be set or not;
            the file holds a text or does not.
        value: What for.
        take: Which of the answer's numbers: one of `TAKES`, or their places or names.
        unit: What the numbers are divided by before they are compared and shown.
        tolerance: Largest relative difference that counts as equal.
        file: Upstream's, by its path in the distribution.
    """

    probe: str
    who: tuple[str, ...]
    kind: str
    value: Any
    take: str | tuple[int | str, ...] = "all"
    unit: float = 1.0
    tolerance: float = 1e-3
    file: str = ""


@dataclasses.dataclass(frozen=True)
class Statement:
    """One statement.

    Attributes:
        section: Heading it stands under.
        place: Section, box or table.
        says: The statement in our own words.
        checks: All must hold for it to be true; none where it cannot be tested.
        untestable: Why it cannot be tested.
        note: What a reader must know besides.
        covers: Whether the statement tells of the differences that its probes find.
    """

    section: str
    place: str
    says: str
    checks: tuple[Check, ...] = ()
    untestable: str = ""
    note: str = ""
    covers: bool = True


def read(path: Path = FILE) -> tuple[Statement, ...]:
    """All statements.

    Raises:
        SpecError: An entry is not as described above.
    """
    sections: Mapping[str, list[Mapping[str, Any]]] = yaml.safe_load(path.read_text())
    return tuple(
        _statement(section, entry) for section, entries in sections.items() for entry in entries
    )


def _statement(section: str, entry: Mapping[str, Any]) -> Statement:
    fields = {"section": section, **entry}
    checks = tuple(_check(check, entry["says"]) for check in fields.pop("checks", []))
    if bool(checks) == bool(fields.get("untestable")):
        raise SpecError(f"ledger: {entry['says']!r} needs either checks or untestable.")
    return Statement(checks=checks, **fields)


def _check(entry: Mapping[str, Any], says: str) -> Check:
    fields = dict(entry)
    kinds = [kind for kind in CHECKS if kind in fields]
    if len(kinds) != 1:
        raise SpecError(f"ledger: a check of {says!r} needs exactly one of {', '.join(CHECKS)}.")
    if (kinds[0] in TEXTS) != ("file" in fields) or ("probe" in fields) == ("file" in fields):
        raise SpecError(f"ledger: a check of {says!r} needs a probe, or a file and its text.")
    if "take" in fields and kinds[0] not in ("equals", "above", "below"):
        raise SpecError(f"ledger: {kinds[0]} of {says!r} is about a whole answer: drop take.")
    take = fields.pop("take", "all")
    if isinstance(take, str) and take not in TAKES:
        raise SpecError(f"ledger: take: {take} of {says!r} must be one of {', '.join(TAKES)}.")
    return Check(
        probe=fields.pop("probe", ""),
        who=tuple(fields.pop("who")),
        kind=kinds[0],
        value=fields.pop(kinds[0]),
        take=take if isinstance(take, str) else tuple(take),
        **fields,
    )
