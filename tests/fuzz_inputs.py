"""Alters what files from others hold, and reads it again: the same alterations for one seed.

Each function of `READERS` alters one input in a folder and reads it. It returns in a word what came
of it, and raises what no reader may raise; `WRONG` is a number that changed without a message.
Texts are altered by tokens that parsers trip over, values by others of any type.
"""

import contextlib
import copy
import functools
import hashlib
import io
import random
import re
import types
import warnings
from pathlib import Path

import fuzz_imports
import msgspec
import numpy as np
import pyarrow
import pyarrow.parquet
import recorded

from parallax.adapters.sb3 import SB3Adapter
from parallax.analysis.data import load, published
from parallax.harness.contract import recipes
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.state_codec import StateMismatchError, StateReader, StateWriter
from parallax.harness.interventions import catalogue, mutants
from parallax.harness.record import checkpoints
from parallax.harness.record.files import UnusableError
from parallax.harness.record.lock import RunLock
from parallax.harness.record.packed import PACKED_SCHEMA, hash_row

WRONG, REFUSED, SAME, OTHER = "WRONG", "refused", "as before", "another value"

ODD_VALUES = (
    *(None, True, -1, 0, 2**31, 2**62, 1e308, -1e308, float("nan"), float("inf"), 0.1),
    *("", "..", "../../x", "/etc/passwd", "\0", "=1+1", "<b>x</b>", "9" * 5000, "x" * 70_000),
    *([], {}, [[]], ["a"], [0, 0], [1e308], {"a": None}, b"\xff"),
)
BOMB = "\n".join(["a0: &a0 [x]", *(f"a{i}: &a{i} [{f'*a{i - 1},' * 9}]" for i in range(1, 12))])
TOKENS = (
    *("null", "~", "[", "]", "{", "}", ":", "- ", "&a [*a]", "*a", "!!python/object:os.system x"),
    *("2000-99-99", ".nan", ".inf", "-.inf", "1e400", "9" * 5000, "0x", "0o9", "1_0", '"', "'"),
    *("\t", "\n", "\r", "\0", "\ufeff", "\udcff", "%", "|", ">", "? ", "<<: 1", "[" * 3000, ","),
    *("=1+1", "nan", "1e308", "-1", "true", "é", f"\n{BOMB}\n", "x" * 200_000, "1:2:3", "."),
)


def alter_text(raw, rng):
    """Cuts, repeats, swaps or replaces pieces of a text, or puts tokens into it."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(raw) + 1)
        end = min(len(raw), at + rng.choice((0, 1, 1, 5, 40)))
        token = rng.choice(TOKENS).encode("utf-8", "surrogateescape")
        match rng.randrange(6):
            case 0:
                raw = raw[:at] + raw[end:]
            case 1:
                raw = raw[:at] + token + raw[at:]
            case 2:
                raw = raw[:at] + token + raw[end:]
            case 3:
                raw = raw[:at] + bytes([rng.randrange(256)]) + raw[at + 1 :]
            case 4:
                raw = raw[:end] + raw[at:]
            case 5:
                raw = re.sub(
                    rb"(?m)(: |,)[^,\n]+$", lambda m, token=token: m[1] + token, raw, count=at % 7
                )
    return raw


def alter_value(value, rng):
    """Replaces, adds or removes one value in nested lists and dicts, in place."""
    places = [
        (item, key)
        for item in iterate_containers(value)
        for key in (item if isinstance(item, dict) else range(len(item)))
    ]
    if not places:
        return
    item, key = rng.choice(places)
    match rng.randrange(5):
        case 0:
            del item[key]
        case 1:
            other, its = rng.choice(places)
            with contextlib.suppress(LookupError):
                item[key] = copy.deepcopy(other[its])
        case _:
            item[key] = copy.deepcopy(rng.choice(ODD_VALUES))


def iterate_containers(value):
    if isinstance(value, dict | list):
        yield value
        for part in list(value.values()) if isinstance(value, dict) else value:
            yield from iterate_containers(part)


# Packed files


@functools.cache
def packed_original(top):
    """A packed file of some runs, its rows, and the results of each run by its place."""
    from parallax.harness.cli.main import main

    results, path = top / "packed" / "results", top / "packed" / "study.parquet"
    for seed in range(4):
        recorded.complete_run(results, seed=seed)
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["study", "pack", str(results), "--output", str(path)]) == 0
    return path.read_bytes(), pyarrow.parquet.read_table(path).to_pylist(), results_of(path)


def results_of(path):
    return get_results(load.load_runs(path), path)


def get_results(loaded, path):
    return {
        run.path.relative_to(path): (run.timesteps.tobytes(), run.results.tobytes())
        for run in loaded.runs
    }


def read_packed(top, rng):
    raw, rows, before = packed_original(top)
    path, rehashed = top / "altered.parquet", False
    if rng.random() < 0.4:
        path.write_bytes(bytes(alter_bytes(raw, rng)))
    else:
        altered = copy.deepcopy(rows)
        for _ in range(rng.choice((1, 1, 3))):
            alter_row(altered, rng)
        rehashed = rng.random() < 0.3  # then only what contradicts itself can be found
        for row in altered if rehashed else ():
            with contextlib.suppress(TypeError, ValueError, OverflowError, RecursionError):
                row["content_sha256"] = hash_row(row)
        try:
            table = pyarrow.Table.from_pylist(altered, schema=PACKED_SCHEMA)
        except (pyarrow.ArrowException, TypeError, OverflowError, ValueError):
            try:  # with columns of the types that the values have
                table = pyarrow.Table.from_pylist(altered)
            except (pyarrow.ArrowException, TypeError, OverflowError, ValueError):
                return read_packed(top, rng)
            table = table.replace_schema_metadata(PACKED_SCHEMA.metadata)
        try:
            pyarrow.parquet.write_table(table, path)
        except pyarrow.ArrowException:  # such as a structure without fields
            return read_packed(top, rng)
    try:
        loaded = load.load_runs(path)
    except UnusableError:
        return REFUSED
    after = get_results(loaded, path)
    if any(result not in before.values() for result in after.values()):
        return OTHER if rehashed else WRONG
    return SAME if after.keys() == before.keys() else REFUSED if loaded.excluded else OTHER


def alter_bytes(raw, rng):
    content = bytearray(raw)
    for _ in range(rng.choice((1, 2, 8))):
        content[rng.randrange(len(content))] = rng.randrange(256)
    return content[: rng.randrange(len(content))] if rng.random() < 0.1 else content


def alter_row(rows, rng):
    row = rng.choice(rows)
    name = rng.choice(PACKED_SCHEMA.names)
    if isinstance(row[name], list) and row[name] and rng.random() < 0.7:
        alter_value(row[name], rng)
    elif name in ("run_json", "spec") and row[name] and rng.random() < 0.8:
        row[name] = alter_text(row[name].encode(), rng).decode("utf-8", "replace")
    else:
        row[name] = copy.deepcopy(rng.choice(ODD_VALUES))


# YAML


def read_recipe(top, rng):
    """A recipe is a reader's own choice: other values are used, and recorded in run.json."""
    algorithm, name = rng.choice((("td3", "sbx"), ("ppo", "original"), ("dqn", "sb3")))
    raw = recipes.find_recipe_files(algorithm)[name].read_bytes()
    file = top / "recipe.yaml"
    file.write_bytes(alter_text(raw, rng))
    usual, recipes.find_recipe_files = recipes.find_recipe_files, lambda _: {name: file}
    recipes._parse_recipe_file.cache_clear()
    try:
        with warnings.catch_warnings(action="ignore"):
            recipes.load_recipe(algorithm, name)
    except SpecError as error:
        assert "recipe.yaml" in str(error), str(error)[:500]
        return REFUSED
    finally:
        recipes.find_recipe_files = usual
    return OTHER


def read_interventions(top, rng):
    """An intervention's content is part of a run's identity."""
    name = rng.choice((catalogue.INTERVENTIONS_FILE, catalogue.REPLAY_FILE))
    raw = (SB3Adapter().folder / name).read_bytes()
    file = top / name
    file.write_bytes(alter_text(raw, rng))
    adapter = SB3Adapter()
    try:
        catalogue._parse_files.__wrapped__(adapter.name, adapter.upstream_modules, ((file, 0),))
    except SpecError as error:
        assert name in str(error), str(error)[:500]
        return REFUSED
    return OTHER


def read_mutants(top, rng):
    raw = (SB3Adapter().folder / mutants.UPDATE_CODE_FILE).read_bytes()
    file = top / mutants.UPDATE_CODE_FILE
    file.write_bytes(alter_text(raw, rng))
    algorithm = rng.choice(("ppo", "td3", "dqn"))
    try:
        for region in mutants._load_regions(file, algorithm):
            source = mutants._load_source(mutants.find_module_file(region.module))
            mutants._get_region_code(source, region, file)
    except SpecError:
        return REFUSED
    return OTHER


# Published numbers


def read_published(top, rng):
    tables = sorted(path for path in published.FOLDER.rglob("*.csv"))
    table = rng.choice(tables)
    name = table.relative_to(published.FOLDER).with_suffix("").as_posix()
    folder = top / "published"
    altered = alter_text(table.read_bytes(), rng)
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.csv").write_bytes(altered)
    digests = (published.FOLDER / published.DIGESTS_FILE).read_text()
    updates_digests = rng.random() < 0.5
    if updates_digests:
        digests += f"\n{hashlib.sha256(altered).hexdigest()}  {name}.csv\n"
    (folder / published.DIGESTS_FILE).write_text(digests)
    usual, published.FOLDER = published.FOLDER, folder
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            if "/" in name:
                published.read_csv_rows(name)
            else:
                published.read_table.__wrapped__(name)
    except published.PublishedTableError:
        return REFUSED
    finally:
        published.FOLDER = usual
    if altered == table.read_bytes():
        return SAME
    return OTHER if updates_digests or said else WRONG


# Checkpoints, altered and with hashes that hold


class Web:
    """State of a training."""

    def __init__(self, seed):
        self.weights = np.random.default_rng(seed).normal(size=(64, 64))
        self.buffer = np.zeros((100, 8), np.float32)
        self.rng, self.legacy = np.random.default_rng(seed), np.random.RandomState(seed)
        self.python = random.Random(seed)
        self.table = {("a", seed): [1.5, {"b": None}], "steps": seed}
        self.moments = types.SimpleNamespace(first=np.zeros(3), count=seed)
        self.seen = {1, seed}


@functools.cache
def checkpoint_original(top):
    folder = top / "run"
    folder.mkdir()
    with RunLock.acquire(folder) as run_lock:
        checkpoints.CheckpointStore(run_lock).save({"step": 7}, StateReader().read(Web(3)))
    state = (folder / "checkpoint" / "1.state").read_bytes()
    return folder, msgspec.msgpack.decode(state[32:-32])


def read_checkpoint(top, rng):
    """Whoever can make hashes hold can store any numbers, but not as the user's own."""
    folder, content = checkpoint_original(top)
    altered = copy.deepcopy(content)
    for _ in range(rng.choice((1, 1, 2, 6))):
        alter_value(altered, rng)
    raw = msgspec.msgpack.encode(altered)
    (folder / "checkpoint" / "1.state").write_bytes(hashlib.sha256(raw).digest() + raw)
    target = Web(4)
    try:
        with RunLock.acquire(folder) as run_lock:
            loaded = checkpoints.CheckpointStore(run_lock).load(1)
        StateWriter().write(target, loaded.state)
    except (UnusableError, StateMismatchError):
        return REFUSED
    except Exception as error:  # as `CheckpointManager._load_checkpoint` has it
        return f"refused by {type(error).__name__}"
    assert not loaded.is_own
    return OTHER


def read_imported(top, rng):
    """Numbers of other tools have no hashes: readable ones are imported."""
    refused, imported = fuzz_imports.import_altered(top, rng, alter_text)
    return REFUSED if refused else OTHER if imported else SAME


READERS = {
    "packed files": read_packed,
    "recipes": read_recipe,
    "interventions": read_interventions,
    "mutants": read_mutants,
    "published tables": read_published,
    "checkpoints": read_checkpoint,
    "files of other tools": read_imported,
}


def alter_and_read(kind, number, top):
    """One input of a kind, by its number."""
    top = Path(top) / kind.replace(" ", "-")
    top.mkdir(exist_ok=True)
    return READERS[kind](top, random.Random(f"{kind} {number}"))
