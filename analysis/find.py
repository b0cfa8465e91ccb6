"""Finds the folders that stand for runs."""

import os
import re
from pathlib import Path

from analysis.evaluations import EVALUATIONS_FILE

RUN_FILE = "run.json"
OUTPUT_FOLDER = "analysis"

_SEED_FOLDER = re.compile(r"seed=(\d+)")


def find_run_folders(root: Path) -> list[Path]:
    """Folders at or under `root` that stand for a run, in order.

    They are named `seed=<n>`, or hold a run.json or an evaluations.npz.

    Folders named `analysis` are passed over: results of an analysis live there.
    """
    found: list[Path] = []
    seen: set[Path] = set()
    # Studies are often linked in from other disks; `seen` keeps links from going in circles.
    # What may not be listed, or is a dead link, is kept: reading it will tell the reason.
    walk = os.walk(root, onerror=lambda e: found.append(Path(e.filename)), followlinks=True)
    for name, subfolders, files in walk:
        folder = Path(name)
        if folder.resolve() in seen:
            subfolders.clear()
            continue
        seen.add(folder.resolve())
        found += [folder / file for file in files if _SEED_FOLDER.fullmatch(file)]
        if {RUN_FILE, EVALUATIONS_FILE} & set(files) or _SEED_FOLDER.fullmatch(folder.name):
            found.append(folder)
            subfolders.clear()
        subfolders[:] = sorted(set(subfolders) - {OUTPUT_FOLDER})
    return sorted(found, key=_natural)


def is_foreign(folder: Path) -> bool:
    """Whether a folder holds evaluations in another layout than ours."""
    ours = seed_of(folder.name) is not None or os.path.exists(folder / RUN_FILE)  # noqa: PTH110
    # os.path.exists: unlike Path.exists, it does not raise where a folder may not be read.
    return not ours and os.path.exists(folder / EVALUATIONS_FILE)  # noqa: PTH110


def seed_of(name: str) -> int | None:
    """The seed that a folder's name tells."""
    match = _SEED_FOLDER.fullmatch(name)
    return int(match[1]) if match else None


def _natural(path: Path) -> list[tuple[int, str]]:
    """Sorts seed=10 behind seed=9."""
    words = re.split(r"(\d+)", str(path))
    return [(int(word), "") if word.isdecimal() else (-1, word) for word in words]
