"""Alters files of other tools, and imports them: the same alterations for one seed.

Records that carry checksums are altered both as bytes and with checksums that hold.
"""

import csv
import functools
import io
import json
import shutil
import struct
import zlib

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet

from parallax.analysis.data.load import load_runs
from parallax.harness.contract.fields import SpecError
from parallax.harness.imports import tensorboard_and_wandb
from parallax.harness.imports.return_curves import CurveOptions
from parallax.harness.imports.run_import import find_sources, import_runs
from parallax.harness.imports.run_names import ImportOptions, PathPattern

HUGE = (0, 1, -1, 2**31, 2**53, 2**62, 2**63 - 1, 10**18, 10**30, 10**400, 1e300, -5, 0.5, True)
ODD_TEXTS = (
    *("", ".", "..", "../../x", "/etc", "a/b", "a/b/c", "\0", "\n", "=1", "<b>x</b>", "é" * 200),
    *("x" * 300, "x" * 70_000, "_" * 3000, "seed=1", "unknown", "ppo", "None", "9" * 5000),
)
ZOO_ARGS = b"""!!python/object/apply:collections.OrderedDict
- - [algo, ppo]
  - [env, A-v1]
  - [n_timesteps, 512]
  - [seed, 7]
"""


def frame_event(data):
    length = struct.pack("<Q", len(data))
    checks = (
        struct.pack("<I", tensorboard_and_wandb._mask_checksum(part)) for part in (length, data)
    )
    return length + next(checks) + data + next(checks)


def frame_wandb_records(records):
    """A file of records, which are cut where a block ends."""
    raw = b":W&B\xe1\xbe\x00"
    for record in records:
        begins, left = True, record
        while begins or left:
            room = 2**15 - len(raw) % 2**15
            if room < 7:
                raw += bytes(room)
                continue
            part, left = left[: room - 7], left[room - 7 :]
            kind = bytes([(3, 4, 2, 1)[2 * begins + (not left)]])
            check = zlib.crc32(part, zlib.crc32(kind))
            raw += struct.pack("<IHB", check, len(part), kind[0]) + part
            begins = False
    return raw


def write_varint(value):
    value, parts = value % 2**64, []
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def write_field(number, value):
    if isinstance(value, int):
        return write_varint(number << 3) + write_varint(value)
    if isinstance(value, float):
        return write_varint(number << 3 | 5) + struct.pack("<f", value)
    return write_varint(number << 3 | 2) + write_varint(len(value)) + value


def write_events(points, settings):
    table = "|param|value|\n|-|-|\n" + "\n".join(f"|{k}|{v}|" for k, v in settings.items())
    tensor = write_field(1, 7) + write_field(8, table.encode("utf-8", "replace"))
    text = write_field(1, b"hyperparameters/text_summary") + write_field(8, tensor)
    events = [write_field(5, write_field(1, text))]
    for name, step, value in points:
        scalar = write_field(1, name.encode("utf-8", "replace")) + write_field(2, float(value))
        events.append(write_field(2, step) + write_field(5, write_field(1, scalar)))
    return events


def write_wandb_rows(rows, settings):
    def write_items(items, field):
        return b"".join(
            write_field(field, write_field(1, name.encode()) + write_field(16, text.encode()))
            for name, text in items.items()
        )

    config = {name: json.dumps(value) for name, value in settings.items()}
    return [
        write_field(5, write_items(config, 1)),
        *(write_field(2, write_items(row, 1)) for row in rows),
    ]


def make_events(rng, alter):
    name = rng.choice(("charts/episodic_return", "eval/mean_reward", "rollout/ep_rew_mean"))
    points = [[name, step, step / 10] for step in range(500, 20_001, 500)]
    settings = {"env_id": "A-v1", "seed": 1, "total_timesteps": 20_000}
    for _ in range(rng.choice((0, 1, 1, 3))):
        match rng.randrange(4):
            case 0:
                value = rng.choice(HUGE)
                rng.choice(points)[1] = int(value) % 2**63 if value > 0 else int(value)
            case 1:
                value = rng.choice((*HUGE, float("nan"), float("inf")))
                rng.choice(points)[2] = min(float(value), 3e38) if value < 1e39 else float("inf")
            case 2:
                rng.choice(points)[0] = rng.choice(ODD_TEXTS)
            case 3:
                settings[rng.choice(list(settings))] = rng.choice((*HUGE, *ODD_TEXTS))
    events = write_events(points, settings)
    if rng.random() < 0.4:
        place = rng.randrange(len(events))
        events[place] = alter(events[place], rng)
    return "events.out.tfevents.1", b"".join(map(frame_event, events))


def make_wandb(rng, alter):
    name = rng.choice(("charts/episodic_return", "eval/mean_reward"))
    rows = [{"global_step": str(i * 1000), name: str(i * 1.5)} for i in range(1, 21)]
    settings = {"env_id": "A-v1", "seed": 3, "total_timesteps": 20_000, "net": {"sizes": [64]}}
    odd_json = ("[" * 5000, "1" + "0" * 400, "1e999", "NaN", "{}", "null", '"x"', "-1", "true", "")
    for _ in range(rng.choice((0, 1, 1, 3))):
        match rng.randrange(3):
            case 0:
                row = rng.choice(rows)
                row[rng.choice(list(row))] = rng.choice((*odd_json, str(2**53), str(10**15)))
            case 1:
                settings[rng.choice(list(settings))] = rng.choice((*HUGE, *ODD_TEXTS))
            case 2:
                depth = rng.choice((5, 100, 490, 950))
                value = functools.reduce(lambda inner, _: [inner], range(depth), 1)
                settings["deep"] = value
    records = write_wandb_rows(rows, settings)
    if rng.random() < 0.4:
        place = rng.randrange(len(records))
        records[place] = alter(records[place], rng)
    return "run-1.wandb", frame_wandb_records(records)


def make_monitor(rng, alter):
    rows = [[f"{i}.5", "100", str(i / 10)] for i in range(1, 301)]
    header = {"t_start": 1.5, "env_id": "A-v1"}
    for _ in range(rng.choice((0, 1, 1, 3))):
        if rng.random() < 0.8:
            text = str(rng.choice((*HUGE, "nan", "inf", "1e15", "1e308", "", "x", "9" * 5000)))
            rng.choice(rows)[rng.randrange(3)] = text
        else:
            header["env_id"] = rng.choice((*ODD_TEXTS, 5, None, ["a"]))
    lines = ["#" + json.dumps(header), "r,l,t", *(",".join(row) for row in rows)]
    raw = "\n".join(lines).encode("utf-8", "replace") + b"\n"
    return "monitor.csv", alter(raw, rng) if rng.random() < 0.3 else raw


def make_rows(rng):
    names = ["framework", "algorithm", "env", "seed", "step", "return"]
    rows = [
        dict(zip(names, (f, "sac", "A-v1", seed, step, seed + step / 7), strict=True))
        for f in ("sb3", "theirs")
        for seed in (0, 1)
        for step in (1000, 2000, 3000)
    ]
    nested = ([1], {"a": 1}, b"\xff", None, ["a", "b"])
    for _ in range(rng.choice((0, 1, 1, 3))):
        row = rng.choice(rows)
        row[rng.choice(names)] = rng.choice((*HUGE, *ODD_TEXTS, *nested))
    if rng.random() < 0.1:
        name = rng.choice(names)
        rows = [row | {name: nested[rng.randrange(5)]} for row in rows]
    if rng.random() < 0.1:
        rows = [row | {rng.choice(ODD_TEXTS): 1.0} for row in rows]
    return rows


def make_csv(rng, alter):
    rows, file = make_rows(rng), io.StringIO()
    writer = csv.DictWriter(file, list({name: None for row in rows for name in row}))
    writer.writeheader()
    writer.writerows(rows)
    raw = file.getvalue().encode("utf-8", "replace")
    return "table.csv", alter(raw, rng) if rng.random() < 0.3 else raw


def make_parquet(rng, alter):
    file = io.BytesIO()
    try:
        table = pyarrow.Table.from_pylist(make_rows(rng))
        pyarrow.parquet.write_table(table, file, use_dictionary=rng.random() < 0.5)
    except (pyarrow.ArrowException, TypeError, OverflowError, ValueError):
        return make_parquet(rng, alter)
    raw = bytearray(file.getvalue())
    for _ in range(rng.choice((0, 0, 1, 2, 8))):
        raw[rng.randrange(len(raw))] = rng.randrange(256)
    return "table.parquet", bytes(raw)


def make_evaluations(rng, alter):
    arrays = {
        "timesteps": np.arange(1, 5) * 1000,
        "results": np.arange(12.0).reshape(4, 3),
        "ep_lengths": np.full((4, 3), 100),
    }
    for _ in range(rng.choice((0, 1, 2))):
        name = rng.choice(list(arrays))
        match rng.randrange(4):
            case 0:
                arrays[name] = arrays[name].astype(rng.choice(("u1", "f2", "i8", "?", "c8", "S5")))
            case 1:
                arrays[name] = arrays[name][..., : rng.randrange(3)]
            case 2:
                arrays[name] = arrays[name].astype(float)
                arrays[name].flat[rng.randrange(4)] = rng.choice((1e308, np.nan, -1, 2.0**63))
            case 3:
                arrays[name] = arrays[name].astype("u8")
                arrays[name].flat[rng.randrange(4)] = rng.choice((2**64 - 1, 2**63, 2**62, 0))
    file = io.BytesIO()
    np.savez(file, **arrays)
    raw = bytearray(file.getvalue())
    for _ in range(rng.choice((0, 0, 1, 4))):
        raw[rng.randrange(len(raw))] = rng.randrange(256)
    return "evaluations.npz", bytes(raw)


MAKERS = (make_events, make_wandb, make_monitor, make_csv, make_parquet, make_evaluations)


def import_altered(top, rng, alter):
    """Imports one altered file and reads the runs again.

    Returns:
        Whether it was refused, and how many runs came of it.
    """
    logs, results = top / "logs", top / "results"
    for folder in (logs, results):
        shutil.rmtree(folder, ignore_errors=True)
    (logs / "A-v1_1" / "A-v1").mkdir(parents=True)
    name, raw = rng.choice(MAKERS)(rng, alter)
    (logs / "A-v1_1" / name).write_bytes(raw)
    if name == "evaluations.npz" and rng.random() < 0.5:
        (logs / "A-v1_1" / "A-v1" / "args.yml").write_bytes(alter(ZOO_ARGS, rng))
    curves = CurveOptions(
        columns=rng.choice(({}, {"return": "return"}, {"step": "global_step"})),
        wide=rng.choice(("", "", "", "{algorithm}_{env}_{_}_{seed}")) if "table" in name else "",
        interval=rng.choice((None, None, 1, 1000)),
        steps=rng.choice((None, None, 20_000)),
    )
    pattern = PathPattern("{env}_{seed}") if rng.random() < 0.3 else None
    options = ImportOptions(results, "theirs", {}, pattern, {}, {}, curves)
    try:
        sources = find_sources([logs], None)
        outcome = import_runs(sources, options, dry_run=False, advance=lambda name: None)
    except SpecError:
        return True, 0
    loaded = load_runs(results / "theirs") if outcome.imported else None
    # Numbers that are not finite are those of failed trainings.
    failed = [run for run in loaded.excluded if run.failed] if loaded else []
    count = len(loaded.runs) + len(failed) if loaded else 0
    assert count == len(outcome.imported), (outcome, loaded)
    return bool(outcome.refused), count
