"""Reference page about environments: a table, differences in words, history, detection rates."""

import dataclasses
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from parallax.harness.contract.data_files import read_user_file
from parallax.harness.contract.fields import SpecError
from parallax.harness.environment_probes.answers import (
    AS_DEFINED,
    CONVENTION,
    DIFFERS,
    FAILED,
    NOT_MEASURED,
    EnvironmentAnswer,
    EnvironmentReport,
    describe_answer,
)
from parallax.harness.environment_probes.catalogue import QUESTIONS
from parallax.harness.environment_probes.mujoco_tasks import TASK_QUESTIONS
from parallax.harness.environment_probes.own_environment import OWN_QUESTIONS

Content = TypeVar("Content")
_MAX_BYTES = 2**24

ALL_QUESTIONS = (*QUESTIONS, *TASK_QUESTIONS, *OWN_QUESTIONS)
_SIGNS = {AS_DEFINED: "=", DIFFERS: "**differs**", CONVENTION: "*", NOT_MEASURED: "?", FAILED: "!"}


@dataclasses.dataclass(frozen=True)
class PlantedDifference:
    """Outcome of one planted mistake, in a file beside the page."""

    name: str
    found: bool
    named: bool
    words: str

    def __post_init__(self) -> None:
        if self.named and not self.found:
            raise ValueError(f"{self.name}: named=true needs found=true")


def list_question_lines() -> list[str]:
    """Return one line per question: name, role and question."""
    return [f"{q.name:36} {q.role:26} {q.question}" for q in ALL_QUESTIONS]


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    # An end of a line in a stored text would end the row.
    cells = (
        [" ".join(cell.split()).replace("|", "\\|").replace("[", "\\[") for cell in row]
        for row in lines
    )
    return "\n".join(f"| {' | '.join(row)} |" for row in cells) + "\n"


def render_environments_page(report: EnvironmentReport, path: Path) -> str:
    """Return the page; history and planted faults are in `NAME-history.json` and `-plants.json`."""
    parts = [_INTRODUCTION, _render_counts(report)]
    parts += ["## Differences from a definition\n", _render_differences(report)]
    parts += ["## MuJoCo tasks, version 4 and 5\n", _TASKS, _render_tasks(report)]
    parts += ["## Questions\n", _render_questions()]
    parts += ["## All answers\n", _SIGN_WORDS, *_render_answers(report)]
    parts += ["## Not measured\n", _render_missing(report)]
    history = path.with_name(f"{path.stem}-history.json")
    if history.exists():
        parts += ["## History of gymnasium's wrappers\n", _render_history(history)]
    plants = path.with_name(f"{path.stem}-plants.json")
    if plants.exists():
        parts += ["## Detection of planted differences\n", _render_plants(plants)]
    return "\n".join(parts)


_INTRODUCTION = """# Environments and wrappers

> Written by `parallax probe --environments --markdown docs/reference/environments.md`.

Environments and wrappers can differ before an agent trains. `parallax probe --environments` tests
every installed wrapper and vectorized environment with the same questions, on a task whose
observations, rewards and ends are formulas, and compares each answer with a definition. Nothing is
trained. [Probe environments](../how-to/probe-environments.md) shows how to test your own.

A **difference** is not necessarily a fault: the definitions only give all implementations the same
reference. If a question has no definition, the answer names the **convention**.
"""

_TASKS = """Both versions are set to the same positions and velocities (40 states, half of them
far from normal play) and take one step with the same action. Differences are intended changes of
version 5. Because of them, returns of the two versions are not comparable.
"""

_SIGN_WORDS = """`=` as defined, `*` a convention, `?` not measured, `!` failed.
"""


def _render_counts(report: EnvironmentReport) -> str:
    answers = [answer for found in report.answers.values() for answer in found.values()]
    versions = ", ".join(f"{name} {version}" for name, version in sorted(report.versions.items()))
    differences = sum(answer.outcome == DIFFERS for answer in answers)
    return (
        f"{len(answers)} answers of {len(report.answers)} implementations, {differences} of them "
        f"differ from a definition, in {report.seconds:.0f} s. Versions: {versions}.\n"
    )


def _is_task(question: str) -> bool:
    return question.startswith("task.")


def _render_differences(report: EnvironmentReport) -> str:
    rows = [
        (name, f"`{question}`", words, f"`{answer.location}`" if answer.location else "")
        for name, question, answer in report.list_differences()
        if not _is_task(question)
        for words in answer.differences
    ]
    return format_table(("implementation", "question", "difference", "file and line"), rows)


def _render_tasks(report: EnvironmentReport) -> str:
    names = [q.name for q in TASK_QUESTIONS if _is_task(q.name)]
    rows = [
        (
            name.removeprefix("mujoco ").removesuffix(", v4 and v5"),
            *(found[question].words if question in found else "" for question in names),
        )
        for name, found in report.answers.items()
        if not found.keys().isdisjoint(names)
    ]
    return format_table(("task", "next state", "observation", "reward", "termination"), rows)


def _render_questions() -> str:
    rows = [(f"`{q.name}`", q.question, q.definition or "a convention") for q in ALL_QUESTIONS]
    return format_table(("question", "in words", "definition"), rows)


def _render_answers(report: EnvironmentReport) -> list[str]:
    parts = []
    for role in dict.fromkeys(q.role for q in ALL_QUESTIONS if not _is_task(q.name)):
        questions = [q for q in ALL_QUESTIONS if q.role == role]
        by_name = {
            name: found
            for name, found in report.answers.items()
            if any(q.name in found for q in questions)
        }
        if not by_name:
            continue
        rows = [
            (name, *(_format_cell(found.get(q.name)) for q in questions))
            for name, found in by_name.items()
        ]
        head = ("implementation", *(f"`{q.name.partition('.')[2]}`" for q in questions))
        parts += [f"### {role.capitalize()}\n", format_table(head, rows)]
    return parts


def _format_cell(answer: EnvironmentAnswer | None) -> str:
    if answer is None:
        return ""
    sign = _SIGNS[answer.outcome]
    return sign if answer.outcome == DIFFERS else f"{sign} {answer.words}"


def _render_missing(report: EnvironmentReport) -> str:
    rows = [*report.missing.items(), *_NOT_COVERED]
    return format_table(("implementation", "why"), rows)


_NOT_COVERED = (
    ("EnvPool, MJX", "not installed here; they step tasks of their own, and take no scripted one"),
    ("gym 0.23 wrappers of CleanRL's TD3, SAC and DDPG", "the package gym is not installed"),
)


def list_history_changes(history: Mapping[str, EnvironmentReport]) -> list[tuple[str, str]]:
    """Return release and change of each answer that differs from the previous release.

    Implementations that only one of the two releases has do not count as a change.
    """
    changes = []
    for before, after in itertools.pairwise(history):
        new = history[after].answers
        for name, answers in history[before].answers.items():
            for question, answer in answers.items():
                if question in new.get(name, {}):
                    first, second = map(describe_answer, (answer, new[name][question]))
                    if first != second:
                        changes.append((after, f"{name}, {question}: {first} -> {second}"))
    return changes


def _load_beside(path: Path, kind: type[Content]) -> Content:
    """Load a file beside the page, which may be untrusted; NaN is allowed."""
    try:
        found = msgspec.convert(json.loads(read_user_file(path, _MAX_BYTES)), kind)
        if not found:
            raise ValueError("it is empty")
    except (OSError, ValueError, ArithmeticError, RecursionError) as error:
        raise SpecError(
            f"{path} is beside the page and cannot be shown ({error}): write or remove it."
        ) from error
    return found


def _render_history(path: Path) -> str:
    history = _load_beside(path, dict[str, EnvironmentReport])
    counts = [
        (name, str(sum(map(len, found.answers.values()))), str(len(found.list_differences())))
        for name, found in history.items()
    ]
    lifetimes: dict[str, list[str]] = {}
    for release, report in history.items():
        for name, question, answer in report.list_differences():
            differences = answer.differences
            if question == "statistics.episode":
                differences = ("recorded returns or lengths are not those of the episode",)
            for words in differences:
                lifetimes.setdefault(f"{name}: {words}", []).append(release)
    last = list(history)[-1]
    rows = [
        (text, found[0], found[-1], "yes" if found[-1] == last else "no")
        for text, found in lifetimes.items()
    ]
    return "\n".join(
        [
            "Measured with `parallax probe --environments --releases ... --json FILE`, each "
            "release in its own Python environment. Resets changed (0.29: in the step that ends an "
            "episode, 1.0: in a separate step, since 1.1: as configured), and an implementation "
            "with other resets counts as another implementation.\n",
            format_table(("release", "answers", "differ from a definition"), counts),
            "### Differences by release\n",
            format_table(("difference", "first measured", "last measured", "still present"), rows),
            "### Answers that changed\n",
            format_table(("release", "change"), list_history_changes(history)),
        ]
    )


def _render_plants(path: Path) -> str:
    rows = _load_beside(path, list[PlantedDifference])
    found, named = sum(row.found for row in rows), sum(row.named for row in rows)
    table = [
        (row.name, "yes" if row.found else "no", "yes" if row.named else "no", row.words)
        for row in rows
    ]
    return "\n".join(
        [
            "Each plant is a wrapper or vectorized environment with one mistake; "
            "`tests/plants/environments.py` has them. *Found*: an answer differs that does not "
            "differ without the mistake. *Named*: the words describe the mistake. The author of "
            "the questions wrote the plants after the questions. At first 40 were named, and a "
            "question was changed for the remaining one. Of 5 further plants, for which nothing "
            "was changed, 5 were found and 2 named: mistakes outside the known alternatives are "
            "found but not named. Without mistakes, 226 answers had no false positive. "
            "`python tests/harness/environment_probes/detection.py FILE` measures the 41.\n",
            f"{found} of {len(rows)} found, {named} named.\n",
            format_table(("plant", "found", "named", "words"), table),
        ]
    )
