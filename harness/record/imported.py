"""Writes the folders of runs that other tools made."""

import hashlib
import io
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from parallax.harness.record.files import (
    UnusableError,
    make_bytes_writer,
    make_json_writer,
    sync_folder,
    to_plain_json,
    write_atomically,
)
from parallax.harness.record.layout import EVALUATIONS_FILE, RUN_FILE, RunPath
from parallax.harness.record.npz_files import RunEvaluations
from parallax.harness.record.reading import MAX_DEPTH, MAX_JSON_BYTES, measure_depth
from parallax.harness.record.run_json import CHECKSUM_FIELD, SCHEMA, ImportSource, compute_checksum

_STUDY_LEVELS = 6  # folders of a run in that of its results


def find_imported_folder(results_dir: Path, place: RunPath, content_hash: str) -> Path:
    """Return the folder of a run; one without a known seed is named after its evaluations."""
    folder = place.to_folder(results_dir)
    return folder if place.seed is not None else folder.with_name(f"unknown-{content_hash[:12]}")


def hash_evaluations(evaluations: RunEvaluations) -> str:
    """Return a hash of a run's returns and steps, equal for copies."""
    digest = hashlib.sha256(evaluations.timesteps.tobytes())
    digest.update(repr(evaluations.results.shape).encode())
    digest.update(evaluations.results.tobytes())
    return digest.hexdigest()


def write_imported_run(
    folder: Path,
    evaluations: RunEvaluations,
    spec: Mapping[str, Any],
    settings: Mapping[str, Any],
    source: ImportSource,
    failure: str = "",
) -> None:
    """Write a run folder under a temporary name, then rename it.

    Args:
        folder: The run folder; nothing may be there.
        evaluations: Its evaluations.
        spec: What is known of its settings.
        settings: Its settings under the other tool's names.
        source: Its origin.
        failure: Reason that its training failed; empty where it did not.

    Raises:
        UnusableError: A run is there already.
        OSError: The folder cannot be written.
    """
    if folder.exists():
        raise UnusableError(f"{folder} is there already, and no run is overwritten")
    file = io.BytesIO()
    np.savez(
        file,
        timesteps=evaluations.timesteps,
        results=evaluations.results,
        ep_lengths=evaluations.ep_lengths,
    )
    raw = file.getvalue()
    record = _encode_record(_make_record(evaluations, spec, settings, source, failure, raw))
    # Searches for runs skip hidden folders, so that nobody reads it before it is complete.
    temporary = folder.parents[_STUDY_LEVELS] / f".import-{secrets.token_hex(8)}"
    temporary.mkdir(parents=True)
    try:
        write_atomically(temporary / EVALUATIONS_FILE, make_bytes_writer(raw))
        write_atomically(temporary / RUN_FILE, make_bytes_writer(record))
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_folder(folder.parent)


def _encode_record(content: Mapping[str, Any]) -> bytes:
    file = io.BytesIO()
    make_json_writer(content)(file)
    if file.tell() > MAX_JSON_BYTES:
        raise UnusableError(
            f"its settings are too large: {file.tell():,} bytes; {MAX_JSON_BYTES:,} are allowed"
        )
    return file.getvalue()


def _make_record(
    evaluations: RunEvaluations,
    spec: Mapping[str, Any],
    settings: Mapping[str, Any],
    source: ImportSource,
    failure: str,
    raw: bytes,
) -> dict[str, Any]:
    if measure_depth(settings) >= MAX_DEPTH:
        raise UnusableError("its settings are nested too deeply")
    last = int(evaluations.timesteps[-1])
    end = spec["steps"] if failure else last
    content = {
        "schema": SCHEMA,
        "status": "failed" if failure else "completed",
        "spec": dict(spec),
        "steps": {"requested": spec["steps"], "scheduled": end, "framework": last, "taken": last},
        "hyperparameters": spec.get("hyperparameters", {}),
        "native": dict(settings),
        "final_score": None if failure else float(evaluations.results[-1].mean()),
        "failure": failure or None,
        "imported": msgspec.to_builtins(source),
        "files": {EVALUATIONS_FILE: hashlib.sha256(raw).hexdigest()},
        "sizes": {EVALUATIONS_FILE: len(raw)},
    }
    # Encoded and decoded first: the hash must be of the values that a reader will see.
    encoded = msgspec.json.encode(to_plain_json(content))
    decoded = msgspec.json.decode(encoded, type=dict[str, Any])
    return {**decoded, CHECKSUM_FIELD: compute_checksum(decoded)}
