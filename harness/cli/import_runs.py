"""`parallax import`: converts runs of other tools to run folders."""

import argparse
import collections
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from parallax.harness.cli.progress import CommandProgress
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import SpecError, format_unknown_name
from parallax.harness.contract.run_spec import ALIGNMENTS, RUN_DEFAULTS, WRAPPERS
from parallax.harness.imports.return_curves import (
    EMPTY_RETURNS,
    EVALUATION,
    RETURN_KINDS,
    TRAINING,
    UNKNOWN,
    CurveOptions,
)
from parallax.harness.imports.run_import import (
    FORMATS,
    ImportOutcome,
    find_sources,
    guess_format,
    import_runs,
    make_imported_spec,
)
from parallax.harness.imports.run_names import (
    FIELDS,
    UNKNOWN_NAME,
    ImportOptions,
    NamedCurve,
    PathPattern,
)
from parallax.harness.imports.tensorboard_and_wandb import parse_setting
from parallax.harness.record.files import escape_unprintable, make_number_parser

_MAX_REFUSED = 20
_MAX_CHARACTERS = 1000  # of a line: files may hold names of any length
_RETURNS = {
    EVALUATION: "returns of evaluations",
    TRAINING: "returns of training episodes",
    UNKNOWN: "returns of unknown origin",
}
_FIELD_NAMES = {"env": "task", "hps": "recipe of hyperparameters"}
_EVALUATION_FORMATS = ("evaluations", "table")  # one value per evaluation, no episodes
_ROLES = ("step", "return", *FIELDS)
_SETTINGS = tuple(name for name in RUN_DEFAULTS if name not in ("eval_every", "save_policy"))
_EPILOG = """\
examples:
  parallax import logs --frameworks sb3 --pattern '{algorithm}/{env}_{seed}'
  parallax import runs --frameworks cleanrl --algorithms ppo --study theirs
  parallax import curves.csv --columns step=timesteps,return=score --returns evaluation
  parallax import export.csv --columns step=Step --wide '{algorithm}_seed{seed} - {_}'

formats:
{formats}
Settings that no option, pattern or file states are recorded as unknown."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    listed = (f"  {name:12} {text}" for name, text in FORMATS.items())
    parser.epilog = _EPILOG.replace("{formats}", "\n".join(listed))
    add = parser.add_argument
    add("paths", nargs="+", type=Path, metavar="PATH", help="files, or folders with files")
    text = "study to add the runs to (default: %(default)s)"
    add("--study", metavar="NAME", default="imported", help=text)
    text = "folder of the study (default: %(default)s)"
    add("--results-dir", type=Path, metavar="FOLDER", default=Path("results"), help=text)
    add("--dry-run", action="store_true", help="show what would be imported, without writing files")
    add = parser.add_argument_group("settings of the runs").add_argument
    text = "names that the last folders of a path have, such as '{algorithm}/{env}_{seed}'"
    add("--pattern", metavar="PATTERN", help=text)
    for name in FIELDS:
        kind, metavar = (int, "N") if name == "seed" else (str, "NAME")
        text = f"{_FIELD_NAMES.get(name, name)} of all runs"
        add(_format_option(name), dest=name, type=kind, metavar=metavar, help=text)
    add(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="settings",
        help=f"setting of all runs: hyperparameters.NAME, {', '.join(_SETTINGS)}; may be repeated",
    )
    add = parser.add_argument_group("contents of the files").add_argument
    add("--format", choices=tuple(FORMATS), help="only this kind of file (default: by name)")
    add(
        "--columns",
        metavar="ROLE=NAME,...",
        default="",
        help=f"names that the file's columns have, for {', '.join(_ROLES)}",
    )
    add("--wide", metavar="PATTERN", help="column names of tables with one column per run")
    text = "environment steps of the runs; longer ones are cut"
    add("--steps", type=_parse_positive, metavar="N", help=text)
    add(
        "--empty-returns",
        choices=EMPTY_RETURNS,
        default="refuse",
        help="meaning of a row with a step but no return: fail (the training had diverged), skip "
        "(not evaluated); %(default)s omits the run (default). NaN means fail, with --wide skip",
    )
    add(
        "--returns",
        choices=RETURN_KINDS,
        help="origin of the returns, if the file does not state it; only evaluations are compared "
        "with runs that Parallax trained",
    )
    add(
        "--every",
        type=_parse_positive,
        metavar="N",
        help="average episodes of a training over this many steps (default: a tenth of --steps, or "
        "10000, or in shorter runs 1000, 100, ...)",
    )


def _format_option(field: str) -> str:
    """Return the option that states a part of the name, plural for frameworks and algorithms."""
    return f"--{field}s" if field in ("framework", "algorithm") else f"--{field}"


_parse_positive = make_number_parser(1, 2**53)


def run(options: argparse.Namespace) -> int:
    """Import and print a summary.

    Returns:
        0, or 1 where a run was refused.
    """
    plan = _make_options(options)
    if plan.results_dir.exists() and not plan.results_dir.is_dir():
        raise SpecError(f"--results-dir {plan.results_dir} is no folder: name another one.")
    sources = find_sources(options.paths, options.format)
    if not sources:
        names = ", ".join(map(str, options.paths))
        raise SpecError(f"{names}: nothing to import: no {', '.join(FORMATS.values())}.")
    if options.every and all(source.format in _EVALUATION_FORMATS for source in sources):
        raise SpecError(
            f"--every {options.every} averages episodes of a training, but the files hold one "
            "value per evaluation: drop --every."
        )
    with CommandProgress(len(sources)) as progress:
        outcome = import_runs(sources, plan, dry_run=options.dry_run, advance=progress.advance)
    _print_outcome(outcome, plan, dry_run=options.dry_run)
    if unread := [path for source in sources for path in source.unread]:
        kinds = ", ".join(sorted({str(guess_format(path.name)) for path in unread}))
        line = (
            f"Not imported: {len(unread)} files beside others of another kind, such as "
            f"{unread[0]}. --format reads one kind: {kinds}."
        )
        print(escape_unprintable(line)[:_MAX_CHARACTERS])
    return 1 if outcome.refused else 0


def _make_options(options: argparse.Namespace) -> ImportOptions:
    stated = {name: getattr(options, name) for name in FIELDS if getattr(options, name) is not None}
    settings, hyperparameters = _parse_settings(options.settings, stated.get("algorithm"))
    return ImportOptions(
        results_dir=options.results_dir,
        study=options.study,
        stated=stated,
        pattern=PathPattern(options.pattern) if options.pattern else None,
        settings=settings,
        hyperparameters=hyperparameters,
        curves=CurveOptions(
            columns=_parse_columns(options.columns),
            wide=options.wide or "",
            kind=options.returns,
            interval=options.every,
            steps=options.steps,
            empty=options.empty_returns,
        ),
    )


def _parse_columns(text: str) -> dict[str, str]:
    columns = {}
    for entry in filter(None, text.split(",")):
        role, _, name = entry.partition("=")
        if role == "task":
            role = "env"
        if role not in _ROLES or not name:
            raise SpecError(
                f"--columns {entry}: give ROLE=NAME, where ROLE is one of {', '.join(_ROLES)}."
            )
        if role in columns:
            raise SpecError(f"--columns {entry}: {role} occurs twice. Give one column for it.")
        columns[role] = name
    return columns


def _parse_settings(
    entries: Sequence[str], algorithm: str | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    settings: dict[str, Any] = {}
    hyperparameters: dict[str, Any] = {}
    for entry in entries:
        name, _, text = entry.partition("=")
        prefix, _, field = name.rpartition(".")
        if not text:
            raise SpecError(f"--set {entry}: give NAME=VALUE.")
        if name in settings or (prefix and field in hyperparameters):
            raise SpecError(f"--set {entry}: {name} occurs twice. Give one value.")
        if prefix == "hyperparameters":
            _check_hyperparameter(field, algorithm)
            hyperparameters[field] = _parse_hyperparameter(text)
        elif name in _SETTINGS:
            settings[name] = _check_setting(name, parse_setting(text))
        else:
            raise SpecError(
                f"--set {entry}: {format_unknown_name(f'setting {name}', name, _SETTINGS)}"
            )
    return settings, hyperparameters


def _parse_hyperparameter(text: str) -> Any:
    """Return a value as `train` reads it: also null, true, false and lists."""
    if text.startswith("[") and text.endswith("]"):
        return [parse_setting(item.strip()) for item in text[1:-1].split(",")]
    return parse_setting({"null": "None", "true": "True", "false": "False"}.get(text, text))


def _check_setting(name: str, value: Any) -> Any:
    choices = {"alignment": ALIGNMENTS, "wrappers": WRAPPERS}.get(name)
    if choices and value not in choices:
        raise SpecError(f"--set {name}={value}: give one of {', '.join(choices)}.")
    default = RUN_DEFAULTS[name]
    if type(value) is not type(default) or (isinstance(value, int) and value < 0):
        kind = "a whole number" if isinstance(default, int) else "a name"
        raise SpecError(f"--set {name}={value}: give {kind}.")
    return value


def _check_hyperparameter(name: str, algorithm: str | None) -> None:
    if algorithm not in ALGORITHMS:
        if not name.isidentifier():
            raise SpecError(f"--set hyperparameters.{name}: {name!r} is not a valid name.")
        return
    known = list(ALGORITHMS[algorithm].__dataclass_fields__)
    if name not in known:
        raise SpecError(format_unknown_name(f"hyperparameter {name}", name, known))


def _print_outcome(outcome: ImportOutcome, options: ImportOptions, *, dry_run: bool) -> None:
    groups: dict[tuple[str, ...], list[NamedCurve]] = collections.defaultdict(list)
    for one in outcome.imported.values():
        spec = make_imported_spec(one, options)
        names = [str(one.names[field]) for field in FIELDS[:-1]]
        groups[*names, one.curve.kind, str(spec["steps"])].append(one)
    verb = "Would import" if dry_run else "Imported"
    print(f"{verb} {_count_runs(len(outcome.imported))}; {len(outcome.refused)} refused.")
    for (*names, kind, steps), members in sorted(groups.items()):
        seeds = [one.names["seed"] for one in members]
        shown = ", ".join(str(seed) if seed is not None else UNKNOWN_NAME for seed in seeds)
        parts = " ".join(f"{field}={name}" for field, name in zip(FIELDS, names, strict=False))
        line = f"  {parts} seed={shown}: {int(steps):,} steps, {_RETURNS[kind]}"
        print(escape_unprintable(line)[:_MAX_CHARACTERS])
    runs, left = outcome.imported.values(), "returns that were logged before are left out"
    repeated = [(one.title, one.curve.n_repeated) for one in runs if one.curve.n_repeated]
    for lines in (
        [f"failed training: {one.title}: {one.failure}" for one in runs if one.failure],
        [f"logged steps again: {title}: {count:,} {left}" for title, count in repeated],
        [f"refused: {refusal.title}: {refusal.reason}" for refusal in outcome.refused],
    ):
        for line in lines[:_MAX_REFUSED]:
            print(escape_unprintable(f"  {line}")[:_MAX_CHARACTERS])
        if len(lines) > _MAX_REFUSED:
            print(f"  and {len(lines) - _MAX_REFUSED} more.")
    _print_advice(outcome, options, dry_run=dry_run)


def _count_runs(count: int) -> str:
    return f"{count} {'run' if count == 1 else 'runs'}"


def _print_advice(outcome: ImportOutcome, options: ImportOptions, *, dry_run: bool) -> None:
    runs = list(outcome.imported.values())
    unknown: Mapping[str, int] = collections.Counter(
        field for run in runs for field in FIELDS if field not in run.stated_by
    )
    if unknown:
        counts = ", ".join(f"{field} of {_count_runs(n)}" for field, n in unknown.items())
        print(
            f"Unknown: {counts}. State it with --pattern, --columns or "
            f"{', '.join(map(_format_option, unknown))}."
        )
    if kinds := {run.curve.kind for run in runs} - {EVALUATION}:
        returns = " and ".join(_RETURNS[kind] for kind in sorted(kinds)).capitalize()
        print(
            f"{returns} are compared with each other, not with evaluations. Add --returns "
            "evaluation if they are evaluations."
        )
    if runs and not dry_run:
        print(f"Next: parallax report {options.results_dir / options.study}")
