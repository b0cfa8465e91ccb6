"""Questions about environments, their answers, and reports of them."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

AS_DEFINED, DIFFERS, CONVENTION = "as defined", "differs", "convention"
NOT_MEASURED, FAILED = "not measured", "failed"
_MAX_SECONDS = 1e10
OUTCOMES = (AS_DEFINED, DIFFERS, CONVENTION, NOT_MEASURED, FAILED)
"""`CONVENTION`: there is no definition, the answer says which convention is used."""


@dataclasses.dataclass(frozen=True)
class EnvironmentAnswer:
    """Answer of one implementation to one question.

    Attributes:
        outcome: One of `OUTCOMES`.
        words: What it does; each difference in words, with semicolons between them.
        measured: Numbers that the answer is based on.
        expected: The same numbers by the definition.
        location: Upstream's file and line, or empty.
    """

    outcome: str
    words: str
    measured: tuple[float, ...] = ()
    expected: tuple[float, ...] = ()
    location: str = ""

    def __post_init__(self) -> None:
        if self.outcome not in OUTCOMES:
            raise ValueError(f"outcome={self.outcome!r} must be one of {', '.join(OUTCOMES)}")

    @property
    def differences(self) -> tuple[str, ...]:
        """Each difference from the definition, in words."""
        return tuple(self.words.split("; ")) if self.outcome == DIFFERS else ()


@dataclasses.dataclass(frozen=True)
class EnvironmentQuestion:
    """One question.

    Attributes:
        name: `role.subject`.
        role: Role of the implementations that it applies to.
        definition: Definition that the answer is compared with.
        answer: Function that measures the answer.
    """

    name: str
    role: str
    question: str
    definition: str
    answer: Callable[[Any], EnvironmentAnswer]


@dataclasses.dataclass(frozen=True)
class EnvironmentReport:
    """Answers of implementations of one interpreter.

    Attributes:
        versions: Version by package.
        answers: By implementation and question.
        missing: Why an implementation is not measured, by its name.
        seconds: Duration of the measurement.
    """

    versions: Mapping[str, str]
    answers: Mapping[str, Mapping[str, EnvironmentAnswer]]
    missing: Mapping[str, str] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.seconds <= _MAX_SECONDS:
            raise ValueError(f"seconds={self.seconds} must be from 0 to {_MAX_SECONDS:g}")

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, of which `load_environment_report` reads the JSON."""
        answers = {
            name: {question: _drop_empty(answer) for question, answer in found.items()}
            for name, found in self.answers.items()
        }
        return {
            "versions": dict(self.versions),
            "seconds": round(self.seconds, 1),
            "missing": dict(self.missing),
            "answers": answers,
        }

    def list_differences(self) -> list[tuple[str, str, EnvironmentAnswer]]:
        """Return implementation, question and answer of each difference from a definition."""
        return [
            (name, question, answer)
            for name, found in self.answers.items()
            for question, answer in found.items()
            if answer.outcome == DIFFERS
        ]


def _drop_empty(answer: EnvironmentAnswer) -> dict[str, Any]:
    return {
        name: value for name, value in dataclasses.asdict(answer).items() if value not in ("", ())
    }


def merge_environment_reports(reports: Sequence[EnvironmentReport]) -> EnvironmentReport:
    """Return one report of several groups of implementations."""
    versions: dict[str, str] = {}
    answers: dict[str, Mapping[str, EnvironmentAnswer]] = {}
    missing: dict[str, str] = {}
    for report in reports:
        versions |= report.versions
        answers |= report.answers
        missing |= report.missing
    return EnvironmentReport(versions, answers, missing, sum(r.seconds for r in reports))


def load_environment_report(text: str) -> EnvironmentReport:
    """Parse the JSON of a report, which may be untrusted.

    Raises:
        ValueError: It is not JSON, or a field has another type.
    """
    import msgspec  # interpreters that only measure need not have it

    return msgspec.convert(json.loads(text), EnvironmentReport)


def list_answer_changes(before: EnvironmentReport, after: EnvironmentReport) -> list[str]:
    """Return each answer that two reports give differently, in words."""
    changes = []
    for name in sorted({*before.answers, *after.answers}):
        old, new = before.answers.get(name, {}), after.answers.get(name, {})
        for question in sorted({*old, *new}):
            first, second = (describe_answer(found.get(question)) for found in (old, new))
            if first != second:
                changes.append(f"{name}, {question}: {first} -> {second}")
    return changes


def describe_answer(answer: EnvironmentAnswer | None) -> str:
    """Return an answer in words."""
    if answer is None:
        return "no answer"
    is_plain = answer.outcome in (AS_DEFINED, CONVENTION)
    return answer.words if is_plain else f"[{answer.outcome}] {answer.words}"
