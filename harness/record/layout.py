"""Paths of run folders: `<study>/<env>/<algorithm>/<hps>/<framework>/<variant>/seed=<n>`.

A slash in the name of a task, as in `MinAtar/Breakout-v1`, is a `~` in that of its folder. Only
this module parses and builds such paths.
"""

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from parallax.harness.record.old_names import translate_env, translate_variant

RUN_FILE = "run.json"
EVALUATIONS_FILE = "evaluations.npz"
TRACE_FILE = "trace.parquet"
POLICY_FILE = "policy.npz"
PROGRESS_FILE = "progress.json"
LOG_FILE = "log.txt"
DIAGNOSIS_FILE = "diagnosis.json"
SCRIPT_DIFF_FILE = "script.diff"
LOGGER_FOLDERS = ("tensorboard", "wandb")
PACKED_SUFFIX = ".parquet"  # of a file of packed runs
CHECKPOINT_FOLDER = "checkpoint"
# Fillers, blanks and variation selectors, which `str.isprintable` calls printable.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)

ANALYSIS_FOLDER = "analysis"
SLURM_FOLDER = "slurm"
RESERVED_FOLDERS = {
    ANALYSIS_FOLDER: "is where tables and figures go",
    SLURM_FOLDER: "is where submissions and their logs go",
}
"""Names that no study can have, and why: folders of these names hold no runs."""

SLASH_SUBSTITUTE = "~"
"""Character that replaces a slash in the name of a folder."""

_MAX_CHANGES_LENGTH = 80
_PLAIN_CHANGES = re.compile(r"[\w.:=,+-]+", re.ASCII)

_SEED_FOLDER = re.compile(r"seed=(\d{1,20})")
_PATH_FIELDS = ("study", "env", "algorithm", "hps", "framework", "variant")


def is_visible(text: str) -> bool:
    """Return whether a text has no control characters or other ones that cannot be seen."""
    return text.isprintable() and (text.isascii() or not _INVISIBLE.search(text))


@dataclasses.dataclass(frozen=True)
class RunPath:
    """Parts of a run folder's path; `?` or None for missing ones.

    Attributes:
        hps: Name of the hyperparameter set.
        variant: Settings that distinguish otherwise equal runs, e.g. `steps=20480`.
    """

    study: str
    env: str
    algorithm: str
    hps: str
    framework: str
    variant: str
    seed: int | None

    def to_folder(self, results_dir: Path) -> Path:
        """Return the run folder in a folder of results."""
        names = (to_folder_name(getattr(self, name)) for name in _PATH_FIELDS)
        return results_dir.joinpath(*names, f"seed={self.seed}")


def find_link(folder: Path) -> Path | None:
    """Return the innermost link among a run folder and those above, up to its study's folder.

    Searches for runs do not follow it, and it may lead out of the results folder.
    """
    places = (folder, *folder.parents)[: len(_PATH_FIELDS) + 1]
    # `Path.is_symlink` raises an error where a name is too long.
    return next((place for place in places if os.path.islink(place)), None)  # noqa: PTH114


def format_task_name(env: str, kwargs: Mapping[str, Any], wrappers: Sequence[str]) -> str:
    """Return the name of a task with a run's changes of it, as folders and tables show it.

    Only the task if nothing is changed; a hash of the changes if they are long, or contain
    characters that a folder's name should not have.

    Args:
        env: Gymnasium's name.
        kwargs: Keyword arguments of the task.
        wrappers: `module:Class` of wrappers around it.
    """
    if not kwargs and not wrappers:
        return env
    parts = [f"{name}={_format_kwarg(kwargs[name])}" for name in sorted(kwargs)]
    parts += [f"wrappers={'+'.join(wrappers)}"] if wrappers else []
    text = ",".join(parts)
    if len(text) > _MAX_CHANGES_LENGTH or not _PLAIN_CHANGES.fullmatch(text):
        exact = json.dumps([dict(kwargs), list(wrappers)], sort_keys=True)
        text = f"changed={hashlib.sha256(exact.encode()).hexdigest()[:12]}"
    return f"{env},{text}"


def _format_kwarg(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def format_script_label(name: str, sha256: str) -> str:
    """Return the short name of a user's own script, such as `my_ppo-1a2b3c4d`."""
    return f"{name.removesuffix('.py')}-{sha256[:8]}"


def format_implementation(framework: str, script: str) -> str:
    """Return the name by which runs are compared: the framework, or a user's script in its place.

    Args:
        framework: Name of the adapter.
        script: Label of the user's own script; empty where the framework's code is run.
    """
    return f"{framework}@{script}" if script else framework


def to_folder_name(name: str) -> str:
    """Convert the name of a task, or another name, to that of a folder."""
    return name.replace("/", SLASH_SUBSTITUTE)


@dataclasses.dataclass(frozen=True)
class FoundRunFolders:
    """Folders found at or below a folder, in order.

    Attributes:
        runs: Folders that represent our runs.
        foreign: Folders with evaluations only, in the layout of other tools.
        links: Links to folders, which are not followed.
    """

    runs: tuple[Path, ...]
    foreign: tuple[Path, ...]
    links: tuple[Path, ...]

    def describe_skipped_links(self) -> str:
        """One sentence on links; empty where there are none."""
        if not self.links:
            return ""
        more = f" and {len(self.links) - 1} more" if len(self.links) > 1 else ""
        return f"Links are not followed: {self.links[0]}{more}. Name their targets instead."


def parse_run_path(folder: Path) -> RunPath:
    """Return the parts of a run folder's path."""
    *above, name = (("?",) * 7 + folder.parts[1:])[-7:]
    study, env, algorithm, hps, framework, variant = above
    return RunPath(
        study,
        translate_env(env.replace(SLASH_SUBSTITUTE, "/")),
        algorithm,
        hps,
        framework,
        translate_variant(variant),
        seed=parse_seed_folder(name),
    )


def parse_seed_folder(name: str) -> int | None:
    """Return the seed in a folder's name; None if there is none."""
    match = _SEED_FOLDER.fullmatch(name)
    return int(match[1]) if match else None


def find_study_folder(folder: Path) -> Path | None:
    """Return the folder of a run folder's study; None if the path is too short."""
    return folder.parents[5] if len(folder.parents) > 6 else None


def find_results_dir(folder: Path, named: RunPath) -> Path | None:
    """Return the folder above the study; None if more than study and variant is not as `named`."""
    place = parse_run_path(folder)
    if dataclasses.replace(place, study=named.study, variant=named.variant) != named:
        return None
    return folder.parents[6] if len(folder.parents) > 6 else None


def find_runs(root: Path) -> FoundRunFolders:
    """Find all folders at or below `root` that represent a run.

    A run of ours is a folder that is named `seed=<n>` or holds a `run.json`, or a file in place
    of such a folder. Folders that cannot be listed count, so that reading them reports the reason.
    Hidden folders, those named in `RESERVED_FOLDERS`, and links are not searched.
    """
    runs: list[Path] = []
    foreign: list[Path] = []
    links: list[Path] = []
    waiting = [root.absolute()]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as listing:
                entries = list(listing)
        except OSError:
            runs.append(folder)
            continue
        names = {entry.name for entry in entries}
        if RUN_FILE in names or _SEED_FOLDER.fullmatch(folder.name):
            runs.append(folder)
            continue
        if EVALUATIONS_FILE in names:
            foreign.append(folder)
            continue
        for entry in entries:
            if entry.is_symlink():
                if _may_be_folder(entry) or _SEED_FOLDER.fullmatch(entry.name):
                    links.append(Path(entry.path))
            elif entry.is_dir(follow_symlinks=False):
                if entry.name not in RESERVED_FOLDERS and not entry.name.startswith("."):
                    waiting.append(Path(entry.path))
            elif _SEED_FOLDER.fullmatch(entry.name):
                runs.append(Path(entry.path))
    return FoundRunFolders(
        *(tuple(sorted(found, key=_make_sort_key)) for found in (runs, foreign, links))
    )


def _may_be_folder(link: "os.DirEntry[str]") -> bool:
    try:
        return link.is_dir()
    except OSError:
        return True  # it leads in a circle, or its target cannot be read


def _make_sort_key(path: Path) -> list[tuple[int, str]]:
    """Sort seed=10 behind seed=9."""
    words = re.split(r"(\d+)", str(path))
    return [(int(word), "") if word.isdecimal() else (-1, word) for word in words]
