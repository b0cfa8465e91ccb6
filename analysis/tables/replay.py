"""Ways of replaying, as rows and as sentences."""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence

from analysis.data import imp_paper
from analysis.stats.intervals import Interval
from analysis.stats.ratio import Ratio
from analysis.stats.reached import Reached
from analysis.tables.verdicts import Row, setting_row, size_row
from analysis.verdicts.ablation import Ablation, Effect
from analysis.verdicts.replay import (
    PARTS,
    UNDECIDED,
    Agreement,
    HumanScores,
    ReplayStudy,
    Way,
    word_of,
)
from analysis.words import label, number


def way_rows(study: ReplayStudy) -> list[Row]:
    """A row for each way of replaying: scores, errors of priorities, costs, n beside each."""
    return [_way_row(way) for way in study.ways]


def effect_rows(study: ReplayStudy) -> list[Row]:
    """A row for each way of replaying beside uniform replay."""
    return [
        {
            **setting_row(item.cell),
            "framework": item.framework,
            "replay": effect.name,
            "does": word_of(effect),
            **size_row("replayed", effect.changed),
            **size_row("uniform", effect.plain),
            "pairs": effect.result.n,
            "difference": effect.result.difference,
            "low": effect.result.low,
            "high": effect.result.high,
            "p_paired": effect.result.p,
            "p_holm": effect.p_holm,
            "family_size": effect.family_size,
            "margin": effect.pair.margin.size,
        }
        for item in study.effects
        for effect in item.effects
    ]


def sentences(study: ReplayStudy) -> list[str]:
    """What was found, with every n."""
    lines = ["Does prioritised replay help?"]
    for item in study.effects:
        lines += [f"  {_place(item)}"] + [f"    {_effect(effect)}" for effect in item.effects]
    lines += ["", "Do the frameworks agree?"]
    lines += [f"  {_agreement(item)}" for item in study.agreements] or [
        "  It takes two frameworks with runs of uniform and another replay."
    ]
    lines += ["", *_errors(study), "", *_costs(study), "", *_scores(study), "", *_human(study)]
    return lines


def _way_row(way: Way) -> Row:
    row: Row = {**setting_row(way.cell), "framework": way.framework, "replay": way.name}
    row |= size_row("final", way.group)
    for number_, stage in enumerate(way.stages, 1):
        row |= _interval(f"score_{number_}", stage)
    for number_, error in enumerate(way.errors, 1):
        row |= _interval(f"mape_{number_}", error, 100.0)
    for part in PARTS:
        row |= _interval(f"{part}_us", way.seconds[part], 1e6)
    row |= _interval("sweeps_us", way.sweeps, 1e6)
    used, gain = way.utilisation or Reached(0, 0, math.nan), way.gain
    row |= {"steps_to_uniform": used.median, "reached": used.reached, "asked": used.n}
    found = gain or Ratio(0, math.nan, math.nan, math.nan)
    names = ("gain_over_per", "gain_low", "gain_high", "gain_pairs")
    return row | dict(zip(names, (found.share, found.low, found.high, found.n), strict=True))


def _interval(name: str, found: Interval, unit: float = 1.0) -> Row:
    ends = (found.mean * unit, found.low * unit, found.high * unit)
    return dict(
        zip((name, f"{name}_low", f"{name}_high", f"{name}_n"), (*ends, found.n), strict=True)
    )


def _place(item: Ablation | Way) -> str:
    cell = item.cell
    return (
        f"{label(item.framework)}, {label(cell.algorithm)}, {cell.env} ({cell.study}, "
        f"hyperparameters {cell.hps}, {cell.variant}):"
    )


def _effect(effect: Effect) -> str:
    found, word = effect.result, word_of(effect)
    p = "" if math.isnan(effect.p_holm) else f", p = {effect.p_holm:.2g} after Holm"
    return (
        f"{effect.name}: {word}; {_signed(found.difference)}{_ends(found.low, found.high)} over "
        f"{found.n} pairs of seeds ({effect.changed.requested} and {effect.plain.requested} runs "
        f"asked for, {effect.changed.completed} and {effect.plain.completed} complete){p}, "
        f"{effect.family_size} tests; margin {number(effect.pair.margin.size)}."
    )


def _agreement(item: Agreement) -> str:
    first, second = (label(name) for name in item.frameworks)
    told = (
        f"{first} and {second} {item.verdict}"
        if UNDECIDED not in item.words
        else f"whether {first} and {second} agree cannot be told"
    )
    gap = item.difference
    return (
        f"{item.name}, {label(item.algorithm)}, {item.env}: {told} ({item.words[0]}; "
        f"{item.words[1]}); effects differ by {_signed(gap.difference)}{_ends(gap.low, gap.high)} "
        f"over {gap.n} pairs of seeds."
    )


def _grouped(ways: Sequence[Way], tell: Callable[[Way], Iterator[str]]) -> Iterator[str]:
    """Lines of all ways, each setting named once; ways without complete runs are told as such."""
    for place, members in itertools.groupby(ways, _place):
        yield f"  {place}"
        for way in members:
            if way.group.n:
                yield from (f"    {line}" for line in tell(way))
            else:
                yield f"    {way.name}: none of {way.group.requested} runs is complete"


def _errors(study: ReplayStudy) -> Iterator[str]:
    yield "Error of predicted priorities (MAPE, %) in each third of training, 95% intervals:"
    known = [way for way in study.ways if any(error.n for error in way.errors)]
    yield from _grouped(known, _error_line)
    for name, values in imp_paper.MAPE.items():
        cells = "; ".join(f"{value:g}" for value in values)
        yield f"  published ({imp_paper.SOURCE}, table 3; Atari's Pong, DDQN) {name}: {cells}"


def _error_line(way: Way) -> Iterator[str]:
    yield f"{way.name}: {'; '.join(_with_n(error, 100.0) for error in way.errors)}"


def _costs(study: ReplayStudy) -> Iterator[str]:
    yield (
        "CPU microseconds of a minibatch: sampling, priorities, learning; all, as a multiple of "
        "per's; sweeps besides:"
    )
    known = [way for way in study.ways if way.seconds["sampling"].n]
    yield from _grouped(known, functools.partial(_cost_line, study))
    per_paper = imp_paper.SECONDS["per"][0]
    for name, (total, *rest) in imp_paper.SECONDS.items():
        parts = "; ".join(number(1e6 * value) for value in rest)
        yield (
            f"  published ({imp_paper.SOURCE}, table 4; Atari, DDQN) {name}: {parts}; "
            f"{number(1e6 * total)}, {total / per_paper:.2f}"
        )


def _cost_line(study: ReplayStudy, way: Way) -> Iterator[str]:
    parts = "; ".join(_with_n(way.seconds[part], 1e6) for part in PARTS)
    per = _neighbour(study, way, "per")
    ratio = f"{way.total / per.total:.2f}" if per and per.total > 0 else "-"
    sweeps = number(way.sweeps.mean * 1e6)
    yield f"{way.name}: {parts}; {number(way.total * 1e6)}, {ratio}; sweeps {sweeps}"


def _scores(study: ReplayStudy) -> Iterator[str]:
    yield (
        "Mean return after each third, 95% intervals; steps until the final mean of uniform "
        "replay (median; how many got there); gain over per:"
    )
    yield from _grouped(study.ways, _score_lines)


def _score_lines(way: Way) -> Iterator[str]:
    stages = "; ".join(_with_n(stage) for stage in way.stages)
    used = "-"
    if way.utilisation:
        median = way.utilisation.median
        told = f"{median:,.0f}" if math.isfinite(median) else "not reached by half"
        used = f"{told} ({way.utilisation.reached} of {way.utilisation.n})"
    yield f"{way.name}: {stages}; {used}; {_gain(way.gain)}"
    yield from _published_score(way)


def _published_score(way: Way) -> Iterator[str]:
    game = imp_paper.game(way.cell.env)
    if way.cell.algorithm != imp_paper.LEARNER_OF_MUJOCO or game not in imp_paper.MUJOCO:
        return
    if way.name not in imp_paper.METHODS:
        return
    random, *scores = imp_paper.MUJOCO[game]
    score = scores[imp_paper.METHODS.index(way.name)]
    gain = ""
    if way.name == "imp":
        gain = f", gain over per {(scores[2] - scores[1]) / abs(scores[1]):.1%}"
    yield (
        f"  published ({imp_paper.SOURCE}, table 8; {game}-v1, trained until it converged): "
        f"{score:g}{gain}; random play {random:g}"
    )


def _gain(gain: Ratio | None) -> str:
    if gain is None:
        return "-"
    if not gain.is_bounded:
        return f"{gain.share:+.1%} (no interval has ends, {gain.n} pairs)"
    return f"{gain.share:+.1%} ({gain.low:+.1%} to {gain.high:+.1%}, {gain.n} pairs)"


def _human(study: ReplayStudy) -> Iterator[str]:
    yield "Human-normalised scores over Atari's games, %: median, mean:"
    yield from (f"  {_human_line(item)}" for item in study.human)
    printed = " / ".join(f"{value:g}" for value in imp_paper.PRINTED_MEDIANS)
    yield (
        f"  The paper prints medians of {printed}, which are the fifth of ten values each; a "
        "median is the mean of the fifth and sixth, and by it per is ahead of imp."
    )


def _human_line(item: HumanScores) -> str:
    return (
        f"{label(item.framework)}, {item.name}: {item.median:.1f}, {item.mean:.1f} "
        f"({item.games} games)"
    )


def _neighbour(study: ReplayStudy, way: Way, name: str) -> Way | None:
    same = (
        other
        for other in study.ways
        if (other.cell, other.framework, other.name) == (way.cell, way.framework, name)
    )
    return next(same, None)


def _with_n(found: Interval, unit: float = 1.0) -> str:
    ends = _ends(found.low * unit, found.high * unit)
    return f"{number(found.mean * unit)}{ends} n={found.n}"


def _ends(low: float, high: float) -> str:
    return "" if math.isnan(low) else f" ({number(low)} to {number(high)})"


def _signed(value: float) -> str:
    return number(value) if math.isnan(value) or value < 0 else f"+{number(value)}"


def summary(study: ReplayStudy, effects: Sequence[Ablation]) -> str:
    """How many effects of which kind."""
    words = [word_of(effect) for item in effects for effect in item.effects]
    parts = [f"{words.count(word)} {word}" for word in dict.fromkeys(words)]
    return f"{len(words)} comparisons with uniform replay: {', '.join(parts) or 'none'}."
