"""Whether prioritised replay helps, what it knows of priorities and what it costs, by framework."""

import collections
import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from analysis.data import imp_paper
from analysis.data.replayed import UNIFORM, Replayed
from analysis.data.runs import Cell, Run
from analysis.stats.intervals import Interval, interval
from analysis.stats.normalised import human_normalised
from analysis.stats.paired import Paired, paired
from analysis.stats.ratio import Ratio, ratio_of_means
from analysis.stats.reached import Reached, reached
from analysis.verdicts.ablation import (
    CHANGES,
    NO_EFFECT,
    NONE,
    Ablation,
    Effect,
    effects_between,
)
from analysis.verdicts.groups import Group, group_of
from analysis.verdicts.options import Options

STAGES = 3
PARTS = ("sampling", "priorities", "learning")
HELPS, HARMS, NO_MATTER, UNDECIDED = "helps", "harms", "makes no difference", "undecided"
_ORDER = (UNIFORM, "per", "rank", "atdc", "imp")
_CLIPPED = 1e-12


@dataclasses.dataclass(frozen=True, eq=False)
class Way:
    """One way of replaying of one framework in one setting.

    Attributes:
        cell: The setting.
        framework: The framework.
        name: The way of replaying.
        group: Its runs, scored at their last evaluation.
        stages: Mean return at the end of each third of the run.
        errors: Mean absolute relative error of predicted priorities in each third, over runs, of
            each run's mean; of no values where nothing was recorded.
        seconds: CPU seconds of a minibatch by part of `PARTS`, over runs.
        sweeps: The same of sweeps of the whole memory, spread over all minibatches.
        utilisation: Steps until the final mean score of uniform replay; None without that.
        gain: Final score less that of `per` as a share of its size; None for `per` and `uniform`.
    """

    cell: Cell
    framework: str
    name: str
    group: Group
    stages: tuple[Interval, ...]
    errors: tuple[Interval, ...]
    seconds: Mapping[str, Interval]
    sweeps: Interval
    utilisation: Reached | None
    gain: Ratio | None

    @property
    def total(self) -> float:
        """CPU seconds of a minibatch, all parts together, without sweeps."""
        return sum(part.mean for part in self.seconds.values())


@dataclasses.dataclass(frozen=True, eq=False)
class Agreement:
    """What one way of replaying does in two frameworks on one task.

    Attributes:
        study: Name of the study.
        env: Task.
        algorithm: Algorithm.
        name: The way of replaying.
        frameworks: The two.
        words: What it does in each.
        difference: Its effect in the first less that in the second, over the seeds of both.
    """

    study: str
    env: str
    algorithm: str
    name: str
    frameworks: tuple[str, str]
    words: tuple[str, str]
    difference: Paired

    @property
    def verdict(self) -> str:
        """`agree`, `disagree` or `cannot be told`."""
        if UNDECIDED in self.words:
            return "cannot be told"
        return "agree" if self.words[0] == self.words[1] else "disagree"


@dataclasses.dataclass(frozen=True, eq=False)
class HumanScores:
    """Human-normalised scores of one framework and way of replaying over Atari's games, percent.

    Attributes:
        framework: The framework, or where it was published.
        name: The way of replaying.
        games: How many.
        median: The middle value, of an even number the mean of the two in the middle.
        mean: The mean.
    """

    framework: str
    name: str
    games: int
    median: float
    mean: float


@dataclasses.dataclass(frozen=True, eq=False)
class ReplayStudy:
    """Everything.

    Attributes:
        ways: By setting, framework and way of replaying.
        effects: What each way does to the return beside uniform replay.
        agreements: Of pairs of frameworks.
        human: Over Atari's games, ours and published.
    """

    ways: tuple[Way, ...]
    effects: tuple[Ablation, ...]
    agreements: tuple[Agreement, ...]
    human: tuple[HumanScores, ...]


def judge(items: Sequence[Replayed], options: Options) -> ReplayStudy:
    """Judges all runs.

    Args:
        items: All run folders.
        options: Level, margin and ranges.
    """
    found: dict[tuple[Cell, str, str], list[Replayed]] = collections.defaultdict(list)
    for item in items:
        found[item.cell, item.item.id.framework, item.name].append(item)
    keys = sorted(found, key=lambda key: (key[0], key[1], order_of(key[2])))
    groups = {
        key: group_of(key[0], f"{key[1]} {key[2]}", [one.item for one in found[key]])
        for key in keys
    }
    ways = tuple(_way(key, found[key], groups) for key in keys)
    compared = {
        (cell, framework, NONE if name == UNIFORM else name): group
        for (cell, framework, name), group in groups.items()
    }
    effects = effects_between(compared, "ways of replaying", options)
    return ReplayStudy(ways, effects, _agreements(effects), _human(ways))


def order_of(name: str) -> tuple[int, str]:
    """Sorts ways of replaying: uniform first, Imp-PER last, then others by name."""
    plain = name.partition(",")[0]
    return (_ORDER.index(plain) if plain in _ORDER else len(_ORDER), name)


def word_of(effect: Effect) -> str:
    """What a way of replaying does to the return."""
    if effect.verdict == CHANGES:
        return HELPS if effect.result.difference > 0 else HARMS
    return NO_MATTER if effect.verdict == NO_EFFECT else UNDECIDED


def _way(
    key: tuple[Cell, str, str],
    items: Sequence[Replayed],
    groups: Mapping[tuple[Cell, str, str], Group],
) -> Way:
    cell, framework, name = key
    group, runs = groups[key], [one for one in items if isinstance(one.item, Run)]
    costs = [one.costs for one in runs if one.costs.get("minibatches")]
    each = {
        part: interval([one[part] / one["minibatches"] for one in costs])
        for part in (*PARTS, "sweeping")
    }
    uniform = groups.get((cell, framework, UNIFORM))
    used = None
    if uniform is not None and uniform.n:
        used = reached([_curve(run) for run in group.runs], float(uniform.moments.mean))
    return Way(
        cell=cell,
        framework=framework,
        name=name,
        group=group,
        stages=tuple(_score_at(group, share / STAGES) for share in range(1, STAGES + 1)),
        errors=tuple(_error_in(runs, stage) for stage in range(STAGES)),
        seconds={part: each[part] for part in PARTS},
        sweeps=each["sweeping"],
        utilisation=used,
        gain=_gain(group, groups.get((cell, framework, "per")), name),
    )


def _score_at(group: Group, share: float) -> Interval:
    scores = [
        float(run.results[int(np.abs(run.timesteps - share * run.timesteps[-1]).argmin())].mean())
        for run in group.runs
    ]
    return interval(scores)


def _error_in(items: Sequence[Replayed], stage: int) -> Interval:
    means = []
    for one in items:
        assert isinstance(one.item, Run)
        end = float(one.item.timesteps[-1])
        at = np.minimum((one.looks / end * STAGES).astype(int), STAGES - 1)
        if (at == stage).any():
            means.append(float(one.errors[at == stage].mean()))
    return interval(means)


def _curve(run: Run) -> tuple[np.ndarray, np.ndarray]:
    return run.timesteps.astype(np.float64), run.results.mean(axis=1)


def _gain(group: Group, per: Group | None, name: str) -> Ratio | None:
    if per is None or name in (UNIFORM, "per"):
        return None
    ours, theirs = _by_seed(group), _by_seed(per)
    seeds = sorted(ours.keys() & theirs.keys())
    if not seeds:
        return None
    first, second = (np.array([scores[seed] for seed in seeds]) for scores in (ours, theirs))
    if abs(float(second.mean())) < _CLIPPED:
        return None
    sign = math.copysign(1.0, float(second.mean()))
    return ratio_of_means(first - second, sign * second)


def _by_seed(group: Group) -> dict[int, float]:
    return {run.id.seed: run.final_score for run in group.runs if run.id.seed is not None}


def _agreements(effects: Sequence[Ablation]) -> tuple[Agreement, ...]:
    """Of each pair of frameworks whose settings are alike but for what one of them cannot have."""
    places: dict[tuple[str, ...], list[tuple[str, Effect]]] = collections.defaultdict(list)
    for item in effects:
        cell = item.cell
        for effect in item.effects:
            where = (cell.study, cell.env, cell.algorithm, cell.hps, effect.name)
            places[where].append((item.framework, effect))
    found = []
    for (study, env, algorithm, _, name), members in sorted(places.items()):
        for (first, one), (second, other) in itertools.combinations(members, 2):
            if first == second:
                continue
            gap = _between(one, other)
            words = (word_of(one), word_of(other))
            found.append(Agreement(study, env, algorithm, name, (first, second), words, gap))
    return tuple(found)


def _between(one: Effect, other: Effect) -> Paired:
    gains = []
    for effect in (one, other):
        changed, plain = _by_seed(effect.changed), _by_seed(effect.plain)
        gains.append({seed: changed[seed] - plain[seed] for seed in changed.keys() & plain.keys()})
    seeds = sorted(gains[0].keys() & gains[1].keys())
    if not seeds:
        return Paired(0, math.nan, *[math.nan] * 4)
    first, second = (np.array([gain[seed] for seed in seeds]) for gain in gains)
    return paired(first, second)


def _human(ways: Sequence[Way]) -> tuple[HumanScores, ...]:
    """Ours where runs are of Atari's games, and what the paper's own scores come to."""
    scores: dict[tuple[str, str], list[float]] = collections.defaultdict(list)
    for way in ways:
        game = imp_paper.game(way.cell.env)
        if imp_paper.is_atari(way.cell.env) and game in imp_paper.RANDOM_HUMAN and way.group.n:
            mean = np.array([float(way.group.moments.mean)])
            value = human_normalised(mean, *imp_paper.RANDOM_HUMAN[game])[0]
            scores[way.framework, way.name].append(float(value))
    for game, published in imp_paper.ATARI.items():
        values = human_normalised(np.array(published), *imp_paper.RANDOM_HUMAN[game])
        for name, value in zip(imp_paper.METHODS, values, strict=True):
            scores[imp_paper.SOURCE, name].append(float(value))
    return tuple(
        HumanScores(*key, len(found), float(np.median(found)), float(np.mean(found)))
        for key, found in scores.items()
    )
