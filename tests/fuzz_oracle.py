"""Expected answers of readers to a damaged run folder, computed without the readers."""

import dataclasses
import json
import math
import stat
import zipfile
from pathlib import Path

import numpy as np

_MARK = b"PAR1"  # at both ends of a trace


@dataclasses.dataclass(frozen=True)
class Template:
    """A healthy run folder that copies are made of.

    Attributes:
        folder: The folder; its last seven names are those of the layout.
        state: What `slurm status` calls it.
    """

    folder: Path
    state: str

    @property
    def complete(self):
        return self.state == "completed"


@dataclasses.dataclass(frozen=True)
class Expectation:
    """Expected answers of readers; None where either answer is right if all agree.

    Attributes:
        complete: Whether the run counts as complete.
        is_named: Whether `validate` names a file of it.
        state: What `status` calls it; None where that is open.
    """

    complete: bool | None
    is_named: bool | None
    state: str | None = None


OPEN = Expectation(None, None)
BROKEN = Expectation(False, True)


def expect_healthy(template):
    return Expectation(template.complete, False, template.state)


def expect(template, folder, damage):
    """Return the expected answers for a copy of `template` that now is at `folder`."""
    if damage.complete is not None and damage.file in (".", "other"):
        return Expectation(damage.complete, None)
    judge = {
        "run.json": _expect_of_run,
        "evaluations.npz": _expect_of_evaluations,
        "trace.parquet": _expect_of_trace,
    }.get(damage.file)
    if judge is _expect_of_run:
        return judge(template, folder, damage.kind == "swap")
    if judge:
        return judge(template, folder)
    if damage.file == ".":
        return Expectation(None if template.complete else False, None)
    # Nothing that decides about completeness.
    return Expectation(template.complete, None)


def _expect_of_run(template, folder, whole=False):
    before = read_json(template.folder / "run.json")
    try:
        after = read_json(folder / "run.json")
    except (OSError, ValueError, RecursionError):
        return BROKEN
    if same(before, after) or same(_without_checksum(before), after):
        return Expectation(template.complete, False)
    if not isinstance(after, dict) or not template.complete:
        return Expectation(False, not isinstance(after, dict) or None)
    if before["schema"] > 1:
        if not whole:
            return BROKEN  # its checksum disagrees
        # That of a run that is not complete is sound, and with the same files it is a copy.
        if after["status"] != "completed":
            return Expectation(False, None)
        return OPEN if after.get("files") in (None, before["files"]) else BROKEN
    decisive = [("status",), ("schema",), ("steps", "scheduled")]
    if any(not same(at(before, place), at(after, place)) for place in decisive):
        # One that no longer says that it is complete is not damaged for that.
        return Expectation(False, None)
    return OPEN


def _expect_of_evaluations(template, folder):
    path = folder / "evaluations.npz"
    before = template.folder / "evaluations.npz"
    if not path.exists() and not path.is_symlink():
        return Expectation(False, template.complete or None)
    if not is_plain(path) or path.stat().st_size > 100 * before.stat().st_size + 2**30:
        return BROKEN
    if path.read_bytes() == before.read_bytes():
        return Expectation(template.complete, None)
    run = read_json(template.folder / "run.json")
    if template.complete and run["schema"] > 1:
        return BROKEN  # its hash disagrees
    try:
        arrays = read_arrays(path)
    except Exception:
        return BROKEN
    if not template.complete:
        return Expectation(False, None)
    sound = are_evaluations(*arrays) and arrays[0][-1] == run["steps"]["scheduled"]
    return OPEN if sound and np.isfinite(arrays[1]).all() else BROKEN


def _expect_of_trace(template, folder):
    path = folder / "trace.parquet"
    before = (template.folder / "trace.parquet").read_bytes()
    hashed = read_json(template.folder / "run.json")["schema"] > 1 and template.complete
    if not path.exists() and not path.is_symlink():
        return Expectation(template.complete, hashed or None)
    if not is_plain(path) or path.stat().st_size > 2**30:
        return Expectation(template.complete, True)
    after = path.read_bytes()
    # Without a hash, what has a beginning and an end may be a sound file with other values.
    whole = after.startswith(_MARK) and after.endswith(_MARK)
    broken = not whole or (hashed and after != before)
    return Expectation(template.complete, broken or None)


def is_plain(path):
    return stat.S_ISREG(path.lstat().st_mode)


def read_json(path):
    if not is_plain(path) or path.stat().st_size > 2**28:
        raise ValueError(f"{path} is no plain file")
    return json.loads(path.read_bytes().decode("utf-8"))


def read_arrays(path):
    with path.open("rb") as file, zipfile.ZipFile(file) as archive:
        sizes = [info.file_size for info in archive.infolist()]
        if sum(sizes) > 2**24:
            raise ValueError("unpacks to too much")
        heads = [archive.read(info)[:200] for info in archive.infolist()]
    if any(b"(" in head and _claimed(head) > 2**24 for head in heads):
        raise ValueError("claims too much")
    with np.load(path, allow_pickle=False) as file:
        arrays = file["timesteps"], file["results"], file["ep_lengths"]
    if not all(isinstance(array, np.ndarray) for array in arrays):
        raise ValueError("holds what is no array")
    return arrays


def _claimed(head):
    """Numbers that the header of an array claims, roughly: only that it is not huge matters."""
    shape = head.split(b"'shape': (", 1)[-1].split(b")", 1)[0]
    digits = [part.strip() for part in shape.split(b",")]
    return math.prod(int(part) for part in digits if part.isdigit())


def are_evaluations(steps, returns, lengths):
    whole, real = "iu", "fiu"
    kinds = steps.dtype.kind in whole and returns.dtype.kind in real
    if not kinds or lengths.dtype.kind not in whole:
        return False
    if steps.ndim != 1 or returns.ndim != 2 or not returns.size or lengths.shape != returns.shape:
        return False
    big = np.abs(returns) > np.finfo(np.float32).max
    return len(steps) == len(returns) and (np.diff(steps) > 0).all() and not big.any()


def at(content, place):
    for key in place:
        content = content.get(key) if isinstance(content, dict) else None
    return content


def same(one, other):
    """Equal with equal types and signs: 1 is neither 1.0 nor True, and 0.0 is not -0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return one == other


def _without_checksum(record):
    """As who edits a record by hand leaves it: then it counts as it stands."""
    return {name: value for name, value in record.items() if name != "checksum"}
