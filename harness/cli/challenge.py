"""`parallax challenge`: plays originals and mutants of a study against test generators."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.errors import HANDLED, exit_code
from harness.contract.fields import SpecError
from harness.record.files import write_text

if TYPE_CHECKING:
    from harness.policies.challenging import Options, Study


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line.

    Returns:
        0; 2 for bad input.
    """
    import joblib

    from harness.policies.challenging import FILE, SCHEMA, Options, studies

    try:
        options = _parser().parse_args(arguments)
        if options.replay < 1:
            raise SpecError(f"--replay {options.replay}: at least one configuration is played.")
        if options.jobs < 1:
            raise SpecError(f"--jobs {options.jobs}: at least one setting is played at a time.")
        wanted = Options(replay=options.replay, seed=options.seed)
        play = joblib.delayed(_results)
        found = joblib.Parallel(options.jobs)(
            play(study, wanted) for study in studies(options.results)
        )
        output = options.output or options.results / FILE
        content = {
            "schema": SCHEMA,
            "replay": wanted.replay,
            "seed": wanted.seed,
            "settings": found,
        }
        write_text(output, json.dumps(content) + "\n")
    except HANDLED as error:
        return exit_code(error)
    print(f"File: {output}\nparallax mutation {options.results} tells what was killed.")
    return 0


def _results(study: "Study", wanted: "Options") -> dict[str, Any]:
    from harness.policies.challenging import Challenge

    setting = study.setting
    name = f"{setting.framework} {setting.algorithm} {setting.env} {setting.hps}"
    return Challenge(study, wanted, lambda text: _tell(f"{name}: {text}")).results()


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="parallax challenge",
        description="Plays originals and mutants of a study in configurations of a replay of the "
        "training, of a weak and of a strong test generator.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("results", type=Path, help="a study's folder")
    add("--output", type=Path, metavar="FILE", help="default: mutation.json in it")
    add("--replay", type=int, default=200, help="configurations of a replay (%(default)s)")
    add("--jobs", type=int, default=1, help="settings that are played at a time (%(default)s)")
    add("--seed", type=int, default=0, help="of what generators draw (%(default)s)")
    return parser
