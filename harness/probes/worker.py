"""Puts probes to one framework in a process of its own, in whichever interpreter that is.

`python -m harness.probes.worker MODULE:ADAPTER PROBE,PROBE,... [INTERVENTION]` writes one JSON
object per line: first the versions, then each result.
"""

import json
import os
import sys
import traceback
from importlib.metadata import EntryPoint, version
from pathlib import Path
from typing import IO, Any

from harness.contract.adapter import ENTRY_POINT_GROUP, Adapter
from harness.contract.run_spec import JOINT
from harness.interventions.catalogue import for_framework, replacement
from harness.probes import registry
from harness.probes.contract import Probeable
from harness.probes.fleet import bare
from harness.probes.lab import Lab
from harness.probes.probe import Probe, put
from harness.probes.results import Result, no_answer, plain


def main(entry: str, names: list[str], intervention: str = "") -> int:
    """Answers on standard output; whatever else is printed goes to standard error."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        adapter: Adapter = EntryPoint("adapter", entry, ENTRY_POINT_GROUP).load()()
        assert isinstance(adapter, Probeable)
        packages = (*adapter.packages, "gymnasium", "numpy")
        versions = [f"{package} {version(package)}" for package in packages]
        _say(answers, {"versions": versions})
        lab = Lab(adapter)
        known = {probe.name: probe for probe in registry.PROBES}
        changes = for_framework(adapter.name) if intervention else {}
        made = [changes[name] for name in intervention.split(JOINT)] if intervention else []
        with replacement(made).made():
            for name in names:
                _say(answers, {"result": plain(ask(known[name], lab))})
    return 0


def ask(probe: Probe, lab: Lab) -> Result:
    """One framework's answer; an error becomes a failed answer and goes to standard error."""
    try:
        return put(probe, {lab.adapter.name: lab})
    except Exception as error:
        traceback.print_exc()
        text = " ".join(str(error).split())[:200]
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}, line {last.lineno}"
        failed = no_answer(f"{type(error).__name__}: {text} ({where})", failed=True)
        return bare(probe, {lab.adapter.name: failed}, None)


def _say(answers: IO[str], line: dict[str, Any]) -> None:
    print(json.dumps(line, allow_nan=False), file=answers, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2].split(","), *sys.argv[3:4]))
