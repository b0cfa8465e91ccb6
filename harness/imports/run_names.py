"""Names of imported runs: what options, patterns and files state, and which runs are not used.

A pattern gives meaning to the parts of a path or of a column's name. Runs without a name of their
own, copies, and runs shorter than others of their task are refused.
"""

import collections
import dataclasses
import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from parallax.harness.contract.adapter_discovery import find_adapter_entry_points
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import SpecError
from parallax.harness.imports.return_curves import CurveOptions, ReturnCurve
from parallax.harness.record.completeness import describe_nonfinite
from parallax.harness.record.files import UnusableError
from parallax.harness.record.npz_files import RunEvaluations

UNKNOWN_NAME = "unknown"
"""Name for parts that nothing states."""

FIELDS = ("framework", "algorithm", "env", "hps", "seed")
"""Parts of a run's name that a pattern, an option or a column may state."""

_FIELD = re.compile(r"\{([^{}]*)\}")
_IGNORED = ("_", "")
_MAX_NAME = 1000  # characters
_MAX_SEED = 2**32 - 1


class PathPattern:
    """A pattern such as `{algorithm}/{env}_{seed}`.

    A field matches any text without a slash, `{seed}` a whole number, and `{_}` any text, which
    is ignored. The pattern is matched with the last parts of a path.
    """

    def __init__(self, text: str) -> None:
        """Read a pattern.

        Raises:
            SpecError: It names a field that does not exist, or a field twice.
        """
        self._text = text
        names = [name for name in _FIELD.findall(text) if name not in _IGNORED]
        unknown = [name for name in names if name not in FIELDS]
        if unknown or len(set(names)) < len(names) or not names:
            raise SpecError(
                f"pattern {text!r} must name some of {', '.join(f'{{{f}}}' for f in FIELDS)}, each "
                "once, and {_} for ignored text, such as '{algorithm}/{env}_{seed}'."
            )
        self._depth = text.strip("/").count("/") + 1
        # The greedy and the lazy way to read a text with several separators: they must agree.
        self._forms = [self._compile(repeat) for repeat in ("+", "+?")]

    def _compile(self, repeat: str) -> re.Pattern[str]:
        parts, end = [], 0
        text = self._text.strip("/")
        for match in _FIELD.finditer(text):
            parts.append(re.escape(text[end : match.start()]))
            name = match[1]
            kind = r"\d{1,10}" if name == "seed" else f"[^/]{repeat}"
            parts.append(f"(?:{kind})" if name in _IGNORED else f"(?P<{name}>{kind})")
            end = match.end()
        return re.compile("".join([*parts, re.escape(text[end:])]))

    def match_path(self, path: PurePath) -> dict[str, Any]:
        """Return the fields in the last parts of a path.

        Raises:
            UnusableError: It does not match, or matches in two ways.
        """
        name = "/".join(path.parts[-self._depth :])
        found = self.match_name(name)
        if found is None:
            hint = "If this file is not meant, name the others, or their --format"
            deeper = PathPattern(f"{self._text.strip('/')}/{{_}}")  # as of FOLDER/train.monitor.csv
            if deeper.match_name("/".join(path.parts[-deeper._depth :])) is not None:
                hint = f"{deeper._text} fits"
            raise UnusableError(f"{name} does not fit the pattern {self._text}. {hint}")
        return found

    def match_name(self, name: str) -> dict[str, Any] | None:
        """Return the fields in a text; None if it does not match.

        Raises:
            UnusableError: It matches in two ways that differ.
        """
        # The time of forms with many fields grows with a power of the length.
        matches = [form.fullmatch(name) for form in self._forms if len(name) <= _MAX_NAME]
        if not matches or matches[0] is None or matches[1] is None:
            return None
        first, second = (match.groupdict() for match in matches if match)
        if first != second:
            field = next(key for key in first if first[key] != second[key])
            raise UnusableError(
                f"{name} fits the pattern {self._text} in two ways: {field} could be "
                f"{first[field]} or {second[field]}. Write the pattern so that it fits one way, "
                "or give this field as an option"
            )
        return {key: int(text) if key == "seed" else text for key, text in first.items()}


@dataclasses.dataclass(frozen=True)
class SourceFiles:
    """Files of one run, or of the runs of one table.

    Attributes:
        format: A key of `FORMATS`.
        place: File, or folder of several files.
        name: Path that a pattern is matched with.
        unread: Files of other formats in the same folder, listed with its first source.
    """

    format: str
    files: tuple[Path, ...]
    place: Path
    name: Path
    unread: tuple[Path, ...] = ()


@dataclasses.dataclass(frozen=True)
class ImportOptions:
    """Options of an import.

    Attributes:
        stated: Parts of the name of every run.
        pattern: Pattern of paths; None if nothing is read from paths.
        settings: Settings of every run, such as `alignment` or `n_envs`.
        hyperparameters: Unified hyperparameters of every run.
    """

    results_dir: Path
    study: str
    stated: Mapping[str, Any]
    pattern: PathPattern | None
    settings: Mapping[str, Any]
    hyperparameters: Mapping[str, Any]
    curves: CurveOptions


@dataclasses.dataclass(frozen=True, eq=False)
class NamedCurve:
    """A learning curve with the name of its run.

    Attributes:
        curve: The curve from the file, cut at the run's length.
        format: A key of `FORMATS`.
        names: Framework, algorithm, env, hps and seed; `unknown`, and None for the seed, where
            nothing states one.
        stated_by: `option`, `pattern` or `file` for each that is stated.
        steps: Length of the run; None where nothing states it.
    """

    curve: ReturnCurve
    format: str
    names: Mapping[str, Any]
    stated_by: Mapping[str, str]
    steps: int | None

    @property
    def title(self) -> str:
        """Readable name of its source."""
        part = f", {self.curve.part}" if self.curve.part else ""
        return f"{self.curve.source}{part}"

    @property
    def content_hash(self) -> str:
        """Hash of the returns, equal for copies; includes the source if they never vary.

        The returns of a solved task may be equal in different runs.
        """
        content = hash_evaluations(self.curve.evaluations)
        if np.ptp(self.curve.evaluations.results) > 0:
            return content
        return hashlib.sha256(f"{content} {self.title}".encode()).hexdigest()

    @property
    def failure(self) -> str:
        """Reason that the training counts as failed (a return is not finite), or an empty string.

        The run is imported, since a diverged run must not vanish from its framework's mean.
        """
        return describe_nonfinite(self.curve.evaluations)

    @property
    def last_step(self) -> int:
        """Step of the last evaluation."""
        return int(self.curve.evaluations.timesteps[-1])

    @property
    def interval(self) -> int:
        """Steps between the last two evaluations."""
        steps = self.curve.evaluations.timesteps
        return int(steps[-1] - steps[-2]) if len(steps) > 1 else max(int(steps[-1]), 1)


@dataclasses.dataclass(frozen=True)
class RefusedSource:
    """A run that is not imported."""

    title: str
    reason: str


def hash_evaluations(evaluations: RunEvaluations) -> str:
    """Return a hash of a run's returns and steps, equal for copies."""
    digest = hashlib.sha256(evaluations.timesteps.tobytes())
    digest.update(repr(evaluations.results.shape).encode())
    digest.update(evaluations.results.tobytes())
    return digest.hexdigest()


def name_curve(curve: ReturnCurve, source: SourceFiles, options: ImportOptions) -> NamedCurve:
    """Name a run by options, pattern and file, which must agree."""
    stated, stated_by = _merge_facts(curve, source, options)
    seed, length = stated.get("seed"), stated.get("steps")
    is_number = isinstance(seed, int) and not isinstance(seed, bool)
    if seed is not None and not (is_number and 0 <= seed <= _MAX_SEED):
        raise UnusableError(f"seed={seed!r} must be a whole number from 0 to {_MAX_SEED}")
    names = {field: stated.get(field, UNKNOWN_NAME) for field in FIELDS} | {"seed": seed}
    # Stable-Baselines3 logs PPO into folders PPO_1; runs trained here have the algorithm ppo.
    for field, known in (("algorithm", ALGORITHMS), ("framework", find_adapter_entry_points())):
        if names[field].lower() in known:
            names[field] = names[field].lower()
    cut = dataclasses.replace(curve, evaluations=_cut_evaluations(curve.evaluations, length))
    run = NamedCurve(cut, source.format, names, stated_by, length)
    if length and not run.failure and run.last_step + run.interval <= length:
        raise UnusableError(f"too short: last evaluation at step {run.last_step:,} of {length:,}")
    return run


def _merge_facts(
    curve: ReturnCurve, source: SourceFiles, options: ImportOptions
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return parts of the name and length that anything states, and what states each of them."""
    found = options.pattern.match_path(source.name) if options.pattern else {}
    steps = {} if options.curves.steps is None else {"steps": options.curves.steps}
    origins = {"option": {**options.stated, **steps}, "pattern": found, "file": curve.facts}
    stated: dict[str, Any] = {}
    stated_by: dict[str, str] = {}
    for field in (*FIELDS, "steps"):
        for origin, facts in origins.items():
            if field not in facts:
                continue
            if field not in stated:
                stated[field], stated_by[field] = facts[field], origin
            elif field != "steps" and facts[field] != stated[field]:  # --steps may cut a run short
                raise UnusableError(
                    f"the {stated_by[field]} says {field}={stated[field]} and the {origin} "
                    f"{field}={facts[field]}: leave one of them out"
                )
    return stated, stated_by


def _cut_evaluations(evaluations: RunEvaluations, steps: int | None) -> RunEvaluations:
    if steps is None or evaluations.timesteps[-1] <= steps:
        return evaluations
    count = int(np.searchsorted(evaluations.timesteps, steps, side="right"))
    if not count:
        raise UnusableError(
            f"its first evaluation is at step {evaluations.timesteps[0]:,}, after {steps:,} steps"
        )
    return RunEvaluations(
        evaluations.timesteps[:count], evaluations.results[:count], evaluations.ep_lengths[:count]
    )


def refuse_short_runs_and_copies(
    curves: Sequence[NamedCurve], refused: list[RefusedSource]
) -> list[NamedCurve]:
    """Return the runs that are neither copies nor shorter than others of their task.

    If nothing states a run's length, the longest run of the same task and algorithm determines it.
    A run that diverged may be shorter.
    """
    last_steps: dict[tuple[Any, ...], int] = collections.defaultdict(int)
    for run in curves:
        key = (run.names["env"], run.names["algorithm"], run.curve.kind)
        last_steps[key] = max(last_steps[key], run.last_step)
    usable: dict[str, NamedCurve] = {}
    for run in curves:
        end = last_steps[run.names["env"], run.names["algorithm"], run.curve.kind]
        content = run.content_hash
        if content in usable:
            reason = f"same returns as {usable[content].title}, which is imported"
            refused.append(RefusedSource(run.title, reason))
        elif run.failure:
            usable[content] = dataclasses.replace(run, steps=run.steps or end)
        elif (
            run.steps is None
            and run.names["env"] != UNKNOWN_NAME  # other tasks may well be shorter
            and run.last_step + run.interval <= end
        ):
            reason = (
                f"too short: last evaluation at step {run.last_step:,}; another run reached "
                f"{end:,}. --steps {run.last_step} cuts all runs to this length"
            )
            refused.append(RefusedSource(run.title, reason))
        else:
            usable[content] = run
    return list(usable.values())
