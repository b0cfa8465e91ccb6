"""Plants one-line faults of upstream's code, and reports what probes say about each.

`python -m tests.line_faults probe` plants all of `tests/plants/one_line_faults.yaml`, and
`python -m tests.line_faults probe SUBJECT_OR_NAME ...` some of them. Changed answers are written to
`tests/plants/one_line_faults.json`; `python -m tests.line_faults report` counts those of the file,
and `again` in place of `probe` measures only the probes that the file has for a fault.
A fault is *found* if an answer changes, and *named* if the words of a changed answer match the
pattern that the file has for it.

`python -m tests.line_faults causes GROUPS SEED` plants groups of four faults into a package,
and reports whether `parallax probe --causes` finds the line behind each changed answer.

`python -m tests.line_faults lockstep` trains each framework side by side with itself and a fault
that has a `first` in the file, and compares the first difference with that pattern.
"""

import dataclasses
import functools
import json
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import yaml

from parallax.analysis.stats.two_sample import compute_wilson_interval
from parallax.harness.cli.changed_code import find_causes, list_code_changes, write_without
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.interventions.catalogue import _parse_entry
from parallax.harness.interventions.source import describe_overlap, find_module_file, locate_segment
from parallax.harness.lockstep.comparison import LockstepOptions, LockstepSide, LockstepTrainings
from parallax.harness.probes import baseline, catalogue
from parallax.harness.probes.baseline import describe_change
from parallax.harness.probes.experiments import ExperimentCache
from parallax.harness.probes.probe import OTHER_FUNCTION
from parallax.harness.probes.runner import ProbeTargets, make_probe_target, run_probes
from parallax.harness.probes.worker import answer_probe

FILE = Path(__file__).parent / "plants" / "one_line_faults.yaml"
OUTCOMES = FILE.with_suffix(".json")
SEEN_BY_NONE: dict[str, str] = {
    "newest-transition-never-sampled": "skrl's default does not run that line",
    "epsilon-falls-below-its-end": "the probed schedule ends after half of the training",
    "noise-without-its-factor": "the factor of TorchRL's noise is 1 in the probed settings",
}
"""Faults that no probe can see, and why."""
STORED = Path(__file__).parents[1] / "docs" / "differences.json"
GROUP_SIZE = 4
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


def choose_groups(count, seed):
    """Return groups of four faults of one implementation with different lines, at random."""
    rng = np.random.default_rng(seed)
    found = load_outcomes()
    by_implementation = {}
    for fault in load_faults():
        package = (*load_adapter(fault.framework).import_names, "")[0]
        # Only faults of Python files of one package, each of which changes an answer alone.
        # TorchRL is compiled in part, and sbx takes minutes for each of a dozen measurements.
        is_inside = all(piece.module.partition(".")[0] == package for piece in fault.change.source)
        if is_inside and fault.framework not in ("torchrl", "sbx") and found.get(fault.name):
            by_implementation.setdefault((fault.framework, fault.algorithm), []).append(fault)
    pools = [faults for faults in by_implementation.values() if len(faults) >= GROUP_SIZE]
    groups = []
    while len(groups) < count:
        pool = pools[rng.integers(len(pools))]
        group = [pool[i] for i in rng.permutation(len(pool))[:GROUP_SIZE]]
        spots = [(fault.name, piece) for fault in group for piece in fault.change.source]
        if not describe_overlap(spots):
            groups.append(group)
    return groups


def write_faults(faults, package, folder):
    """Copy a package into a folder, with the lines of some faults, and return the copy."""
    write_without([], package, folder)
    edits = {}
    for spot in (locate_segment(piece) for fault in faults for piece in fault.change.source):
        edits.setdefault(spot.path.relative_to(package), []).append(spot)
    for file, spots in edits.items():
        text = (package / file).read_text()
        for spot in sorted(spots, key=lambda spot: -spot.start):
            text = text[: spot.start] + spot.replacement + text[spot.end :]
        (folder / package.name / file).write_text(text)
    return folder / package.name


def find_group_causes(group, folder):
    """Return the faults that are found behind each changed answer of a group, by probe."""
    framework, algorithm = group[0].framework, group[0].algorithm
    package = find_module_file(load_adapter(framework).import_names[0]).parent
    changed = write_faults(group, package, folder / "all")
    lines = {}  # the fault of each changed place, by its file and its line in the installed file
    for fault in group:
        alone = write_faults([fault], package, folder / fault.name)
        for change in list_code_changes(package, alone):
            lines |= {(change.file, block.old_start): fault.name for block in change.blocks}
    probes = [probe for probe in catalogue.PROBES if probe.algorithm == algorithm]

    def measure_folder(source, chosen=probes):
        target = make_probe_target(framework, label="x")
        target = dataclasses.replace(target, source=source, explains=False)
        return run_probes(chosen, ProbeTargets((target,)), lambda _: None)

    healthy = {r.probe: r.answers["x"] for r in measure_folder(None).results}
    answers = {
        result.probe: (healthy[result.probe], result.answers["x"])
        for result in measure_folder(folder / "all").results
        if describe_change(result, healthy[result.probe], result.answers["x"])
    }
    chosen = [probe for probe in probes if probe.name in answers]
    changes = list_code_changes(package, changed)
    measure = functools.partial(measure_folder, chosen=chosen)
    causes = find_causes(answers, changed, changes, measure)
    return {
        probe: {
            lines[change.file, block.old_start]
            for cause in of_answer
            for change in cause
            for block in change.blocks
        }
        for probe, of_answer in causes.items()
    }


def report_causes(count, seed):
    """Print which faults of groups are found behind changed answers, and whether they are right."""
    alone, counts = load_outcomes(), Counter()
    for group in choose_groups(count, seed):
        with tempfile.TemporaryDirectory() as folder:
            found = find_group_causes(group, Path(folder))
        names = {fault.name for fault in group}
        for probe, causes in found.items():
            able = {name for name in names if probe in alone[name]}
            counts["answers"] += 1
            # Faults may only matter together: then others than those that act alone are behind it.
            word = "others" if causes & able else "wrong" if causes else "none"
            word = "exact" if causes and causes <= able else word
            counts[word] += 1
            if word != "exact":
                print(f"  {word}: {probe}: {sorted(causes)}; alone: {sorted(able)}")
        located = set().union(*found.values())
        counts["faults"] += len(names)
        counts["located"] += len(located & names)
        print(f"{group[0].framework} {group[0].algorithm}: {sorted(names)}", flush=True)
        print(f"  not located: {sorted(names - located)}; {dict(counts)}", flush=True)


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
        case ["causes", count, seed]:
            report_causes(int(count), int(seed))
            sys.exit()
        case ["lockstep", *names]:
            locate_faults(names)
    report_outcomes()
