"""Damages run folders in every way that disks, people and programs do, the same for one seed.

`damage(folder, generator)` changes one run folder and returns what it did. `fuzz_oracle`
computes the expected answers of readers.
"""

import contextlib
import copy
import dataclasses
import functools
import io
import json
import os
import shutil
import socket
import stat
import zipfile
import zlib
from pathlib import Path

import numpy as np

FILES = (
    *("run.json", "evaluations.npz", "trace.parquet", "policy.npz"),
    *("progress.json", "owner.json"),
)
HUGE = 10 * 2**30  # bytes of a sparse file
DEPTH = 100_000
BOMB = 300 * 2**20  # bytes that a small archive unpacks to
NUMBERS = (
    "1e400",
    "-1e400",
    "1" + "0" * 400,
    "9" * 5000,
    "NaN",
    "Infinity",
    "-Infinity",
    "-1",
    "9223372036854775808",
    "1e308",
    "0.5",
    "-0.0",
    "0",
)
VALUES = (None, [], {}, "", "text", "\x1b[31m\n\x00", 7, -3.5, True, False, [[]], {"a": {"b": 1}})
ODD_NAMES = (
    b"bell\x07\x1b[2J",
    b"line\nbreak",
    b"bad\xff\xfeutf8",
    b"\xe2\x80\xaeoverride",
    b"%s{}",
)


class NothingToDamageError(Exception):
    """This kind of damage does not apply to this folder; another has to be chosen."""


@dataclasses.dataclass(frozen=True)
class Damage:
    """Damage to one run folder.

    Attributes:
        kind: Name of the kind, a key of `KINDS`.
        file: The file that was damaged, by its name in `FILES`; `.` for the folder itself,
            `record` for what the study submitted, `other` for files that no reader needs.
        what: What was done to it.
        complete: Whether the run may count as complete; None where its files have to tell.
    """

    kind: str
    file: str
    what: str
    complete: bool | None = None

    def __str__(self):
        return f"{self.kind}: {self.file}: {self.what}"


def damage(folder, generator, kinds=None, others=()):
    """Damages a run folder.

    Args:
        folder: The run folder, `<top>/results/<name>/<study>/.../seed=<n>`. What is around it
            may be changed too: its study's records, and files move to `<top>/outside/<name>`.
        generator: A `random.Random`; the same state does the same to the same folder.
        kinds: Names of the kinds to choose from; all of them if None.
        others: Folders of other runs, whose files may be put in place of this one's.
    """
    for _ in range(1000):
        kind = generator.choice(sorted(kinds or KINDS))
        with contextlib.suppress(NothingToDamageError):
            extra = (others,) if kind == "swap" else ()
            return dataclasses.replace(KINDS[kind](folder, generator, *extra), kind=kind)
    raise NothingToDamageError(f"none of {kinds} applies to {folder}")


def outside(folder):
    """A folder for what a run folder links to, where no command looks for runs."""
    place = folder.parents[8] / "outside" / folder.parents[6].name
    place.mkdir(parents=True, exist_ok=True)
    return place


# Files


def place_of(folder, name):
    """Return the path of the file of that name in a run folder."""
    if name == "owner.json":
        return next((folder / ".lease").glob("*/owner.json"), folder / ".lease" / "none" / name)
    return folder / name


def pick_file(folder, generator, names=FILES):
    present = [name for name in names if place_of(folder, name).is_file()]
    if not present:
        raise NothingToDamageError
    # The two that decide about completeness twice as often.
    name = generator.choice(present + [n for n in present if n in FILES[:2]])
    return name, place_of(folder, name)


def flip_bits(folder, generator):
    name, path = pick_file(folder, generator)
    content = bytearray(path.read_bytes())
    if not content:
        raise NothingToDamageError
    places = [generator.randrange(len(content) * 8) for _ in range(generator.choice((1, 1, 2, 8)))]
    for place in places:
        content[place // 8] ^= 1 << place % 8
    path.write_bytes(content)
    return Damage("", name, f"bits {places} flipped")


def truncate(folder, generator):
    name, path = pick_file(folder, generator)
    if path.stat().st_size < 2:
        raise NothingToDamageError
    size = generator.randrange(1, path.stat().st_size)
    os.truncate(path, size)
    return Damage("", name, f"cut to {size} bytes")


def empty(folder, generator):
    name, path = pick_file(folder, generator)
    path.write_bytes(b"")
    return Damage("", name, "emptied")


def delete(folder, generator):
    name, path = pick_file(folder, generator)
    path.unlink()
    return Damage("", name, "deleted")


def append(folder, generator):
    name, path = pick_file(folder, generator)
    extra = generator.choice((b"\0", b"}", b"{}", b"\xff" * 100, b"\n\n \n"))
    with path.open("ab") as file:
        file.write(extra)
    return Damage("", name, f"{extra[:4]!r} appended")


def enlarge(folder, generator):
    name, path = pick_file(folder, generator)
    if generator.random() < 0.5:
        path.write_bytes(b"")
    os.truncate(path, HUGE)
    return Damage("", name, "sparse, 10 GiB", complete=False if name in FILES[:2] else None)


def enlarge_log(folder, generator):
    name = generator.choice(("log.txt", "log.1.txt", ".log-1234abcd"))
    with (folder / name).open("ab") as file:
        os.truncate(file.fileno(), HUGE)
    return Damage("", "other", f"{name} is sparse, 10 GiB")


# JSON


def pick_json(folder, generator):
    name, path = pick_file(folder, generator, ("run.json", "run.json", "progress.json", FILES[4]))
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        raise NothingToDamageError from None
    return name, path, content


def paths_of(content, above=()):
    """All places in parsed JSON, as tuples of keys."""
    items = {}
    if isinstance(content, dict):
        items = content
    elif isinstance(content, list):
        items = dict(enumerate(content))
    found = [above] if above else []
    for key, value in items.items():
        found += paths_of(value, (*above, key))
    return found


def pick_place(content, generator):
    places = paths_of(content)
    shallow = [place for place in places if len(place) <= 2 and place[0] != "alignment"]
    return generator.choice(shallow if generator.random() < 0.7 and shallow else places)


def with_value(content, place, value):
    """A copy in which another value stands at a place."""
    changed = copy.deepcopy(content)
    inner = functools.reduce(lambda outer, key: outer[key], place[:-1], changed)
    inner[place[-1]] = value
    return changed


def with_raw(content, place, text):
    """JSON text in which `text` stands at a place, whether or not that is JSON."""
    mark = "a mark that stands for something else"
    return json.dumps(with_value(content, place, mark), indent=2).replace(f'"{mark}"', text)


def change_type(folder, generator):
    name, path, content = pick_json(folder, generator)
    if generator.random() < 0.1:
        value = generator.choice(VALUES)
        path.write_text(json.dumps(value))
        return Damage("", name, f"all of it is {value!r}")
    place = pick_place(content, generator)
    value = generator.choice(VALUES)
    path.write_text(json.dumps(with_value(content, place, value), indent=2))
    return Damage("", name, f"{'.'.join(map(str, place))} is {value!r}")


def change_number(folder, generator):
    name, path, content = pick_json(folder, generator)
    numbers = [p for p in paths_of(content) if isinstance(at(content, p), int | float)]
    shallow = [place for place in numbers if len(place) <= 2]
    place = generator.choice(shallow if shallow and generator.random() < 0.7 else numbers)
    number = generator.choice(NUMBERS)
    path.write_text(with_raw(content, place, number))
    return Damage("", name, f"{'.'.join(map(str, place))} is {number[:20]}")


def at(content, place):
    return functools.reduce(lambda outer, key: outer[key], place, content)


def remove_key(folder, generator):
    name, path, content = pick_json(folder, generator)
    place = pick_place(content, generator)
    changed = copy.deepcopy(content)
    del functools.reduce(lambda outer, key: outer[key], place[:-1], changed)[place[-1]]
    path.write_text(json.dumps(changed, indent=2))
    return Damage("", name, f"{'.'.join(map(str, place))} is gone")


def nest(folder, generator):
    name, path, content = pick_json(folder, generator)
    opening, closing = generator.choice((("[", "]"), ('{"a":', "}")))
    text = opening * DEPTH + "1" + closing * DEPTH * generator.randrange(2)
    if generator.random() < 0.3:
        path.write_text(text)
        return Damage("", name, f"{DEPTH} times {opening!r}")
    place = pick_place(content, generator)
    path.write_text(with_raw(content, place, text))
    return Damage("", name, f"{'.'.join(map(str, place))} is {DEPTH} times {opening!r}")


def change_encoding(folder, generator):
    name, path, content = pick_json(folder, generator)
    text = json.dumps(content, indent=2)
    ways = {
        "utf-16": text.encode("utf-16"),
        "with a mark of its byte order": b"\xef\xbb\xbf" + text.encode(),
        "with bytes that are no text": text.encode().replace(b'": "', b'": "\xff\xfe', 1),
        "with zeros": text.encode().replace(b"\n", b"\0", 3),
        "with half a character": text.replace('": "', '": "\\ud800', 1).encode(),
        "twice": text.encode() * 2,
        "in single quotes": text.replace('"', "'").encode(),
    }
    way = generator.choice(sorted(ways))
    path.write_bytes(ways[way])
    return Damage("", name, f"written {way}")


# Arrays


def read_arrays(folder):
    try:
        with np.load(folder / "evaluations.npz") as file:
            return dict(file)
    except (OSError, ValueError, zipfile.BadZipFile):
        raise NothingToDamageError from None


def write_members(folder, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(folder / "evaluations.npz", "w", compression) as file:
        for name, content in members:
            file.writestr(f"{name}.npy", content)


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def npy_header(descr, shape, content=b"", order="False"):
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"
    text = text.ljust(118 if len(text) < 118 else len(text) + 1, " ")[:-1] + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + content


def claim(folder, generator):
    arrays = read_arrays(folder)
    name = generator.choice(sorted(arrays))
    headers = {
        "10^12 entries": npy_header("'<f8'", "(1000000000000,)"),
        "10^6 x 10^6 entries": npy_header("'<f4'", "(1000000, 1000000)", bytes(800)),
        "2^70 entries": npy_header("'<i8'", f"({2**70},)", bytes(80)),
        "a negative shape": npy_header("'<i8'", "(-1,)", bytes(80)),
        "64 dimensions": npy_header("'<i8'", f"({'1, ' * 64})", bytes(8)),
        "objects": npy_header("'|O'", "(2,)", b"\x80\x04]q\x00."),
        "items of 2 GiB": npy_header("'|V2147483647'", "(2,)", bytes(80)),
        "a type that is code": npy_header("__import__('os').abort()", "(2,)", bytes(80)),
        "a shape of booleans": npy_header("'<i8'", "(True, True)", bytes(8)),
        "no header": b"\x93NUMPY",
        "version 9": b"\x93NUMPY\x09\x00" + npy(arrays[name])[8:],
        "a deep header": npy_header("(" * 400 + "'<i8'" + ")" * 400, "(2,)", bytes(16)),
    }
    way = generator.choice(sorted(headers))
    write_members(folder, [(n, headers[way] if n == name else npy(a)) for n, a in arrays.items()])
    return Damage("", "evaluations.npz", f"{name} claims {way}")


def reshape(folder, generator):
    arrays = read_arrays(folder)
    name = generator.choice(("timesteps", "results", "ep_lengths"))
    array = arrays[name]
    ways = {
        "flat": array.ravel(),
        "one dimension more": array[..., None],
        "a single number": array.ravel()[0] if array.size else np.float64(1),
        "without entries": array[:0],
        "transposed and cut": array.T[:-1],
        "one row less": array[:-1],
        "one row more": np.concatenate([array, array[-1:] + 1]),
        "text": array.astype(str),
        "bytes": array.astype("S8"),
        "complex": array.astype(complex),
        "dates": array.astype("int64").astype("datetime64[s]"),
        "structured": np.zeros(array.shape, dtype=[("a", "i4"), ("b", "f8")]),
        "backwards": array[::-1],
    }
    way = generator.choice(sorted(ways))
    np.savez(folder / "evaluations.npz", **(arrays | {name: ways[way]}))
    return Damage("", "evaluations.npz", f"{name} is {way}")


def change_values(folder, generator):
    arrays = read_arrays(folder)
    steps, results = arrays["timesteps"], arrays["results"]
    spoiled = results.copy()
    value = generator.choice((np.nan, np.inf, -np.inf))
    spoiled.ravel()[generator.randrange(spoiled.size)] = value
    ways = {
        f"a return is {value}": {"results": spoiled},
        "returns beyond float32": {"results": results.astype(float) * 1e300 + 1e300},
        "the last step is missing": {"timesteps": steps - 1},
        "the last step is later": {"timesteps": steps + 1},
        "steps are fractions": {"timesteps": steps + 0.5},
        "steps are not finite": {"timesteps": steps * np.inf},
        "the last step is 2^63": {"timesteps": steps.astype(np.uint64) + np.uint64(2**63)},
        "all steps are the last": {"timesteps": np.full_like(steps, steps[-1])},
    }
    way = generator.choice(sorted(ways))
    np.savez(folder / "evaluations.npz", **(arrays | ways[way]))
    return Damage("", "evaluations.npz", way)


def change_members(folder, generator):
    arrays = read_arrays(folder)
    name = generator.choice(("timesteps", "results", "ep_lengths"))
    members = [(n, npy(array)) for n, array in arrays.items()]
    others = [(n, content) for n, content in members if n != name]
    path = folder / "evaluations.npz"
    way = generator.choice(("missing", "renamed", "no array", "one array", "text", "no archive"))
    if way == "missing":
        write_members(folder, others)
    elif way == "renamed":
        write_members(folder, [*others, (name.upper(), npy(arrays[name]))])
    elif way == "no array":
        write_members(folder, [*others, (name, b"text that is no array")])
    elif way == "one array":
        path.write_bytes(npy(arrays[name]))
    elif way == "text":
        path.write_text("timesteps,results\n1,2\n")
    else:
        write_members(folder, [])
    return Damage("", "evaluations.npz", f"{name}: {way}")


@functools.cache
def _zeros(size):
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    block = bytes(2**20)
    return b"".join([*(packer.compress(block) for _ in range(size // len(block))), packer.flush()])


@functools.cache
def _bomb(name, columns):
    """An archive with one member that unpacks to `BOMB` bytes of zeros."""
    buffer = io.BytesIO()
    header = npy_header("'<f4'", f"({BOMB // 4 // columns}, {columns})")
    # Whole blocks of zeros behind the header, packed by hand: zipfile would take seconds.
    head = zlib.compressobj(1, zlib.DEFLATED, -15)
    packed = head.compress(header) + head.flush(zlib.Z_FULL_FLUSH) + _zeros(BOMB)
    checksum = zlib.crc32(bytes(BOMB), zlib.crc32(header))
    info = zipfile.ZipInfo(f"{name}.npy")
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr(info, packed)
        info.compress_type, info.CRC = zipfile.ZIP_DEFLATED, checksum
        info.file_size = len(header) + BOMB
    # The local header was written as stored: put the same there.
    content = bytearray(buffer.getvalue())
    content[8:10] = zipfile.ZIP_DEFLATED.to_bytes(2, "little")
    content[14:18] = checksum.to_bytes(4, "little")
    content[22:26] = info.file_size.to_bytes(4, "little")
    return bytes(content)


def plant_bomb(folder, generator):
    arrays = read_arrays(folder)
    name = generator.choice(("timesteps", "results", "ep_lengths"))
    path = folder / "evaluations.npz"
    path.write_bytes(_bomb(name, generator.choice((1, 4096))))
    with zipfile.ZipFile(path, "a") as file:
        for other, array in arrays.items():
            if other != name:
                file.writestr(f"{other}.npy", npy(array))
    return Damage("", "evaluations.npz", f"{name} unpacks to {BOMB} bytes")


# Links and special files


def link_file(folder, generator):
    name, path = pick_file(folder, generator)
    aside = outside(folder) / name
    path.rename(aside)
    goals = {"a copy elsewhere": aside, "/dev/zero": Path("/dev/zero"), "itself": path}
    goals |= {"nothing": Path("nowhere"), "its folder": path.parent, "/dev/stdin": "/dev/stdin"}
    goal = generator.choice(sorted(goals))
    path.symlink_to(goals[goal])
    return Damage("", name, f"a link to {goal}")


def link_folder(folder, generator):
    way = generator.choice(("a copy elsewhere", "itself", "the folder above", "nothing"))
    aside = outside(folder) / folder.name
    if way == "a copy elsewhere":
        # Studies are linked together from several disks: whether this is damage is open.
        folder.rename(aside)
        folder.symlink_to(aside)
        return Damage("", ".", f"a link to {way}")
    shutil.rmtree(folder)
    goals = {"itself": folder.name, "the folder above": "..", "nothing": "nowhere"}
    folder.symlink_to(goals[way])
    return Damage("", ".", f"a link to {way}", complete=False)


def link_within(folder, generator):
    way = generator.choice(("..", "/", ".", "/proc/self/fd"))
    (folder / generator.choice(("logs", "seed=1", "a"))).symlink_to(way)
    return Damage("", "other", f"a link to {way} in the folder")


def spoil_lease(folder, generator):
    lease = folder / ".lease"
    shutil.rmtree(lease, ignore_errors=True)
    ways = {
        "a file": lambda: lease.write_text("text"),
        "a link to /": lambda: lease.symlink_to("/"),
        "a link to itself": lambda: lease.symlink_to(".lease"),
        "a pipe": lambda: os.mkfifo(lease),
        "with a file for a token": lambda: (lease.mkdir(), (lease / "ab12").write_text("x")),
        "with an empty token": lambda: (lease / "ab12").mkdir(parents=True),
        "with odd tokens": lambda: [
            Path(os.fsdecode(os.fsencode(lease) + b"/" + name)).mkdir(parents=True)
            for name in ODD_NAMES
        ],
        "with a pipe for an owner": lambda: (
            (lease / "ab12").mkdir(parents=True),
            os.mkfifo(lease / "ab12" / "owner.json"),
        ),
    }
    way = generator.choice(sorted(ways))
    ways[way]()
    return Damage("", "owner.json", f".lease is {way}")


def make_special(folder, generator):
    name, path = pick_file(folder, generator, (*FILES, "log.txt"))
    path.unlink()
    ways = {"a pipe": os.mkfifo, "a socket": bind_socket, "a folder": Path.mkdir}
    ways["a folder with files"] = lambda p: (p.mkdir(), (p / "run.json").write_text("{}"))
    if os.geteuid() == 0:
        zero = os.makedev(1, 5)
        ways["a device"] = lambda p: os.mknod(p, stat.S_IFCHR | 0o600, zero)
    way = generator.choice(sorted(ways))
    try:
        ways[way](path)
    except PermissionError:  # containers may not make devices
        os.mkfifo(path)
    return Damage("", name if name in FILES else "other", f"{name} is {way}")


def bind_socket(path):
    # A socket's name must be short: bound from within its folder.
    above = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f"/proc/self/fd/{above}/{path.name}")
    finally:
        os.close(above)


def replace_folder(folder, generator):
    shutil.rmtree(folder)
    way = generator.choice(("a file", "a pipe", "a socket", "empty"))
    {"a file": Path.touch, "a pipe": os.mkfifo, "a socket": bind_socket, "empty": Path.mkdir}[way](
        folder
    )
    return Damage("", ".", f"the run folder is {way}", complete=False)


def lock(folder, generator):
    if os.geteuid() == 0:
        raise NothingToDamageError  # root may read everything
    if generator.random() < 0.3:
        folder.chmod(0)
        return Damage("", ".", "the run folder may not be read", complete=False)
    name, path = pick_file(folder, generator)
    path.chmod(0)
    return Damage("", name, "may not be read")


# Names


def add_odd_names(folder, generator):
    name = generator.choice(ODD_NAMES)
    path = Path(os.fsdecode(os.fsencode(folder) + b"/" + name))
    if generator.random() < 0.5:
        path.mkdir()
        (path / "run.json").write_text("{}")
    else:
        path.write_bytes(b"x")
    return Damage("", "other", f"a file named {name!r}")


def rename_oddly(folder, generator):
    """The run's folder or that of its variant has a name that terminals choke on."""
    name = generator.choice(ODD_NAMES)
    which = generator.choice((folder, folder.parent))
    which.rename(os.fsdecode(os.fsencode(which.parent) + b"/" + os.fsencode(which.name) + name))
    return Damage("", ".", f"{which.name} is named {which.name}{name!r}")


def change_seed(folder, generator):
    """The folder of another seed: the copy of a run under a name that is not its own."""
    number = generator.choice(("991", "0991", "-1", str(2**64), "99" * 40, "³"))
    name = f"seed={number}"
    folder.rename(folder.parent / name)
    return Damage("", ".", f"the folder is named {name}")


def swap(folder, generator, others):
    name, path = pick_file(folder, generator, FILES[:3])
    own = path.read_bytes()
    files = [other / name for other in others if (other / name).is_file()]
    different = [file for file in files if file.read_bytes() != own]
    if not different:
        raise NothingToDamageError
    shutil.copyfile(generator.choice(different), path)
    return Damage("", name, "that of another run")


# What a study submitted


def spoil_record(folder, generator):
    records = sorted(folder.parents[5].glob("slurm/*.json"))
    if not records:
        raise NothingToDamageError
    path = generator.choice(records)
    content = json.loads(path.read_text())
    place = generator.choice([p for p in paths_of(content) if len(p) <= 3])
    text = path.read_text()
    data = bytearray(text.encode())
    data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    ways = {
        "another type": lambda: path.write_text(
            json.dumps(with_value(content, place, generator.choice(VALUES)))
        ),
        "a number": lambda: path.write_text(with_raw(content, place, generator.choice(NUMBERS))),
        "nested": lambda: path.write_text(with_raw(content, place, "[" * DEPTH + "]" * DEPTH)),
        "a whole of another type": lambda: path.write_text(json.dumps(generator.choice(VALUES))),
        "cut": lambda: path.write_text(text[: generator.randrange(len(text))]),
        "flipped": lambda: path.write_bytes(data),
        "huge": lambda: os.truncate(path, HUGE),
        "a pipe": lambda: (path.unlink(), os.mkfifo(path)),
        "a socket": lambda: (path.unlink(), bind_socket(path)),
        "a folder": lambda: (path.unlink(), path.mkdir()),
        "a link to /dev/zero": lambda: (path.unlink(), path.symlink_to("/dev/zero")),
        "a link to itself": lambda: (path.unlink(), path.symlink_to(path.name)),
        "outside its study": lambda: path.write_text(
            json.dumps(content | {"elements": [["../../../../etc"], ["/etc"], ["\0"]]})
        ),
        "oddly named": lambda: path.rename(
            os.fsdecode(os.fsencode(path.parent) + b"/" + generator.choice(ODD_NAMES) + b".json")
        ),
    }
    way = generator.choice(sorted(ways))
    ways[way]()
    return Damage("", "record", f"{way} at {'.'.join(map(str, place))}")


def spoil_records_folder(folder, generator):
    records = folder.parents[5] / "slurm"
    if not records.exists():
        raise NothingToDamageError
    shutil.rmtree(records)
    ways = {"a file": Path.touch, "a pipe": os.mkfifo, "a link to itself": None}
    way = generator.choice(sorted(ways))
    ways[way](records) if ways[way] else records.symlink_to("slurm")
    return Damage("", "record", f"its folder is {way}")


KINDS = {
    "flip": flip_bits,
    "truncate": truncate,
    "empty": empty,
    "delete": delete,
    "append": append,
    "type": change_type,
    "number": change_number,
    "key": remove_key,
    "nesting": nest,
    "encoding": change_encoding,
    "claim": claim,
    "shape": reshape,
    "values": change_values,
    "members": change_members,
    "bomb": plant_bomb,
    "big": enlarge,
    "big log": enlarge_log,
    "link": link_file,
    "folder link": link_folder,
    "link within": link_within,
    "lease": spoil_lease,
    "special": make_special,
    "folder": replace_folder,
    "permission": lock,
    "odd names": add_odd_names,
    "odd place": rename_oddly,
    "seed": change_seed,
    "swap": swap,
    "record": spoil_record,
    "records": spoil_records_folder,
}
