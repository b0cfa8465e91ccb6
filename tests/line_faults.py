"""Plants one-line faults of upstream's code, and reports what probes say about each.

`python -m tests.line_faults probe` plants all of `tests/plants/one_line_faults.yaml`, and
`python -m tests.line_faults probe SUBJECT_OR_NAME ...` some of them. Changed answers are written to
`tests/plants/one_line_faults.json`; `python -m tests.line_faults report` counts those of the file,
and `again` in place of `probe` measures only the probes that the file has for a fault.
A fault is *found* if an answer changes, and *named* if the words of a changed answer match the
pattern that the file has for it.

`python -m tests.line_faults lockstep` trains each framework side by side with itself and a fault
that has a `first` in the file, and compares the first difference with that pattern.
"""

import dataclasses
import functools
import json
import re
import sys
from pathlib import Path

import yaml

from parallax.analysis.stats.two_sample import compute_wilson_interval
from parallax.harness.contract.adapter import load_adapter
from parallax.harness.interventions.catalogue import _parse_entry
from parallax.harness.lockstep.comparison import LockstepOptions, LockstepSide, LockstepTrainings
from parallax.harness.probes import baseline, catalogue
from parallax.harness.probes.baseline import describe_change
from parallax.harness.probes.experiments import ExperimentCache
from parallax.harness.probes.probe import OTHER_FUNCTION
from parallax.harness.probes.worker import answer_probe

FILE = Path(__file__).parent / "plants" / "one_line_faults.yaml"
OUTCOMES = FILE.with_suffix(".json")
SEEN_BY_NONE: dict[str, str] = {
    "only-part-of-memory-sampled": "skrl's TD3 is probed with one environment",
    "newest-transition-never-sampled": "skrl's default does not run that line",
    "epsilon-falls-below-its-end": "the probed schedule ends after half of the training",
    "noise-without-its-factor": "the factor of TorchRL's noise is 1 in the probed settings",
}
"""Faults that no probe can see, and why."""
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
        first: Pattern of the first difference in lockstep training; empty if none is expected.
        change: The intervention.
    """

    name: str
    framework: str
    subject: str
    says: str
    first: str
    change: object

    @property
    def algorithm(self):
        return self.change.algorithms[0]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Changed answers of probes to a fault, by probe."""

    fault: LineFault
    changes: dict

    @property
    def is_named(self):
        lines = (f"{probe}: {words}" for probe, words in self.changes.items())
        return any(re.search(self.fault.says, line) for line in lines)

    @property
    def has_words(self):
        """Return whether a changed answer is more than "another function" or raw numbers."""
        words = (text.partition("; is ")[2] or text for text in self.changes.values())
        return any(OTHER_FUNCTION not in w and not RAW_NUMBERS.search(w) for w in words)


def load_faults():
    """Return all faults of the file."""
    faults = []
    for name, entry in yaml.safe_load(FILE.read_text()).items():
        own = {key: entry.pop(key, "") for key in ("framework", "subject", "says", "first")}
        adapter = load_adapter(own["framework"])
        change = _parse_entry(name, entry, FILE, adapter.name, adapter.upstream_modules)
        faults.append(LineFault(name=name, change=change, **own))
    return faults


def load_outcomes():
    """Return the changed answers of all faults that were planted, by name and probe."""
    content = json.loads(OUTCOMES.read_text()) if OUTCOMES.exists() else {}
    return {name: {p: text for p, text in each.items() if text} for name, each in content.items()}


def measure(framework, algorithm, changes=(), names=None):
    """Return the results of all or of named probes of one implementation, by name."""
    cache = ExperimentCache(load_adapter(framework), 0, list(changes))
    probes = [probe for probe in catalogue.PROBES if probe.algorithm == algorithm]
    chosen = [probe for probe in probes if names is None or probe.name in names]
    return {probe.name: answer_probe(probe, cache) for probe in chosen}


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


def find_changes(fault, names=None):
    """Return the outcome of one fault, by all probes or by some."""
    before = measure_healthy(fault.framework, fault.algorithm)
    after = measure(fault.framework, fault.algorithm, (fault.change,), names)
    changes = {}
    for name, result in after.items():
        pair = [found[name].answers[fault.framework] for found in (before, after)]
        if lines := describe_change(result, *pair):
            changes[name] = lines[0]
    return Outcome(fault, changes)


def find_first_difference(fault):
    """Return the first difference between a framework and itself with a fault, in words."""
    sides = LockstepSide(fault.framework), LockstepSide(fault.framework, (fault.change,))
    trainings = LockstepTrainings(sides, fault.algorithm, LockstepOptions())
    try:
        variant, point = trainings.find_difference_in_variants(0, 1)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        return f"the training stops with {error!r}"
    return f"{point} ({variant})" if point else "no difference"


def locate_faults(names):
    """Print the first difference that each fault makes in lockstep training."""
    faults = [f for f in load_faults() if f.first and (not names or f.name in names)]
    located = 0
    for fault in faults:
        place = find_first_difference(fault)
        right = bool(re.search(fault.first, place))
        located += right
        word = "located" if right else "ELSEWHERE"
        print(f"{word}: {fault.framework} {fault.algorithm} {fault.name}: {place}", flush=True)
    print(f"{located} of {len(faults)} located")


def plant_faults(names, again=False):
    """Plant faults, print each with its changed answers, and write these to the file.

    Args:
        names: Faults or classes of faults; empty for all.
        again: Whether to measure only the probes whose answers changed before.
    """
    known = load_faults()
    order, changes = [fault.name for fault in known], load_outcomes()
    for name in names or order:
        for fault in (f for f in known if name in (f.name, f.subject)):
            outcome = find_changes(fault, changes.get(fault.name) if again else None)
            changes[fault.name] = outcome.changes
            show(outcome)
            ordered = {name: changes[name] for name in order if name in changes}
            OUTCOMES.write_text(json.dumps(ordered, indent=1) + "\n")


def report_outcomes():
    """Print the counts of the file by subject."""
    known, changes = load_faults(), load_outcomes()
    outcomes = [Outcome(f, changes[f.name]) for f in known if f.name in changes]
    for outcome in outcomes:
        show(outcome, with_answers=False)
    for subject in dict.fromkeys(fault.subject for fault in known):
        report(subject, [o for o in outcomes if o.fault.subject == subject])
    report("together", outcomes)


def show(outcome, with_answers=True):
    """Print a fault and the answers that it changes."""
    fault = outcome.fault
    word = "named" if outcome.is_named else "found" if outcome.changes else "MISSED"
    blank = "" if outcome.has_words or not outcome.changes else " (no words)"
    print(f"{word}{blank}: {fault.framework} {fault.algorithm} {fault.name}")
    for name, text in outcome.changes.items() if with_answers else ():
        print(f"    {name}: {text[:300]}")
    sys.stdout.flush()


def report(subject, outcomes):
    """Print the counts of some outcomes."""
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


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["probe", *names]:
            plant_faults(names)
        case ["again", *names]:
            plant_faults(names, again=True)
        case ["lockstep", *names]:
            locate_faults(names)
    report_outcomes()
