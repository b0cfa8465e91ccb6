"""Commands on a study's interventions and replay strategies, and on mutation scores."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from parallax.analysis.commands import common
from parallax.analysis.commands.report import format_changed_options
from parallax.analysis.data.mutation_outcomes import OutcomesError, read_outcomes
from parallax.analysis.data.replay_metrics import (
    UNIFORM,
    UNKNOWN,
    ReplayMetrics,
    read_replay_metrics,
    read_staleness,
)
from parallax.analysis.figures.ablation import make_ablation_figure_spec
from parallax.analysis.figures.figure_spec import FigureSpec, render_figure
from parallax.analysis.figures.replay import make_replay_figure_specs, make_staleness_figure_spec
from parallax.analysis.labels import group_items
from parallax.analysis.report.sections import replay
from parallax.analysis.report.sections.ablation import (
    format_ablation,
    make_ablation_rows,
    summarize_ablations,
)
from parallax.analysis.report.sections.mutation import format_mutation_table, make_mutation_rows
from parallax.analysis.report.tables import rows_to_csv
from parallax.analysis.verdicts.ablation import judge_ablations
from parallax.analysis.verdicts.endpoints import settle_options
from parallax.analysis.verdicts.mutation import judge_mutation
from parallax.analysis.verdicts.replay import judge_replay, summarize_staleness
from parallax.harness.record.files import make_number_parser, print_lines, write_files_atomically
from parallax.harness.record.layout import ANALYSIS_FOLDER

ABLATION_TABLE, MUTATION_TABLE = "ablation.csv", "mutation.csv"
STRATEGIES_TABLE, EFFECTS_TABLE = "replay.csv", "replay_effects.csv"
STALENESS_TABLE = "discrepancy.csv"
NO_INTERVENTION_MESSAGE = (
    "no framework was trained both without and with an intervention. "
    "Train with intervention=none,NAME; parallax intervention list lists the names."
)
_DEFAULT_STAGES, _MAX_STAGES = 5, 1000
_STATISTICS = ("endpoint", "alpha", "margin", "margin_of", "range")  # without use for staleness


def _write_results(
    output: Path,
    tables: Mapping[str, Sequence[Mapping[str, object]]],
    figures: Iterable[FigureSpec],
    lines: Iterable[str],
) -> None:
    """Write tables and figures, then print lines and the paths of all files.

    Raises:
        CommandError: There is nowhere to write.
    """
    contents: dict[Path, str | bytes] = {}
    contents |= {output / name: rows_to_csv(rows) for name, rows in tables.items()}
    for figure in figures:
        drawn = render_figure(figure)
        contents |= {output / f"{figure.name}.{kind}": raw for kind, raw in drawn.items()}
    with common.open_output_folder(output):
        write_files_atomically(contents)
    print_lines([*lines, *(f"File: {path}" for path in contents)])


def add_ablation_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line of `parallax study ablation`."""
    common.add_folder_arguments(parser)
    common.add_verdict_arguments(parser, without=("--family", "--power"))


def run_ablation(options: argparse.Namespace) -> int:
    """Print the effects of changes, write them as a table, and draw a figure for each setting.

    Raises:
        CommandError: There is nothing to compare or nowhere to write.
    """
    settings = common.make_options(options)
    loaded = common.load_results(options.results, settings)
    found = judge_ablations(loaded, settings)
    if not found:
        conflicts = "".join(f" {text}." for text in loaded.conflicts)
        raise common.CommandError(f"{options.results}: {NO_INTERVENTION_MESSAGE}{conflicts}")
    _write_results(
        common.choose_output_folder(options),
        {ABLATION_TABLE: [row for item in found for row in make_ablation_rows(item)]},
        [make_ablation_figure_spec(item) for item in found],
        [
            *(line for item in found for line in format_ablation(item)),
            *loaded.conflicts,
            *common.format_unused(loaded),
            summarize_ablations(found),
        ],
    )
    return 0


def add_mutation_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line of `parallax mutation score`."""
    parser.add_argument("results", type=Path, help="a study's folder, or its mutation.json")
    text = f"folder for the table (default: {ANALYSIS_FOLDER} in the study's folder)"
    parser.add_argument("--output", type=Path, metavar="FOLDER", help=text)
    text = "count as the reference's code does where the code differs from its paper"
    parser.add_argument("--as-published-code", action="store_true", help=text)


def run_mutation(options: argparse.Namespace) -> int:
    """Print a table for each setting and write one of all mutant configurations.

    Raises:
        CommandError: There are no test results, or there is nowhere to write.
    """
    try:
        settings = read_outcomes(options.results)
    except OutcomesError as error:
        raise common.CommandError(str(error)) from error
    found = [
        judge_mutation(setting, as_published_code=options.as_published_code) for setting in settings
    ]
    if not options.results.is_dir():
        options.results = options.results.parent
    _write_results(
        common.choose_output_folder(options),
        {MUTATION_TABLE: [row for item in found for row in make_mutation_rows(item)]},
        (),
        [line for item in found for line in format_mutation_table(item)],
    )
    return 0


def add_replay_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line of `parallax study replay`."""
    common.add_folder_arguments(parser)
    text = "R2D2 only: measure how far stored recurrent states are from recomputed ones"
    parser.add_argument("--staleness", action="store_true", help=text)
    parser.add_argument(
        "--stages",
        type=make_number_parser(1, _MAX_STAGES),
        default=_DEFAULT_STAGES,
        metavar="N",
        help="with --staleness: number of equal stages of the training (default: %(default)s)",
    )
    common.add_verdict_arguments(
        parser, without=("--failed-below", "--family", "--power", "--rng-seed")
    )
    defaults = {name: parser.get_default(name) for name in ("stages", *_STATISTICS)}
    parser.set_defaults(defaults=defaults)


def run_replay(options: argparse.Namespace) -> int:
    """Print the effects of replay strategies, write two tables, and draw figures.

    Raises:
        CommandError: All runs used uniform replay, an option has no effect, or there is nowhere to
            write.
    """
    _check_replay_options(options)
    if options.staleness:
        return _report_staleness(options)
    settings = common.make_options(options)
    loaded = common.load_results(options.results, settings)
    items = read_replay_metrics(loaded)
    if all(item.name in (UNIFORM, UNKNOWN) for item in items):
        raise common.CommandError(
            f"{options.results}: every run replays uniformly. Train with "
            "replay=uniform,per,atdc,imp; docs/reference/replay.md explains them."
        )
    settled = settle_options(loaded, settings)
    study = judge_replay(items, settled)
    counts = f"{loaded.requested} run folders: {loaded.completed} complete, {loaded.used} used."
    _write_results(
        common.choose_output_folder(options),
        {
            STRATEGIES_TABLE: replay.make_strategy_rows(study),
            EFFECTS_TABLE: replay.make_effect_rows(study),
        },
        make_replay_figure_specs(study),
        [
            f"Score: {settled.chosen_endpoint.description} ({settled.endpoint_source})",
            *replay.format_replay_study(study),
            "",
            *_describe_unread_metrics(items),
            *loaded.conflicts,
            *common.format_unused(loaded),
            counts,
            replay.summarize_replay(study, study.effects),
        ],
    )
    return 0


def _check_replay_options(options: argparse.Namespace) -> None:
    """Refuse options of statistics with `--staleness`, and `--stages` without it.

    Raises:
        CommandError: There is one.
    """
    without_effect, word = (_STATISTICS, "with") if options.staleness else (("stages",), "without")
    words = format_changed_options(options, without_effect)
    if words:
        raise common.CommandError(f"{' '.join(words)} has no effect {word} --staleness: drop it.")


def _describe_unread_metrics(items: Iterable[ReplayMetrics]) -> list[str]:
    """Return a line for each reason for which errors of priorities are unknown."""
    unread = group_items((item for item in items if item.unread), lambda item: item.unread)
    lines = []
    for reason, members in unread.items():
        more = f" and {len(members) - 1} more" if len(members) > 1 else ""
        path = members[0].item.path
        lines.append(f"{path}{more}: errors of priorities are unknown: {reason}")
    return lines


def _report_staleness(options: argparse.Namespace) -> int:
    """Print a line for each strategy, write a table, and draw a figure for each setting.

    Raises:
        CommandError: No run recorded discrepancies, or there is nowhere to write.
    """
    loaded = common.load_results(options.results, prints_conflicts=True)
    found, without = read_staleness(loaded.runs)
    if not found:
        raise common.CommandError(
            f"{options.results}: no complete run recorded Q-value discrepancies. Runs of "
            "algorithm=r2d2 do whose episodes are longer than sequence_length less overlap. "
            "Packed files have no traces: name the folder of the runs."
        )
    items = summarize_staleness(found, options.stages)
    lines = [line for item in items for line in replay.format_staleness_lines(item)]
    if without:
        lines.append(f"Not used: {len(without)} of {loaded.requested} runs, which recorded none.")
    lines += common.format_unused(loaded)
    _write_results(
        common.choose_output_folder(options),
        {STALENESS_TABLE: [row for item in items for row in replay.make_staleness_rows(item)]},
        [make_staleness_figure_spec(item) for item in items],
        lines,
    )
    return 0
