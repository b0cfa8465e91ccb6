"""Runs to make, as command lines of `python -m parallax train`."""

import collections
import dataclasses
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from parallax.analysis.data.runs import CompletedRun, LoadedRuns
from parallax.analysis.plan.planning import SeedNeed
from parallax.harness.record.layout import RunPath, find_results_dir, format_task_name

# Fields that the command sets itself; all other fields of a run's spec are passed on unchanged.
_EXCLUDED_FIELDS = {"study", "env", "algorithm", "hps", "framework", "seed", "python"}
_EXCLUDED_FIELDS |= {"checkpoint_every", "diagnosis", "logger"}  # how a run is recorded
_HYPERPARAMETER_FIELDS = {"hyperparameters", "overridden"}

_CHECK_SCRIPT = """\
is_planned_script() {
    case $(sha256sum "$1") in "$2"*) return 0 ;; esac
    echo "Not trained: $PWD/$1 is not the script of these runs, whose SHA-256 begins with $2." >&2
    echo "Restore the file: run.json of each run has its text under spec.script." >&2
    return 2
}
"""
_UNQUOTED_VALUE = re.compile(r"[\w./-]+")


@dataclasses.dataclass(frozen=True)
class SeedSweep:
    """Every combination of its values, one run each.

    Attributes:
        settings: What all runs share, as `name=value`.
        algorithms: Algorithms.
        hps: Names of hyperparameters.
        envs: Tasks.
        frameworks: Frameworks.
        seeds: Seeds.
        script: Name and first digits of the SHA-256 of the user's own script that is trained; None
            where the framework's code is.
    """

    settings: tuple[str, ...]
    algorithms: tuple[str, ...]
    hps: tuple[str, ...]
    envs: tuple[str, ...]
    frameworks: tuple[str, ...]
    seeds: tuple[int, ...]
    script: tuple[str, str] | None = None

    def command(self) -> str:
        """Return the command line, for a POSIX shell."""
        options = {
            "framework": self.frameworks,
            "algorithm": self.algorithms,
            "env.name": self.envs,
            "hps": self.hps,
            "seed": (_format_seeds(self.seeds),),
        }
        words = [f"{name}={','.join(values)}" for name, values in options.items()]
        arguments = shlex.join([*words, *self.settings])
        command = f"${{PYTHON:-python}} -m parallax train --multirun {arguments}"
        if self.script is None:
            return command
        name, digest = map(shlex.quote, self.script)  # the file may have been edited since
        return f"is_planned_script {name} {digest} && {command}"


def make_sweeps(needs: Sequence[SeedNeed], loaded: LoadedRuns) -> tuple[SeedSweep, ...]:
    """Return command lines for the seeds, merged along one axis after the other.

    Args:
        needs: Seeds by setting and framework.
        loaded: The runs whose settings the new ones repeat.
    """
    sweeps = [
        SeedSweep(
            _collect_settings(need, loaded.runs),
            (need.cell.algorithm,),
            (need.cell.hps,),
            (_find_pattern(need, loaded.runs).spec["env"],),
            (need.framework.partition("@")[0],),
            need.seeds,
            _find_script(need),
        )
        for need in needs
    ]
    for axis in ("frameworks", "envs", "hps", "algorithms"):
        sweeps = _merge_axis(sweeps, axis)
    return tuple(sweeps)


def format_script(sweeps: Sequence[SeedSweep], remark: str) -> str:
    """Return a shell script with all sweeps.

    Args:
        sweeps: Sweeps to run.
        remark: Purpose of the script; may have several lines.
    """
    lines = ["#!/bin/sh", *(f"# {line}".rstrip() for line in remark.splitlines())]
    lines += ["# Words given to this script are passed on, such as hydra.launcher.n_jobs=4.", ""]
    lines += [_CHECK_SCRIPT] if any(sweep.script for sweep in sweeps) else []
    lines += ["status=0", *(f'{sweep.command()} "$@" || status=$?' for sweep in sweeps)]
    lines += ["exit $status"]
    return "\n".join(lines) + "\n"


def _merge_axis(sweeps: Sequence[SeedSweep], axis: str) -> list[SeedSweep]:
    """Join sweeps that differ in one kind of value only."""
    found: dict[SeedSweep, list[str]] = collections.defaultdict(list)
    for sweep in sweeps:
        nothing: dict[str, Any] = {axis: ()}
        found[dataclasses.replace(sweep, **nothing)] += getattr(sweep, axis)
    merged = []
    for rest, values in found.items():
        changes: dict[str, Any] = {axis: tuple(dict.fromkeys(values))}
        merged.append(dataclasses.replace(rest, **changes))
    return merged


def _collect_settings(need: SeedNeed, runs: Sequence[CompletedRun]) -> tuple[str, ...]:
    """Return the options that a run of the setting had, its own framework's before others'."""
    run = _find_pattern(need, runs)
    spec = run.spec
    values: dict[str, Any] = {"study.name": need.cell.study}
    values |= {
        name: spec[name] for name in spec if name not in _EXCLUDED_FIELDS | _HYPERPARAMETER_FIELDS
    }
    replay = dict(values.pop("replay", {"name": "uniform"}))
    if (way := replay.pop("name")) != "uniform":
        values |= {"replay": way} | {f"replay.{name}": replay[name] for name in replay}
    values |= {
        f"hyperparameters.{name}": spec["hyperparameters"][name] for name in spec["overridden"]
    }
    kwargs, wrappers = values.pop("env_kwargs", {}), values.pop("env_wrappers", ())
    values |= {f"env.kwargs.{name}": kwargs[name] for name in kwargs}
    values |= {"env.wrappers": wrappers} if wrappers else {}
    values.pop("script", None)
    if run.id.framework == need.framework:
        values |= {"framework.python": spec["python"]} if spec.get("python") else {}
    if script := _find_script(need):
        values |= {"script": script[0]}
    place = _find_results_dir(run)
    values |= {"results_dir": str(place)} if place else {}
    return tuple(f"{name}={_format_value(value)}" for name, value in values.items())


def _find_script(need: SeedNeed) -> tuple[str, str] | None:
    """Return the name of the user's script that is trained, and the first digits of its hash."""
    stem, _, digest = need.framework.partition("@")[2].rpartition("-")
    return (f"{stem}.py", digest) if stem else None


def _find_pattern(need: SeedNeed, runs: Sequence[CompletedRun]) -> CompletedRun:
    """Return a run of the setting, of its own framework where there is one."""
    inside = [run for run in runs if run.id.cell == need.cell]
    return next((run for run in inside if run.id.framework == need.framework), inside[0])


def _find_results_dir(run: CompletedRun) -> Path | None:
    """Return the folder above the study, if the run is where the harness puts it."""
    spec, folder = run.spec, run.path
    said = RunPath(
        spec["study"],
        format_task_name(spec["env"], spec.get("env_kwargs", {}), spec.get("env_wrappers", ())),
        spec["algorithm"],
        spec["hps"],
        run.id.framework,
        folder.parent.name,
        spec["seed"],
    )
    return find_results_dir(folder, said)


def _format_seeds(seeds: Sequence[int]) -> str:
    """Format seeds for a Hydra sweep; consecutive seeds as a range, whose end is exclusive."""
    if len(seeds) > 3 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"range({seeds[0]},{seeds[-1] + 1})"
    return ",".join(map(str, seeds))


def _format_value(value: Any) -> str:
    """Return a value in Hydra's grammar."""
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{name}:{_format_value(value[name])}' for name in value)}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_format_value, value))}]"
    text = str(value)
    if _UNQUOTED_VALUE.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
