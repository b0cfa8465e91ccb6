"""Conversion of other tools' learning curves to the evaluations of a run."""

import collections
import contextlib
import csv
import dataclasses
import io
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from parallax.harness.contract.data_files import INTEGER_TAG, construct_number
from parallax.harness.imports.tensorboard_and_wandb import MAX_FILE_BYTES, RecordedValues
from parallax.harness.record.files import UnusableError, open_regular_file, read_bounded
from parallax.harness.record.npz_files import RunEvaluations, check_arrays, unpack_arrays

EVALUATION, TRAINING, UNKNOWN = "evaluation", "training", "unknown"
RETURN_KINDS = (EVALUATION, TRAINING, UNKNOWN)
"""Origins of returns: evaluation episodes, episodes of the training itself, or not known."""

# Names under which tools log returns, with their kind; the first one in a file is used.
KNOWN_NAMES: Mapping[str, tuple[str, bool]] = {
    # name: (kind, whether each value is one episode, at the step where it ended)
    "eval/mean_reward": (EVALUATION, False),  # stable_baselines3/common/callbacks.py
    "eval/episodic_return": (EVALUATION, False),
    "test/reward": (EVALUATION, False),  # tianshou/utils/logger/base.py
    "test/returns_stat/mean": (EVALUATION, False),
    "eval/reward": (EVALUATION, False),  # torchrl/sota-implementations
    "rollout/ep_rew_mean": (TRAINING, False),  # stable_baselines3, over 100 episodes
    "charts/episodic_return": (TRAINING, True),  # cleanrl
    "Reward / Total reward (mean)": (TRAINING, False),  # skrl/agents/torch/base.py
    "train/reward": (TRAINING, True),
}
MAX_STEPS = 2**53
"""Maximum of environment steps of a run, or of an episode, that a file may state."""
_MAX_YAML_BYTES = 2**20
_MAX_NESTING = 8
_MAX_MONITOR_BYTES, _MAX_EPISODES = 2**25, 2**22  # of a file, and of a run


@dataclasses.dataclass(frozen=True, eq=False)
class ReturnCurve:
    """Returns of one run, and what their file states about it.

    Returns that are not finite are included: they show that the training diverged.

    Attributes:
        source: The file, or the folder of several files of one run.
        evaluations: Returns by step; one value a step where only means are known.
        kind: One of `RETURN_KINDS`.
        are_means: Whether each value is a mean over an unknown number of episodes.
        facts: Of `framework`, `algorithm`, `env`, `hps`, `seed` and `steps`, those that the file
            states itself.
        settings: Every other setting that the file states, under the tool's own names.
        part: Text that identifies a run of a file with several; empty if it has one.
        n_repeated: Values left out, since a later one is of the same step or an earlier one.
    """

    source: Path
    files: tuple[Path, ...]
    evaluations: RunEvaluations
    kind: str
    are_means: bool
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    part: str = ""
    n_repeated: int = 0


@dataclasses.dataclass(frozen=True)
class UnreadCurve:
    """A run that cannot be read, in a file of which others can."""

    part: str
    reason: str


EMPTY_RETURNS = ("refuse", "skip", "fail")
"""Meanings of a row without a return: unknown, not evaluated, or the training diverged."""


@dataclasses.dataclass(frozen=True)
class CurveOptions:
    """Options of reading.

    Attributes:
        columns: The file's own names for `step`, `return` and, in tables, the parts of a
            run's name.
        wide: Pattern of column names if each run has its own column; empty for one row per value.
        kind: Origin of the returns, if the user states it.
        interval: Environment steps over which episodes of a training are averaged to a point;
            None for a tenth of the run, or 10,000.
        steps: Length of the runs, if the user states it.
        empty: Meaning of a row of a table that has a step and no return, one of `EMPTY_RETURNS`.
    """

    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    wide: str = ""
    kind: str | None = None
    interval: int | None = None
    steps: int | None = None
    empty: str = "refuse"


def read_sb3_evaluations(path: Path, options: CurveOptions) -> ReturnCurve:
    """Read the `evaluations.npz` of an `EvalCallback`, and RL Baselines3 Zoo's files beside it.

    Raises:
        UnusableError: It is damaged or has other content.
    """
    arrays = unpack_arrays(read_bounded(path, MAX_FILE_BYTES), ignored=("successes",))  # booleans
    if missing := {"timesteps", "results"} - arrays.keys():
        raise UnusableError(f"lacks {' and '.join(sorted(missing))}, which EvalCallback writes")
    results = arrays["results"]
    lengths = arrays.get("ep_lengths", np.zeros(results.shape, np.int64))
    evaluations = check_arrays(arrays["timesteps"], results, lengths, "corrupted evaluations")
    return ReturnCurve(
        *(path, (path,), evaluations, options.kind or EVALUATION),
        are_means=False,
        facts=_read_monitor_facts(path.parent) | _read_zoo_facts(path.parent),
    )


def _read_monitor_facts(folder: Path) -> dict[str, Any]:
    """Return the task that files of `Monitor` in the same folder name, if they agree."""
    envs: set[str] = set()
    for path in sorted(folder.glob("*monitor.csv")):
        # A damaged file states nothing.
        with contextlib.suppress(UnusableError, OSError), open_regular_file(path) as file:
            envs |= _read_monitor_env(file.readline(_MAX_YAML_BYTES).decode("utf-8", "replace"))
    return {"env": envs.pop()} if len(envs) == 1 else {}


def _read_monitor_env(header: str) -> set[str]:
    """Return the task that the first line of a `monitor.csv` names, if it names one."""
    env = _read_monitor_header(header).get("env_id")
    return {env} if isinstance(env, str) and env not in ("", "None") else set()


class _ZooYamlLoader(yaml.SafeLoader):
    """Reads the Zoo's files as plain lists; nothing in them is executed."""


_ZooYamlLoader.add_multi_constructor(
    "tag:yaml.org,2002:python/", lambda loader, _, node: loader.construct_sequence(node, deep=True)
)
_ZooYamlLoader.add_constructor(INTEGER_TAG, construct_number)


def _read_zoo_facts(folder: Path) -> dict[str, Any]:
    """Return what `<env>/args.yml` and `<env>/config.yml` state, if they exist."""
    facts: dict[str, Any] = {}
    for name in ("config.yml", "args.yml"):  # the command line overrides the recipe
        for path in sorted(folder.glob(f"*/{name}")):
            found = _read_yaml_pairs(path)
            facts |= {"hps": "rl_zoo3"} if found else {}
            steps = found.get("n_timesteps")
            if isinstance(steps, int | float) and 0 < steps <= MAX_STEPS:
                facts["steps"] = int(steps)
            for key, field, kind in (("algo", "algorithm", str), ("env", "env", str)):
                if isinstance(found.get(key), kind):
                    facts[field] = found[key]
            if isinstance(found.get("seed"), int) and found["seed"] >= 0:
                facts["seed"] = found["seed"]
    return facts


def _read_yaml_pairs(path: Path) -> dict[str, Any]:
    try:
        content = yaml.load(read_bounded(path, _MAX_YAML_BYTES).decode(), Loader=_ZooYamlLoader)
    except Exception:  # values that do not fit their tags raise half a dozen different types
        return {}
    for _ in range(_MAX_NESTING):  # a list may contain itself
        if isinstance(content, list) and len(content) == 1:
            content = content[0]
    if isinstance(content, dict):
        return content
    items = content if isinstance(content, list) else []
    pairs = [item for item in items if isinstance(item, list) and len(item) == 2]
    return {name: value for name, value in pairs if isinstance(name, str)}


def read_monitor_files(paths: Sequence[Path], source: Path, options: CurveOptions) -> ReturnCurve:
    """Read the `monitor.csv` of one training, or one of each of its parallel environments.

    Args:
        paths: The files. Those of several environments are merged by the time at which episodes
            ended, as in `stable_baselines3.common.monitor.load_results`. Each file counts time from
            its own start, `t_start` in its first line.
        source: The file, or the folder of several.
        options: `interval` and `steps` determine the steps at which episodes are averaged.

    Raises:
        UnusableError: One is damaged or has other content.
    """
    episodes: list[tuple[float, float, int]] = []  # time of the end, return, length
    envs: set[str] = set()
    for path in paths:
        text = read_bounded(path, _MAX_MONITOR_BYTES).decode("utf-8", "replace")
        header, _, table = text.partition("\n")
        envs |= _read_monitor_env(header)
        start = _read_monitor_header(header).get("t_start")
        try:
            start = float(start) if isinstance(start, int | float) else 0.0
            rows = _read_monitor_rows(table)
        except (csv.Error, OverflowError) as error:
            raise UnusableError(f"corrupted monitor.csv: {error}") from error
        if not text.endswith("\n"):
            raise UnusableError(f"the last line of {path.name} is cut off: remove or end it")
        episodes += [(start + end, value, length) for end, value, length in rows]
        if len(episodes) > _MAX_EPISODES:
            raise UnusableError(f"is too large: more than {_MAX_EPISODES:,} episodes")
        if not all(math.isfinite(end) for end, _, _ in episodes):  # which have no order
            raise UnusableError(f"{path.name} has a time that is not finite: t, or t_start")
    if len(envs) > 1:
        raise UnusableError(f"holds episodes of several tasks: {', '.join(sorted(envs))}")
    episodes.sort(key=lambda episode: episode[0])
    ends = itertools.accumulate(length for _, _, length in episodes)
    values = [value for _, value, _ in episodes]
    facts = {"env": envs.pop()} if envs else {}
    evaluations = average_episodes(list(zip(ends, values, strict=True)), options)
    return ReturnCurve(
        source, tuple(paths), evaluations, options.kind or TRAINING, are_means=True, facts=facts
    )


def _read_monitor_header(header: str) -> dict[str, Any]:
    try:
        content = json.loads(header.removeprefix("#"))
    except (ValueError, RecursionError) as error:
        raise UnusableError(
            "is not a monitor.csv: its first line is no '#' with JSON, which Monitor writes"
        ) from error
    return content if isinstance(content, dict) else {}


def _read_monitor_rows(table: str) -> list[tuple[float, float, int]]:
    rows = csv.DictReader(io.StringIO(table))
    names = rows.fieldnames or ()
    if missing := {"r", "l", "t"} - set(names):
        raise UnusableError(f"is not a monitor.csv: it lacks column {', '.join(sorted(missing))}")
    if len(set(names)) < len(names):
        raise UnusableError("has two columns of one name")
    episodes = []
    for number, row in enumerate(rows, 3):
        try:
            value, length, end = float(row["r"]), float(row["l"]), float(row["t"])
        except (TypeError, ValueError) as error:
            raise UnusableError(
                f"corrupted monitor.csv: line {number} is cut or no number"
            ) from error
        if not (1 <= length < MAX_STEPS and length.is_integer()):
            raise UnusableError(f"line {number}: return {value} after {length:.15g} steps")
        episodes.append((end, value, int(length)))
    if not episodes:
        raise UnusableError("holds no episodes")
    return episodes


def average_episodes(
    episodes: Sequence[tuple[int, float]], options: CurveOptions
) -> RunEvaluations:
    """Return the mean return of the episodes that ended in each interval of steps.

    Args:
        episodes: Step at which each ended, and its return.
        options: `interval` and `steps`.

    Raises:
        UnusableError: No episode ended in an interval, or the run is shorter than one.
    """
    last = max(step for step, _ in episodes)
    # A power of ten for short runs: seeds end at different steps, and share an interval this way.
    unstated = min(10 ** (len(str(int(last))) - 1), 10_000)
    interval = options.interval or (max(options.steps // 10, 1) if options.steps else unstated)
    end = options.steps or last
    points = end // interval
    if not points:
        raise UnusableError(
            f"ends at step {last:,}, before the first point at {interval:,}: give a smaller "
            f"interval, such as --every {max(last // 10, 1)}"
        )
    binned: dict[int, list[float]] = collections.defaultdict(list)
    for step, value in episodes:
        point = max(math.ceil(step / interval), 1)
        # A training that diverges between its last point and its end has failed as well.
        has_failed = step <= end and not math.isfinite(value)
        binned[min(point, points) if has_failed else point].append(value)
    # A training that diverges may log nothing after it.
    diverged = [point for point, found in binned.items() if not all(map(math.isfinite, found))]
    points = min(points, *diverged) if diverged else points
    # Quick even if a file claims a huge number of steps: only episodes fill points.
    empty = next((point for point in range(1, points + 1) if point not in binned), None)
    if empty is not None:
        raise UnusableError(
            f"no episode ended between step {(empty - 1) * interval:,} and "
            f"{empty * interval:,}: give a larger --every, or fewer --steps where it is shorter"
        )
    steps = np.arange(1, points + 1) * interval
    return _make_evaluations(
        steps, [float(np.mean(binned[point])) for point in range(1, points + 1)]
    )


def make_curve_from_values(
    found: RecordedValues, source: Path, files: Sequence[Path], options: CurveOptions
) -> ReturnCurve:
    """Make a curve from values that were logged by name.

    Args:
        found: Values and settings of one run.
        source: The run's file or folder.
        files: All files that were read.
        options: `columns["return"]` is the name of the returns, if it is not a known one.

    Raises:
        UnusableError: There are no returns among them, or those of several runs.
    """
    logged = found.values.keys() | found.incomplete
    name = options.columns.get("return") or next((n for n in KNOWN_NAMES if n in logged), "")
    if name in found.incomplete:
        raise UnusableError(f"has a value of {name} that is no number, or has no step")
    if name not in found.values:
        others = sorted(found.values)
        listed = f"; it has {', '.join(others[:12])}" if others else ", nor any other value"
        raise UnusableError(
            f"has no value {name or 'that is known to be a return'}{listed}. Name the returns with "
            "--columns return=NAME"
        )
    kind, is_episode = KNOWN_NAMES.get(name, (UNKNOWN, False))
    pairs = found.values[name]
    if odd := [step for step, _ in pairs if not 0 <= step < MAX_STEPS]:
        raise UnusableError(f"has a value at step {odd[0]:.6g}, which no run can have")
    last = _drop_repeated_values(pairs)
    facts = find_stated_facts(found.settings)
    if is_episode or options.interval:
        own = dataclasses.replace(options, steps=options.steps or facts.get("steps"))
        evaluations = average_episodes(last, own)
    else:
        last = list(dict(last).items())  # one value a step, the last one
        evaluations = _make_evaluations(*zip(*last, strict=True))
    return ReturnCurve(
        *(source, tuple(files), evaluations, options.kind or kind),
        are_means=True,
        facts=facts,
        settings=found.settings,
        n_repeated=len(pairs) - len(last),
    )


def _drop_repeated_values(pairs: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return values in order of their steps, as TensorBoard shows them.

    A training that resumes from a checkpoint goes back to an earlier step, and what it had logged
    from there on does not count.

    Raises:
        UnusableError: Steps begin again at or before the first one.
    """
    found: list[tuple[int, float]] = []
    for step, value in pairs:
        if found and step < found[-1][0]:
            while found and found[-1][0] >= step:
                found.pop()
            if not found:
                raise UnusableError(
                    f"begins again at step {step:,}: it holds several runs, or values that are not "
                    "in order. Put each run into a folder of its own"
                )
        found.append((step, value))
    return found


_STATED = {"env": ("env_id", "env", "env_name"), "seed": ("seed",), "steps": ("total_timesteps",)}


def find_stated_facts(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return task, seed and length from a file's settings, if they have the right type."""
    facts: dict[str, Any] = {}
    for field, names in _STATED.items():
        kind = str if field == "env" else int
        stated = [settings[name] for name in names if type(settings.get(name)) is kind]
        if stated and field == "steps" and not 0 < stated[0] <= MAX_STEPS:
            raise UnusableError(f"says {names[0]}={str(stated[0])[:20]}, which no run can have")
        facts |= {field: stated[0]} if stated else {}
    return facts


def _make_evaluations(steps: Any, values: Sequence[float]) -> RunEvaluations:
    timesteps: NDArray[Any] = np.asarray(steps, np.int64)
    results = np.asarray(values, np.float64)[:, None]
    return check_arrays(timesteps, results, np.zeros(results.shape, np.int64), "no evaluations")
