"""Plants one-line faults of upstream's code, and reports what probes say about each.

`python -m tests.line_faults OUTCOMES.json` plants all of `tests/plants/one_line_faults.yaml`;
`python -m tests.line_faults OUTCOMES.json SUBJECT_OR_NAME ...` plants some. Changed answers are
written to the file. A fault is *found* if an answer changes, and *named* if the words of a changed
answer match the pattern that the file has for it.
"""

import dataclasses
import functools
import json
import math
import re
import sys
from pathlib import Path

import yaml

from parallax.harness.contract.adapter import load_adapter
from parallax.harness.interventions.catalogue import _parse_entry
from parallax.harness.probes import baseline, catalogue
from parallax.harness.probes.baseline import describe_change
from parallax.harness.probes.experiments import ExperimentCache
from parallax.harness.probes.probe import OTHER_FUNCTION
from parallax.harness.probes.worker import answer_probe

FILE = Path(__file__).parent / "plants" / "one_line_faults.yaml"
STORED = Path(__file__).parents[1] / "docs" / "differences.json"
RAW_NUMBERS = re.compile(r"other numbers|^[\s\d.,;e+\-\[\]>naif]*$")


@dataclasses.dataclass(frozen=True)
class LineFault:
    """One fault.

    Attributes:
        name: Name of the intervention.
        framework: Framework whose code has it.
        subject: Class of fault.
        says: Pattern that names it in a changed answer.
        change: The intervention.
    """

    name: str
    framework: str
    subject: str
    says: str
    change: object

    @property
    def algorithm(self):
        return self.change.algorithms[0]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What probes say about a fault: its changed answers, by probe."""

    fault: LineFault
    changes: dict

    @property
    def is_named(self):
        lines = (f"{probe}: {words}" for probe, words in self.changes.items())
        return any(re.search(self.fault.says, line) for line in lines)

    @property
    def has_words(self):
        """Whether a changed answer has words other than "another function" or raw numbers."""
        words = (text.partition("; is ")[2] or text for text in self.changes.values())
        return any(OTHER_FUNCTION not in w and not RAW_NUMBERS.search(w) for w in words)


def load_faults():
    """Return all faults of the file."""
    faults = []
    for name, entry in yaml.safe_load(FILE.read_text()).items():
        own = {key: entry.pop(key) for key in ("framework", "subject", "says")}
        adapter = load_adapter(own["framework"])
        change = _parse_entry(name, entry, FILE, adapter.name, adapter.upstream_modules)
        faults.append(LineFault(name=name, change=change, **own))
    return faults


def measure(framework, algorithm, changes=()):
    """Return the results of all probes of one implementation, by name."""
    cache = ExperimentCache(load_adapter(framework), 0, list(changes))
    probes = [probe for probe in catalogue.PROBES if probe.algorithm == algorithm]
    return {probe.name: answer_probe(probe, cache) for probe in probes}


@functools.cache
def measure_healthy(framework, algorithm):
    """Return the stored answers of unchanged code, or measure them if there are none."""
    stored = {
        result.probe: result
        for result in baseline.load_report(STORED).results
        if result.probe.startswith(f"{algorithm}.") and framework in result.answers
    }
    names = {probe.name for probe in catalogue.PROBES if probe.algorithm == algorithm}
    return stored if names <= stored.keys() else measure(framework, algorithm)


def find_changes(fault):
    """Return the outcome of one fault."""
    before = measure_healthy(fault.framework, fault.algorithm)
    after = measure(fault.framework, fault.algorithm, (fault.change,))
    changes = {}
    for name, result in after.items():
        pair = [found[name].answers[fault.framework] for found in (before, after)]
        if lines := describe_change(result, *pair):
            changes[name] = lines[0]
    return Outcome(fault, changes)


def compute_wilson_interval(successes, n, z=1.959964):
    """Return the 95% interval of a share."""
    centre = (successes + z * z / 2) / (n + z * z)
    half = z * math.sqrt(successes * (n - successes) / n + z * z / 4) / (n + z * z)
    return centre - half, centre + half


def main(file, names):
    """Plant faults; print each with its changed answers, and counts by subject."""
    known = load_faults()
    order = [fault.name for fault in known]
    changes = json.loads(file.read_text()) if file.exists() else {}
    for name in names or order:
        for fault in (f for f in known if name in (f.name, f.subject)):
            outcome = find_changes(fault)
            changes[fault.name] = outcome.changes
            file.write_text(json.dumps({n: changes[n] for n in order if n in changes}, indent=1))
            show(outcome)
    outcomes = [Outcome(f, changes[f.name]) for f in known if f.name in changes]
    for subject in dict.fromkeys(fault.subject for fault in known):
        report(subject, [o for o in outcomes if o.fault.subject == subject])
    return report("together", outcomes)


def show(outcome):
    """Print a fault and the answers that it changes."""
    fault = outcome.fault
    word = "named" if outcome.is_named else "found" if outcome.changes else "MISSED"
    blank = "" if outcome.has_words or not outcome.changes else " (no words)"
    print(f"{word}{blank}: {fault.framework} {fault.algorithm} {fault.name}")
    for name, text in outcome.changes.items():
        print(f"    {name}: {text[:300]}")
    sys.stdout.flush()


def report(subject, outcomes):
    """Print the counts of some outcomes; return whether one was missed."""
    found = sum(bool(o.changes) for o in outcomes)
    named = sum(o.is_named for o in outcomes)
    wordless = sum(bool(o.changes) and not o.has_words for o in outcomes)
    shares = "".join(
        ", {} {:.0%} to {:.0%}".format(word, *compute_wilson_interval(count, len(outcomes)))
        for word, count in (("found", found), ("named", named))
        if outcomes
    )
    print(
        f"{subject}: {len(outcomes)} planted, {found} found, {named} named, "
        f"{wordless} without words{shares}"
    )
    return found < len(outcomes)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
