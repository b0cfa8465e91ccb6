"""`parallax evaluate`, `export` and `video`: what can be done with runs that have learned."""

import argparse
import csv
import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from parallax.harness.contract.fields import SpecError, report_error
from parallax.harness.contract.run_spec import RunSpec, spec_from_dict
from parallax.harness.policies.loading import why_no_policy
from parallax.harness.policies.video import find_rendering_variables
from parallax.harness.policies.worker import WorkerAnswer, run_action
from parallax.harness.record.files import escape_unprintable, write_atomically
from parallax.harness.record.layout import find_runs
from parallax.harness.record.reading import read_run
from parallax.harness.train.trust import list_named_code, require_trust

_MAX_EPISODES = 10**6


def run_evaluate_command(arguments: Sequence[str]) -> int:
    """Command line of `parallax evaluate`.

    Returns:
        0 when all were evaluated, and as they were in training where nothing is changed; 1 when
        not; 2 for bad input.
    """
    parser = _make_parser("evaluate", "Plays complete episodes with what runs have learned.")
    parser.add_argument(
        "words",
        nargs="+",
        metavar="FOLDER | episodes=N | seed=N | env.x=y",
        help="run folders or folders above them; then how many episodes, from which initial "
        "states, and keyword arguments of the task. Without those the run's last evaluation is "
        "played again",
    )
    parser.add_argument("--output", type=Path, help="writes all returns to this CSV file")
    options = parser.parse_args(arguments)
    try:
        folders = [Path(word) for word in options.words if "=" not in _blank_if_path(word)]
        changes = parse_conditions(word for word in options.words if "=" in _blank_if_path(word))
        runs, failed = _find_policies(folders, trust=options.trust)
        answers = []
        for answer in run_action("evaluate", runs, changes):
            answers.append(answer)
            failed += _print_answer(answer, _format_returns(answer, "same" in answer))
        if options.output:
            text = _format_episodes_csv(answers, runs)
            write_atomically(options.output, lambda file: file.write(text.encode()))
            print(f"Returns of all episodes: {options.output}")
    except (SpecError, OSError, KeyboardInterrupt) as error:
        return _report_command_error(error)
    return 1 if failed else 0


def run_export_command(arguments: Sequence[str]) -> int:
    """Command line of `parallax export`.

    Returns:
        0 when all were written, 1 when not, 2 for bad input.
    """
    parser = _make_parser("export", "Writes what runs have learned as their framework's own files.")
    parser.add_argument("words", nargs="+", metavar="FOLDER", help="run folders, or folders above")
    parser.add_argument(
        "--output", type=Path, default=Path("exported"), help="folder to write to (%(default)s)"
    )
    options = parser.parse_args(arguments)
    try:
        runs, failed = _find_policies([Path(word) for word in options.words], trust=options.trust)
        targets = {
            str(folder): str(_make_export_path(options.output, folder, runs)) for folder in runs
        }
        for answer in run_action("export", runs, {"targets": targets}):
            failed += _print_answer(answer, str(answer.get("file")))
    except (SpecError, OSError, KeyboardInterrupt) as error:
        return _report_command_error(error)
    return 1 if failed else 0


def run_video_command(arguments: Sequence[str]) -> int:
    """Command line of `parallax video`.

    Returns:
        0 when the film was made, 1 when not, 2 for bad input.
    """
    parser = _make_parser("video", "Films what runs have learned: one, or several side by side.")
    parser.add_argument("words", nargs="*", metavar="FOLDER", help="folder of one run")
    parser.add_argument(
        "--compare", nargs="+", default=[], metavar="FOLDER", help="runs to be seen side by side"
    )
    parser.add_argument("--output", type=Path, required=True, help="the file, ending in .mp4")
    parser.add_argument(
        "--episode", type=int, default=0, help="which one of the last evaluation (%(default)s)"
    )
    options = parser.parse_args(arguments)
    try:
        folders = [Path(word) for word in (*options.words, *options.compare)]
        _check_video_options(folders, options)
        runs, failed = _find_policies(folders, trust=options.trust)
        if failed or len(runs) != len(folders):
            raise SpecError("Name folders of single runs that have a policy, each of them once.")
        if len({(spec.python, spec.threads) for spec in runs.values()}) > 1:
            raise SpecError("Runs of different interpreters or threads cannot be filmed together.")
        asked = {"file": str(options.output.absolute()), "episode": options.episode}
        for answer in run_action("film", runs, asked, find_rendering_variables()):
            failed += _print_answer(answer, f"return {answer.get('return')}")
        if not failed:
            print(f"Film: {options.output}")
    except (SpecError, OSError, KeyboardInterrupt) as error:
        return _report_command_error(error)
    return 1 if failed else 0


def _check_video_options(folders: Sequence[Path], options: argparse.Namespace) -> None:
    if options.output.suffix != ".mp4":
        raise SpecError(f"--output {options.output}: the name must end in .mp4.")
    if options.episode < 0:
        raise SpecError(f"--episode {options.episode}: episodes are counted from 0.")
    if len(folders) > 1 and options.words:
        raise SpecError("One run is filmed alone; name several after --compare.")


def parse_conditions(words: Iterable[str]) -> dict[str, Any]:
    """What `episodes=100 seed=3 env.x=y` asks for, as fields of `EvaluationConditions`.

    Raises:
        SpecError: A word is not known, or its value cannot be used.
    """
    found: dict[str, Any] = {"env": {}}
    for word in words:
        name, _, text = word.partition("=")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise SpecError(f"{word}: the value cannot be read.") from error
        if name.startswith("env.") and name != "env.":
            if isinstance(value, list | dict):
                raise SpecError(f"{word}: a number, a word, true or false is needed.")
            found["env"][name.removeprefix("env.")] = value
        elif name in ("episodes", "seed"):
            least, most = (1, _MAX_EPISODES) if name == "episodes" else (0, 2**53)
            if type(value) is not int or not least <= value <= most:
                raise SpecError(f"{word}: a whole number from {least} to {most:,} is needed.")
            found[name] = value
        else:
            raise SpecError(
                f"{word}: evaluate knows episodes=N, seed=N and env.NAME=VALUE; a folder whose "
                "name holds an equals sign is named as ./NAME/."
            )
    return found if found["env"] else {k: v for k, v in found.items() if k != "env"}


def _make_parser(name: str, text: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"parallax {name}", description=text)
    parser.add_argument(
        "--trust", action="store_true", help="runs what the folders name without asking"
    )
    return parser


def _blank_if_path(word: str) -> str:
    """A word in which an equals sign means a setting: run folders are called `seed=0`."""
    return "" if "/" in word or Path(word).is_dir() else word


def _find_policies(folders: Sequence[Path], *, trust: bool) -> tuple[dict[Path, RunSpec], int]:
    """Runs at or below folders that have a policy, and how many have none, which are told."""
    if not folders:
        raise SpecError("Name at least one run folder, or a folder above.")
    runs: dict[Path, RunSpec] = {}
    adapters: list[str] = []
    failed = 0
    for root in folders:
        if not root.is_dir():
            raise SpecError(f"{root} is not a folder: name a run folder or one above.")
        found = find_runs(root)
        if found.links:
            print(escape_unprintable(found.describe_skipped_links()), file=sys.stderr)
        if not found.runs:
            raise SpecError(f"{root} holds no runs.")
        for folder in found.runs:
            reading = read_run(folder)
            why = why_no_policy(reading)
            try:
                if not why:
                    runs[folder] = spec_from_dict(reading.spec)
                    adapters.append(reading.content["adapter"])
                    continue
            except SpecError as error:
                why = str(error)
            print(escape_unprintable(f"{folder}: no policy: {why}"), file=sys.stderr)
            failed += 1
    require_trust(folders[0], list_named_code(runs.values(), adapters), trust=trust)
    return runs, failed


def _print_answer(answer: WorkerAnswer, words: str) -> bool:
    """Prints one answer; returns whether it is bad news."""
    failure = answer.get("failure")
    print(escape_unprintable(f"{answer['folder']}: {failure or words}"), flush=True)
    return bool(failure) or answer.get("same") is False


def _format_returns(answer: WorkerAnswer, is_again: bool) -> str:
    if "failure" in answer:
        return ""
    import numpy as np

    returns = np.array(answer["returns"], float)
    finite = returns[np.isfinite(returns)]
    words = f"{len(finite)} of {len(returns)} episodes"
    if finite.size:
        words = f"mean return {finite.mean():.6g}, deviation {finite.std():.4g}, {words}"
    if is_again:
        words += (
            f", {'the same' if answer['same'] else 'NOT the same'} as the run's last evaluation"
        )
    return words


def _format_episodes_csv(answers: Sequence[WorkerAnswer], runs: Mapping[Path, RunSpec]) -> str:
    file = io.StringIO()
    writer = csv.writer(file)
    names = ("framework", "algorithm", "env", "hps", "seed")
    writer.writerow(["folder", *names, "episode", "return", "length"])
    for answer in answers:
        spec = runs[Path(answer["folder"])]
        pairs = zip(answer.get("returns", ()), answer.get("lengths", ()), strict=True)
        for episode, (value, length) in enumerate(pairs):
            told = [getattr(spec, name) for name in names]
            writer.writerow([answer["folder"], *told, episode, value, length])
    return file.getvalue()


def _make_export_path(output: Path, folder: Path, runs: Mapping[Path, RunSpec]) -> Path:
    """Where a run's file goes: named after what tells the runs apart."""
    spec = runs[folder]
    place = spec.folder(output)
    return place.with_name(f"{place.name}.file")


def _report_command_error(error: BaseException) -> int:
    if isinstance(error, OSError):
        error = SpecError(f"{error.filename} cannot be written: {error.strerror}.")
    return report_error(error)
