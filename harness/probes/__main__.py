"""`python -m harness probe`: asks the installed implementations what one update does."""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from harness.adapter import Adapter, installed_adapters, load_adapter
from harness.errors import HANDLED, exit_code
from harness.fields import SpecError
from harness.files import write_json
from harness.probes import registry, report
from harness.probes.contract import Probeable
from harness.probes.lab import Lab
from harness.probes.probe import put
from harness.probes.results import Report, from_json, to_json
from harness.spec import ALGORITHMS


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line.

    Returns:
        0; 1 where an answer is not that of the baseline; 2 for bad input.
    """
    options = parser().parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # torch is not there yet; networks are small
    try:
        expected = _read(options.baseline) if options.baseline else None
        result = ask(options.algorithm, options.probe, options.frameworks)
    except HANDLED as error:
        return exit_code(error)
    print("\n".join(report.lines(result)))
    if options.json:
        write_json(options.json, to_json(result))
    if expected is None:
        return 0
    changed = report.changes(result, expected)
    print(f"\nAgainst {options.baseline}: {len(changed)} answers changed.", *changed, sep="\n  ")
    return 1 if changed else 0


def ask(
    algorithms: Sequence[str], patterns: Sequence[str], frameworks: Sequence[str] | None
) -> Report:
    """Puts probes to frameworks.

    Args:
        algorithms: Names; none is all.
        patterns: Probes whose name contains one of them; none is all.
        frameworks: Names of adapters; None is all that are installed.

    Raises:
        SpecError: A name is not known, or a framework is missing.
    """
    started = time.perf_counter()
    probes = registry.select(algorithms, patterns)
    adapters, not_probed = _adapters(frameworks)
    labs = {name: Lab(adapter) for name, adapter in adapters.items()}
    packages = {n: a.packages for n, a in adapters.items() if isinstance(a, Probeable)}
    results = []
    for number, probe in enumerate(probes, start=1):
        print(f"\r{number}/{len(probes)} {probe.name:40}", end="", file=sys.stderr, flush=True)
        results.append(put(probe, labs))
    print("\r" + " " * 50 + "\r", end="", file=sys.stderr)
    return Report(
        results=tuple(results),
        versions={
            name: tuple(f"{package} {version(package)}" for package in names)
            for name, names in packages.items()
        },
        not_probed=not_probed,
        seconds=time.perf_counter() - started,
    )


def _adapters(names: Sequence[str] | None) -> tuple[dict[str, Adapter], dict[str, str]]:
    # A framework that was not asked for by name may be missing or have no probing part.
    adapters: dict[str, Adapter] = {}
    not_probed: dict[str, str] = {}
    for name in names if names is not None else sorted(installed_adapters()):
        adapter = load_adapter(name)
        try:
            adapter.check_installed()
        except SpecError as error:
            if names is not None:
                raise
            not_probed[name] = str(error)
            continue
        if isinstance(adapter, Probeable):
            adapters[name] = adapter
        else:
            not_probed[name] = "its adapter has no probing part"
    return adapters, not_probed


def _read(path: Path) -> Report:
    try:
        return from_json(json.loads(path.read_text()))
    except (OSError, ValueError, KeyError) as error:
        raise SpecError(f"--baseline {path}: no stored probe results there ({error})") from error


def parser() -> argparse.ArgumentParser:
    """The options."""
    result = argparse.ArgumentParser(prog="python -m harness probe", description=__doc__)
    algorithms = sorted(ALGORITHMS)
    result.add_argument("--algorithm", type=_names, default=[], help=f"of {','.join(algorithms)}")
    result.add_argument("--frameworks", type=_names, help="such as sb3,cleanrl; default all")
    result.add_argument("--probe", type=_names, default=[], help="parts of probes' names")
    result.add_argument("--json", type=Path, help="file to write the results to")
    result.add_argument("--baseline", type=Path, help="such a file; exit with 1 if answers changed")
    return result


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


if __name__ == "__main__":
    sys.exit(main())
