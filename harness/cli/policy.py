"""`parallax policy`: evaluate, export and record videos of trained policies."""

import argparse
import collections
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from parallax.harness.cli.arguments import (
    add_file_argument,
    add_trust_argument,
    check_links,
    check_output_folders,
    find_run_folders,
    write_output_files,
)
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import RunSpec, is_plain_value, spec_from_dict
from parallax.harness.policies.loading import why_no_policy
from parallax.harness.policies.video import find_rendering_variables
from parallax.harness.policies.worker import WorkerAnswer, run_action
from parallax.harness.record.files import DECODE_ERRORS, escape_unprintable, make_number_parser
from parallax.harness.record.layout import POLICY_FILE
from parallax.harness.record.reading import read_run
from parallax.harness.train.trust import list_named_code, require_trust

_MAX_EPISODES = 10**6
_NORMALIZED = f"; it takes normalized observations, and their statistics are only in {POLICY_FILE}"
_EVALUATE_EPILOG = """\
examples:
  parallax policy evaluate results/demo                     repeats each run's last evaluation
  parallax policy evaluate results/demo episodes=100 seed=3 env.gravity=9.0"""


def add_evaluate_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line of `parallax policy evaluate`."""
    parser.epilog = _EVALUATE_EPILOG
    parser.add_argument(
        "words",
        nargs="+",
        metavar="FOLDER | episodes=N | seed=N | env.x=y",
        help="run folders, or folders above them; then the number of episodes, the seed of their "
        "initial states, and keyword arguments of the task. With folders alone, the last "
        "evaluation of each run is repeated and compared",
    )
    add_file_argument(parser, "--output", "write all returns as CSV")
    add_trust_argument(parser)


def run_evaluate(options: argparse.Namespace) -> int:
    """Play episodes with the policies of runs.

    Returns:
        0; 1 where a policy could not be evaluated, or a repeated evaluation gave other returns.
    """
    check_output_folders([options.output])
    folders = [Path(word) for word in options.words if not _is_condition(word)]
    conditions = parse_conditions(filter(_is_condition, options.words))
    runs, failed = _find_policies(folders, trust=options.trust)
    answers = []
    for answer in run_action("evaluate", runs, conditions):
        answers.append(answer)
        failed += _print_answer(answer, _format_returns(answer, "same" in answer))
    if options.output:
        write_output_files({options.output: _format_episodes_csv(answers, runs)})
        print(f"Returns of all episodes: {options.output}")
    return 1 if failed else 0


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line of `parallax policy export`."""
    parser.add_argument("words", nargs="+", metavar="FOLDER", help="run folders, or parent folders")
    text = "folder to write to (default: %(default)s)"
    parser.add_argument(
        "--output", type=Path, default=Path("exported"), metavar="FOLDER", help=text
    )
    add_trust_argument(parser)


def run_export(options: argparse.Namespace) -> int:
    """Write the policies of runs in the file format of their framework.

    Returns:
        0; 1 where one could not be written.
    """
    if options.output.exists() and not options.output.is_dir():
        raise SpecError(f"--output {options.output} is no folder: name another one.")
    runs, failed = _find_policies([Path(word) for word in options.words], trust=options.trust)
    targets = {str(folder): str(_make_export_path(options.output, folder, runs)) for folder in runs}
    for target, count in collections.Counter(targets.values()).items():
        if count > 1:
            first, second, *_ = (folder for folder, other in targets.items() if other == target)
            raise SpecError(f"{first} and {second} would both be {target}: export them separately.")
    check_links(options.output, map(Path, targets.values()))
    for answer in run_action("export", runs, {"targets": targets}):
        is_normalized = runs[Path(answer["folder"])].wrappers == "normalized"
        remark = _NORMALIZED if is_normalized else ""
        failed += _print_answer(answer, f"{answer.get('file')}{remark}")
    return 1 if failed else 0


def add_video_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line of `parallax policy video`."""
    parser.add_argument("words", nargs="*", metavar="FOLDER", help="folder of one run")
    parser.add_argument(
        "--compare", nargs="+", default=[], metavar="FOLDER", help="runs to show side by side"
    )
    text = "video file, ending in .mp4"
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help=text)
    parser.add_argument(
        "--episode",
        type=make_number_parser(0, _MAX_EPISODES - 1),
        default=0,
        metavar="N",
        help="number of the episode in the last evaluation (default: %(default)s)",
    )
    add_trust_argument(parser)


def run_video(options: argparse.Namespace) -> int:
    """Record a video of one episode.

    Returns:
        0; 1 where it could not be recorded.
    """
    folders = [Path(word) for word in (*options.words, *options.compare)]
    _check_video_options(folders, options)
    runs, failed = _find_policies(folders, trust=options.trust)
    if failed or len(runs) != len(folders):
        raise SpecError("Name folders of single runs that have a policy, each of them once.")
    episodes = next(iter(runs.values())).eval_episodes
    if options.episode >= episodes:
        raise SpecError(
            f"--episode {options.episode}: the last evaluation has episodes 0 to {episodes - 1}."
        )
    if len({(spec.python, spec.threads) for spec in runs.values()}) > 1:
        raise SpecError(
            "Runs of different interpreters or thread counts cannot be shown in one video. "
            "Record a video of each: parallax policy video FOLDER --output FILE.mp4."
        )
    request = {"file": str(options.output.absolute()), "episode": options.episode}
    for answer in run_action("film", runs, request, find_rendering_variables()):
        failed += _print_answer(answer, f"return {answer.get('return')}")
    if not failed:
        print(f"Video: {options.output}")
    return 1 if failed else 0


def _check_video_options(folders: Sequence[Path], options: argparse.Namespace) -> None:
    if options.output.suffix != ".mp4":
        raise SpecError(f"--output {options.output}: the name must end in .mp4.")
    check_output_folders([options.output])
    if len(folders) > 1 and options.words:
        raise SpecError("Name several runs after --compare: --compare FOLDER FOLDER.")


def parse_conditions(words: Iterable[str]) -> dict[str, Any]:
    """Parse `episodes=100 seed=3 env.x=y` into fields of `EvaluationConditions`."""
    found: dict[str, Any] = {"env": {}}
    words = list(words)
    names = [word.partition("=")[0] for word in words]
    if twice := [name for name in names if names.count(name) > 1]:
        raise SpecError(f"{twice[0]} is there twice: name one value.")
    for word in words:
        name, _, text = word.partition("=")
        try:
            value = yaml.safe_load(text)
        # YAML tags and dates can denote impossible values, such as 2000-99-99.
        except (yaml.YAMLError, RecursionError, *DECODE_ERRORS) as error:
            raise SpecError(f"{word}: the value cannot be parsed.") from error
        if name.startswith("env.") and name.removeprefix("env.").isidentifier():
            if isinstance(value, list | dict) or not is_plain_value(value):
                raise SpecError(f"{word}: give a finite number, a word, true or false.")
            found["env"][name.removeprefix("env.")] = value
        elif name in ("episodes", "seed"):
            least, most = (1, _MAX_EPISODES) if name == "episodes" else (0, 2**53)
            if type(value) is not int or not least <= value <= most:
                raise SpecError(f"{word}: give a whole number from {least} to {most:,}.")
            found[name] = value
        else:
            raise SpecError(
                f"{word}: use episodes=N, seed=N or env.NAME=VALUE. Write a folder whose name "
                "contains an equals sign as ./NAME/."
            )
    return found if found["env"] else {k: v for k, v in found.items() if k != "env"}


def _is_condition(word: str) -> bool:
    """Return whether a word is `name=value`, and not the path of a folder such as `seed=0`."""
    return "=" in word and "/" not in word and not Path(word).is_dir()


def _find_policies(folders: Sequence[Path], *, trust: bool) -> tuple[dict[Path, RunSpec], int]:
    """Return the runs in folders that have a policy, and the number of those without."""
    if not folders:
        raise SpecError("Name at least one run folder, or a folder above.")
    runs: dict[Path, RunSpec] = {}
    adapters: list[str] = []
    failed = 0
    for root in folders:
        if not (found := find_run_folders(root)):
            raise SpecError(f"{root} holds no runs.")
        for folder in found:
            reading = read_run(folder)
            why = why_no_policy(reading)
            if not why:
                try:
                    runs[folder] = spec_from_dict(reading.spec)
                    adapters.append(reading.content["adapter"])
                except SpecError as error:
                    why = str(error)
            if why:
                print(escape_unprintable(f"{folder}: no policy: {why}"), file=sys.stderr)
                failed += 1
    require_trust(folders[0], list_named_code(runs.values(), adapters), trust=trust)
    return runs, failed


def _print_answer(answer: WorkerAnswer, words: str) -> bool:
    """Print one answer; return True for a failure or a difference."""
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
        degree = "the same" if answer["same"] else "NOT the same"
        words += f", {degree} as the run's last evaluation"
    return words


def _format_episodes_csv(answers: Sequence[WorkerAnswer], runs: Mapping[Path, RunSpec]) -> str:
    from parallax.analysis.escaping import format_csv

    names = ("framework", "algorithm", "env", "hps", "seed")
    rows: list[list[object]] = [["folder", *names, "episode", "return", "length"]]
    for answer in answers:
        spec = runs[Path(answer["folder"])]
        pairs = zip(answer.get("returns", ()), answer.get("lengths", ()), strict=True)
        for episode, (value, length) in enumerate(pairs):
            fields = [getattr(spec, name) for name in names]
            rows.append([answer["folder"], *fields, episode, value, length])
    return format_csv(rows)


def _make_export_path(output: Path, folder: Path, runs: Mapping[Path, RunSpec]) -> Path:
    """Return the path of an exported policy: that of its run folder, below `output`."""
    place = runs[folder].folder(output)
    return place.with_name(f"{place.name}.file")
