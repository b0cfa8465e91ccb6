"""What a probe found."""

import dataclasses
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

AGREES, FACTOR, OFFSET, FUNCTION, COUNT = "agrees", "factor", "offset", "function", "count"
KINDS = (AGREES, FACTOR, OFFSET, FUNCTION, COUNT)
"""How a measured answer relates to the expected one."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How a measured answer relates to the expected one.

    Attributes:
        kind: `agrees`; `factor` (a multiple of it); `offset` (a constant away from it);
            `function` (neither); `count` (another whole number).
        size: The factor, the offset, the largest absolute difference, or the difference in
            counts; 0 where they agree.
    """

    kind: str
    size: float = 0.0


@dataclasses.dataclass(frozen=True)
class Answer:
    """One implementation's answer.

    Attributes:
        value: What was measured; any shape.
        expected: The paper's formula on the same inputs, same shape.
        comparison: Value against expected.
        meaning: One line for a reader.
        unmeasured: Why there is no answer; empty where there is one.
        failed: Whether an error is why.
        along: What the entries run over, where it is not what the result's axis says.
    """

    value: Array
    expected: Array
    comparison: Comparison
    meaning: str = ""
    unmeasured: str = ""
    failed: bool = False
    along: Array | None = None


@dataclasses.dataclass(frozen=True)
class Axis:
    """What the entries of an array answer run over, for plots.

    Attributes:
        label: Name, with the unit.
        values: One per entry.
    """

    label: str
    values: Array


@dataclasses.dataclass(frozen=True)
class Result:
    """All implementations' answers to one probe.

    Attributes:
        probe: Identifier, `<algorithm>.<what>`.
        algorithm: `ppo`, `td3` or `sac`.
        question: What is asked, one sentence.
        citation: Paper and place of the formula.
        quantity: What the numbers are, with the unit.
        axis: What an array runs over, or None for single numbers.
        answers: By framework.
        groups: Frameworks that agree with each other, largest group first.
    """

    probe: str
    algorithm: str
    question: str
    citation: str
    quantity: str
    axis: Axis | None
    answers: Mapping[str, Answer]
    groups: tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True)
class Report:
    """One run of the probes.

    Attributes:
        results: One per probe.
        versions: Installed packages, by framework: `name version`.
        not_probed: Frameworks that were left out, and why.
        seconds: Wall-clock time.
    """

    results: tuple[Result, ...]
    versions: Mapping[str, tuple[str, ...]]
    not_probed: Mapping[str, str]
    seconds: float


def places(result: Result, answer: Answer) -> Array | None:
    """What the entries of an answer run over; None where that is not told."""
    if answer.along is not None:
        return answer.along
    return None if result.axis is None else result.axis.values


def entry_names(result: Result, count: int) -> list[str]:
    """Names of an answer's numbers: those that `quantity` lists, after any colon, or places."""
    _, colon, listed = result.quantity.rpartition(": ")
    names = listed.split(", ")
    found = len(names) == count and (bool(colon) or count > 2)
    return names if found else [str(place) for place in range(count)]


def no_answer(why: str, failed: bool = False) -> Answer:
    """An answer that could not be had."""
    nothing = np.empty(0)
    return Answer(nothing, nothing, Comparison(AGREES), unmeasured=why, failed=failed)
