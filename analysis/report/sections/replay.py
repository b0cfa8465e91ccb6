"""Replay strategies, as rows and as sentences."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from parallax.analysis.data import paper_tables
from parallax.analysis.data.replay_metrics import LAG_THIRDS, SEQUENCE_POSITIONS
from parallax.analysis.labels import format_number, get_label
from parallax.analysis.report.sections.ablation import format_caveats
from parallax.analysis.report.tables import TableRow, list_size_values
from parallax.analysis.stats.intervals import ConfidenceInterval
from parallax.analysis.stats.learning_curves import StepsToThreshold
from parallax.analysis.stats.two_sample import MeanRatio
from parallax.analysis.verdicts import replay
from parallax.analysis.verdicts.ablation import AblationVerdict, InterventionEffect


def make_strategy_rows(study: replay.ReplayVerdicts) -> list[TableRow]:
    """Return a row per replay strategy: scores, errors of priorities, costs, each with its n."""
    return [_make_strategy_row(result) for result in study.strategy_results]


def make_effect_rows(study: replay.ReplayVerdicts) -> list[TableRow]:
    """Return a row per replay strategy, compared with uniform replay."""
    return [
        {
            **dataclasses.asdict(item.cell),
            "framework": item.framework,
            "replay": effect.name,
            "does": replay.classify_effect(effect),
            **list_size_values("replayed", effect.changed),
            **list_size_values("uniform", effect.baseline),
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


def format_replay_study(study: replay.ReplayVerdicts) -> list[str]:
    """Return the results in words, with every n."""
    lines = ["Does prioritised replay help?"]
    for item in study.effects:
        lines += [f"  {_format_setting(item)}"] + [
            f"    {_format_effect(effect)}" for effect in item.effects
        ]
    lines += ["", "Do the frameworks agree?"]
    lines += [f"  {_format_agreement(item)}" for item in study.agreements] or [
        "  It takes two frameworks with runs of uniform and another replay."
    ]
    for part in (_format_errors, _format_weights, _format_costs, _format_scores):
        lines += ["", *part(study)]
    return [*lines, "", *_format_human_scores(study)]


def _make_strategy_row(result: replay.ReplayStrategyResult) -> TableRow:
    row: TableRow = dataclasses.asdict(result.cell)
    row |= {"framework": result.framework, "replay": result.name}
    row |= list_size_values("final", result.group)
    for number_, stage in enumerate(result.stages, 1):
        row |= _make_interval_columns(f"score_{number_}", stage)
    for number_, error in enumerate(result.errors, 1):
        row |= _make_interval_columns(f"mape_{number_}", error, 100.0)
    for number_, weight in enumerate(result.weights, 1):
        row |= _make_interval_columns(f"mean_weight_{number_}", weight)
    for part in replay.COST_PARTS:
        row |= _make_interval_columns(f"{part}_us", result.seconds[part], 1e6)
    row |= _make_interval_columns("sweeps_us", result.sweeps, 1e6)
    used, gain = result.utilisation or StepsToThreshold(0, 0, math.nan), result.gain
    row |= {"steps_to_uniform": used.median, "n_reached": used.n_reached, "n_runs": used.n_runs}
    found = gain or MeanRatio(0, math.nan, math.nan, math.nan)
    names = ("gain_over_per", "gain_low", "gain_high", "gain_pairs")
    return row | dict(zip(names, (found.share, found.low, found.high, found.n), strict=True))


def _make_interval_columns(name: str, found: ConfidenceInterval, unit: float = 1.0) -> TableRow:
    ends = (found.mean * unit, found.low * unit, found.high * unit)
    return dict(
        zip((name, f"{name}_low", f"{name}_high", f"{name}_n"), (*ends, found.n), strict=True)
    )


def _format_setting(item: AblationVerdict | replay.ReplayStrategyResult) -> str:
    cell = item.cell
    return (
        f"{get_label(item.framework)}, {get_label(cell.algorithm)}, {cell.env} ({cell.study}, "
        f"hyperparameters {cell.hps}, {cell.variant}):"
    )


def _format_effect(effect: InterventionEffect) -> str:
    found, word = effect.result, replay.classify_effect(effect)
    p = "" if math.isnan(effect.p_holm) else f", p = {effect.p_holm:.2g} after Holm"
    return (
        f"{effect.name}: {word}; "
        f"{_format_signed(found.difference)}{_format_interval(found.low, found.high)} over "
        f"{found.n} pairs of seeds ({effect.changed.requested} and {effect.baseline.requested} "
        f"runs requested, {effect.changed.completed} and {effect.baseline.completed} complete){p}, "
        f"{effect.family_size} tests; margin {format_number(effect.pair.margin.size)}."
        f"{format_caveats(effect)}"
    )


def _format_agreement(item: replay.FrameworkAgreement) -> str:
    first, second = (get_label(name) for name in item.frameworks)
    text = (
        f"{first} and {second} {item.verdict}"
        if replay.INCONCLUSIVE not in item.words
        else f"it is inconclusive whether {first} and {second} agree"
    )
    gap, variant = item.difference, f", {item.variants[0]}" if item.variants[0] else ""
    if item.variants[0] != item.variants[1]:
        variant = ""
        text += f", with other settings ({first}: {item.variants[0]}; {second}: {item.variants[1]})"
    return (
        f"{item.name}, {get_label(item.algorithm)}, {item.env} ({item.study}, hyperparameters "
        f"{item.hps}{variant}): {text} ({item.words[0]}; "
        f"{item.words[1]}); effects differ by "
        f"{_format_signed(gap.difference)}{_format_interval(gap.low, gap.high)} "
        f"over {gap.n} pairs of seeds."
    )


def _group_lines(
    results: Sequence[replay.ReplayStrategyResult],
    list_lines: Callable[[replay.ReplayStrategyResult], Iterable[str]],
) -> Iterator[str]:
    """Return lines for all strategies, grouped by setting; also those without complete runs."""
    for place, members in itertools.groupby(results, _format_setting):
        yield f"  {place}"
        for result in members:
            if result.group.n:
                yield from (f"    {line}" for line in list_lines(result))
            else:
                yield f"    {result.name}: none of {result.group.requested} runs is complete"


def _format_errors(study: replay.ReplayVerdicts) -> Iterator[str]:
    yield "Error of predicted priorities (MAPE, %) in each third of training, 95% intervals:"
    known = [result for result in study.strategy_results if any(error.n for error in result.errors)]
    yield from _group_lines(known, _format_error_line)
    for name, values in paper_tables.IMP_MAPE.items():
        cells = "; ".join(f"{value:g}" for value in values)
        source = f"{paper_tables.IMP_SOURCE}, table 3; Atari's Pong, DDQN"
        yield f"  published ({source}) {name}: {cells}"


def _format_error_line(result: replay.ReplayStrategyResult) -> Iterator[str]:
    errors = "; ".join(_format_mean_with_n(error, 100.0) for error in result.errors)
    yield f"{result.name}: {errors}"


def _format_weights(study: replay.ReplayVerdicts) -> Iterator[str]:
    known = [one for one in study.strategy_results if any(weight.n for weight in one.weights)]
    if known:
        yield "Mean weight of the losses in each third of training, 95% intervals:"
        yield from _group_lines(
            known, lambda one: [f"{one.name}: {'; '.join(map(_format_mean_with_n, one.weights))}"]
        )


def _format_costs(study: replay.ReplayVerdicts) -> Iterator[str]:
    yield (
        "CPU microseconds of a minibatch: sampling, priorities, learning; all, as a multiple of "
        "per's; sweeps besides:"
    )
    known = [result for result in study.strategy_results if result.seconds["sampling"].n]
    yield from _group_lines(known, functools.partial(_format_cost_line, study))
    per_paper = paper_tables.IMP_SECONDS["per"][0]
    for name, (total, *rest) in paper_tables.IMP_SECONDS.items():
        parts = "; ".join(format_number(1e6 * value) for value in rest)
        yield (
            f"  published ({paper_tables.IMP_SOURCE}, table 4; Atari, DDQN) {name}: {parts}; "
            f"{format_number(1e6 * total)}, {total / per_paper:.2f}"
        )


def _format_cost_line(
    study: replay.ReplayVerdicts, result: replay.ReplayStrategyResult
) -> Iterator[str]:
    parts = "; ".join(_format_mean_with_n(result.seconds[part], 1e6) for part in replay.COST_PARTS)
    per = _find_strategy(study, result, "per")
    ratio = f"{result.total / per.total:.2f}" if per and per.total > 0 else "-"
    sweeps = format_number(result.sweeps.mean * 1e6)
    yield f"{result.name}: {parts}; {format_number(result.total * 1e6)}, {ratio}; sweeps {sweeps}"


def _format_scores(study: replay.ReplayVerdicts) -> Iterator[str]:
    yield (
        "Mean return after each third, 95% intervals; steps until the final mean of uniform "
        "replay (median; how many got there); gain over per:"
    )
    yield from _group_lines(study.strategy_results, _format_score_lines)


def _format_score_lines(result: replay.ReplayStrategyResult) -> Iterator[str]:
    stages = "; ".join(_format_mean_with_n(stage) for stage in result.stages)
    used = "-"
    if result.utilisation:
        median = result.utilisation.median
        text = f"{median:,.0f}" if math.isfinite(median) else "not reached by half"
        used = f"{text} ({result.utilisation.n_reached} of {result.utilisation.n_runs})"
    yield f"{result.name}: {stages}; {used}; {_format_gain(result.gain)}"
    yield from _format_published_score(result)


def _format_published_score(result: replay.ReplayStrategyResult) -> Iterator[str]:
    game = paper_tables.game_from_env(result.cell.env)
    is_published = game in paper_tables.IMP_MUJOCO_SCORES
    is_published &= result.cell.algorithm == paper_tables.IMP_MUJOCO_ALGORITHM
    if not is_published or result.name not in paper_tables.IMP_STRATEGIES:
        return
    random, *scores = paper_tables.IMP_MUJOCO_SCORES[game]
    score = scores[paper_tables.IMP_STRATEGIES.index(result.name)]
    gain = ""
    if result.name == "imp":
        gain = f", gain over per {(scores[2] - scores[1]) / abs(scores[1]):.1%}"
    yield (
        f"  published ({paper_tables.IMP_SOURCE}, table 8; {game}-v1, trained until it converged): "
        f"{score:g}{gain}; random play {random:g}"
    )


def _format_gain(gain: MeanRatio | None) -> str:
    if gain is None:
        return "-"
    if not gain.is_bounded:
        return f"{gain.share:+.1%} (no interval has ends, {gain.n} pairs)"
    return f"{gain.share:+.1%} ({gain.low:+.1%} to {gain.high:+.1%}, {gain.n} pairs)"


def _format_human_scores(study: replay.ReplayVerdicts) -> Iterator[str]:
    yield "Human-normalized scores over Atari's games, %: median, mean:"
    yield from (f"  {_format_human_line(item)}" for item in study.human)
    printed = " / ".join(f"{value:g}" for value in paper_tables.IMP_PRINTED_MEDIANS)
    yield (
        f"  The paper prints medians of {printed}, which are the fifth of ten values each; a "
        "median is the mean of the fifth and sixth, and by it per is ahead of imp."
    )


def _format_human_line(item: replay.HumanScores) -> str:
    cell, place = item.cell, ""
    if cell is not None:
        parts = (cell.study, get_label(cell.algorithm), f"hyperparameters {cell.hps}", cell.variant)
        place = f" ({', '.join(filter(None, parts))})"
    return (
        f"{get_label(item.framework)}{place}, {item.name}: {item.median:.1f}, {item.mean:.1f} "
        f"({item.games} games)"
    )


def _find_strategy(
    study: replay.ReplayVerdicts, result: replay.ReplayStrategyResult, name: str
) -> replay.ReplayStrategyResult | None:
    same = (
        other
        for other in study.strategy_results
        if (other.cell, other.framework, other.name) == (result.cell, result.framework, name)
    )
    return next(same, None)


def _format_mean_with_n(found: ConfidenceInterval, unit: float = 1.0) -> str:
    ends = _format_interval(found.low * unit, found.high * unit)
    return f"{format_number(found.mean * unit)}{ends} n={found.n}"


def _format_interval(low: float, high: float) -> str:
    return "" if math.isnan(low) else f" ({format_number(low)} to {format_number(high)})"


def _format_signed(value: float) -> str:
    return format_number(value) if math.isnan(value) or value < 0 else f"+{format_number(value)}"


def summarize_replay(study: replay.ReplayVerdicts, effects: Sequence[AblationVerdict]) -> str:
    """Return the number of effects of each kind, in words."""
    words = [replay.classify_effect(effect) for item in effects for effect in item.effects]
    parts = [f"{words.count(word)} {word}" for word in dict.fromkeys(words)]
    return f"{len(words)} comparisons with uniform replay: {', '.join(parts) or 'none'}."


def format_staleness_lines(setting: replay.StalenessSetting) -> Iterator[str]:
    """Yield a heading, and a line for each strategy."""
    cell = setting.cell
    yield (
        f"{setting.framework} {cell.algorithm} {cell.env} {cell.hps} {cell.variant}: Q-value "
        "discrepancy, mean over training with its 95% interval"
    )
    for item in setting.strategies:
        places = "; ".join(
            f"{place} step {_format_discrepancy(item.overall[place])}"
            for place in SEQUENCE_POSITIONS
        )
        score = f"final return {_format_discrepancy(item.score)}"
        yield f"  {item.strategy.title}: {places}; {score}; {len(item.seeds)} runs"
        if item.lags["mean"].n:
            names = {"actor": "when stored", "mean": "when replayed", "max": "at most"}
            yield "    lag in updates: " + "; ".join(
                f"{text} {_format_discrepancy(item.lags[name])}" for name, text in names.items()
            )
        for third in LAG_THIRDS:
            if item.by_lag["first", third].n:
                values = "; ".join(
                    f"{place} step {_format_discrepancy(item.by_lag[place, third])}"
                    for place in SEQUENCE_POSITIONS
                )
                yield f"    {third} third, lag {_format_discrepancy(item.lags[third])}: {values}"
    if setting.versions:
        yield f"  {setting.versions}"


def _format_discrepancy(value: ConfidenceInterval) -> str:
    around = f" [{value.low:.3g}, {value.high:.3g}]" if value.n > 1 else ""
    return f"{value.mean:.3g}{around} (n={value.n})"


def make_staleness_rows(setting: replay.StalenessSetting) -> list[TableRow]:
    """Return a row for each strategy, place, and stage or third of the lag.

    Stage 0 is the whole training.
    """
    return [
        {
            **dataclasses.asdict(setting.cell),
            "framework": setting.framework,
            **dataclasses.asdict(item.strategy),
            "place": place,
            "stage": number,
            "lag_third": third,
            **_make_discrepancy_columns("discrepancy", value),
            **_make_discrepancy_columns("lag", item.lags[third or "mean"]),
            **_make_discrepancy_columns("lag_when_stored", item.lags["actor"]),
            **_make_discrepancy_columns("final_return", item.score),
        }
        for item in setting.strategies
        for place in SEQUENCE_POSITIONS
        for number, third, value in (
            *((n, "", v) for n, v in enumerate((item.overall[place], *item.stages[place]))),
            *((0, third, item.by_lag[place, third]) for third in LAG_THIRDS),
        )
        if not third or value.n
    ]


def _make_discrepancy_columns(name: str, value: ConfidenceInterval) -> TableRow:
    text = {"": value.mean, "_low": value.low, "_high": value.high, "_n": value.n}
    return {f"{name}{end}": number for end, number in text.items()}
