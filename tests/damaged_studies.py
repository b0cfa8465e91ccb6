"""Plants damaged runs among healthy ones, lets every command read them, and judges the answers."""

import collections
import dataclasses
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

from fuzz_oracle import Expectation, Template, expect, expect_healthy, read_json
from fuzzing import Damage, damage
from sweep_testbed import SweepTestbed

from parallax.harness.record.lock_owner import LockOwner

SCHEMA_1 = Path(__file__).with_name("data") / "schema_1" / "results"
SETTINGS = {
    "time": {"default": "24:00:00"},
    "sbatch": {},
    "setup": [],
    "mem_gb": 4.0,
    "cpus": 1,
    "partition": None,
    "account": None,
    "qos": None,
    "constraint": None,
    "python": None,
    "parallelism": 0,
    "runs_per_job": 1,
    "signal_seconds": 60,
    "timeout_restarts": 0,
    "preemption_restarts": 3,
}


@dataclasses.dataclass(frozen=True)
class Planted:
    """A copy of a template, damaged or not.

    Attributes:
        name: Its folder in the study.
        damage: What was done to it; None for a healthy one.
        expected: What readers must say of it.
    """

    name: str
    damage: Damage | None
    expected: Expectation

    @property
    def kind(self):
        return self.damage.kind if self.damage else "healthy"


@dataclasses.dataclass(frozen=True)
class Fault:
    """A wrong answer, or none.

    Attributes:
        kind: Kind of the damage that was read.
        reader: The command.
        what: What is wrong with its answer.
        example: The damage in words.
    """

    kind: str
    reader: str
    what: str
    example: str


# Templates


def make_templates(folder, seeds):
    """Runs of the current code, of schema 1, and one that seems to be running."""
    testbed = SweepTestbed(folder / "current")
    testbed.order("go")
    testbed.sweep("algorithm=ppo,td3", f"seed={','.join(map(str, range(seeds)))}")
    current = [path.parent for path in sorted(testbed.results.rglob("run.json"))]
    old = [path.parent for path in sorted(SCHEMA_1.rglob("run.json"))]
    templates = [Template(run, read_json(run / "run.json")["status"]) for run in (*current, *old)]
    return testbed, [*templates, make_lost(folder / "lost", old)]


def make_lost(folder, old):
    """A run whose process vanished: as `run.json`, heartbeat and lock then are."""
    source = next(run for run in old if "interrupted" in run.parts)
    run = folder.joinpath(*source.parts[-7:])
    shutil.copytree(source, run)
    content = read_json(run / "run.json") | {"status": "running", "failure": None}
    (run / "run.json").write_text(json.dumps(content, indent=2))
    beat = {"step": 220, "time": content["timings"]["started"] + 9, "period": 1.0}
    (run / "progress.json").write_text(json.dumps(beat))
    # Of this machine: the state of a remote process cannot be determined immediately.
    machine = LockOwner.of_this_process("").machine
    owner = {"token": "ab12", "host": "node1", "machine": machine, "pid": 1, "born": "2"}
    owner |= {"job": "", "restart": 0, "time": content["timings"]["started"]}
    (run / ".lease" / "ab12").mkdir(parents=True)
    (run / ".lease" / "ab12" / "owner.json").write_text(json.dumps(owner))
    return Template(run, "lost")


# Planting


def plant(top, templates, damaged, healthy, generator, kinds=None):
    """Fills `top/results` with damaged and healthy copies of templates."""
    planted, plans = [], {}
    shuffled = [True] * damaged + [False] * healthy
    generator.shuffle(shuffled)
    for number, is_damaged in enumerate(shuffled):
        name = f"{number:04}"
        # Mostly those that could be taken for complete.
        weights = [4 if template.complete else 1 for template in templates]
        template = generator.choices(templates, weights)[0]
        folder = (top / "results" / name).joinpath(*template.folder.parts[-7:])
        shutil.copytree(template.folder, folder, symlinks=True)
        if generator.random() < 0.5:
            write_record(folder)
        done, expected = None, expect_healthy(template)
        if is_damaged:
            others = [other.folder for other in templates if other is not template]
            done = damage(folder, generator, kinds, others)
            expected = expect(template, folder, done)
        planted.append(Planted(name, done, expected))
        spec = read_json(template.folder / "run.json")["spec"]
        if spec["framework"] == "standin":
            plans[name] = spec
    (top / "plans.json").write_text(json.dumps(plans))
    return planted


def write_record(folder):
    """Write the record of a submission to a cluster."""
    study = folder.parents[5]
    content = {
        "schema": 1,
        "name": f"{study.name}-ab12",
        "submitted": 1795299068.7,
        "job_id": "17",
        "elements": [[str(folder.relative_to(study))]],
        "settings": SETTINGS,
    }
    (study / "slurm").mkdir()
    (study / "slurm" / f"{content['name']}.json").write_text(json.dumps(content))


# Reading


def read_study(testbed, top, pages=False):
    """Answers of all readers to `top`, in order, and the last words of a reader that died."""
    environment = testbed.environment | {"PATH": "/nowhere"}  # no Slurm that could be waited for
    project, tests = Path(__file__).parents[1], Path(__file__).parent
    paths = [str(project), str(tests), environment["PYTHONPATH"]]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    command = [sys.executable, "-m", "fuzz_reader", str(top), *(["pages"] if pages else [])]
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=top
    )
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    died = f"{result.returncode}: {result.stderr.strip()[-300:]}" if result.returncode else ""
    if len(answers) < 7 * len(list((top / "results").iterdir())):
        died = died or "it ended early"
    return answers, died


# Judging


def judge(planted, answers, died):
    """Everything that is wrong with the answers, and which damage was noticed."""
    by_name = {one.name: one for one in planted}
    opinions = collections.defaultdict(dict)
    faults, noticed = [], set()
    for answer in answers:
        one = by_name.get(answer["name"])
        if one is None:
            faults += [Fault(*item) for item in judge_all(by_name, answer)]
            continue
        what = answer["fault"] or wrong_answer(one, answer)
        if what:
            faults.append(Fault(one.kind, answer["reader"], what, str(one.damage)))
        # A sweep looks where the run should be, others look where it has gone.
        elsewhere = answer["reader"] == "sweep" and one.kind in ("odd place", "seed")
        # A folder that is named is looked into, also where it is a link.
        elsewhere |= answer["reader"] == "rerun" and one.kind == "folder link"
        if (complete := says_complete(answer)) is not None and not elsewhere:
            opinions[one.name][answer["reader"]] = complete
        if one.damage and answer.get("named"):
            noticed.add(one.name)
    for name, said in opinions.items():
        one = by_name[name]
        if one.damage and not all(said.values()):
            noticed.add(name)
        if len(set(said.values())) > 1 and one.expected.complete is None:
            text = f"they disagree on completeness: {said}"
            faults.append(Fault(one.kind, "all", text, str(one.damage)))
    if died:
        last = by_name.get(answers[-1]["name"] if answers else "")
        kind = last.kind if last else "none"
        faults.append(Fault(kind, "process", f"died after that: {died}", str(last)))
    return faults, noticed


def judge_all(by_name, answer):
    """Faults of a command that read all runs together."""
    if answer["fault"]:
        yield "together", answer["reader"], answer["fault"], ""
    for name, one in by_name.items():
        mark = f"/results/{name}/"
        alone = dict(answer, fault="")
        if "states" in alone:
            alone["states"] = [item for item in answer["states"] if mark in item[0]]
        for key in ("named", "complete"):
            if key in alone:
                alone[key] = [item for item in answer[key] if mark in item]
        if answer["fault"] or answer["reader"] not in ("status", "validate", "analysis"):
            continue
        if answer["reader"] == "validate":
            alone["code"] = int(bool(alone["named"]))
        # A healthy run may be skipped for its copy, which is reported as complete.
        if what := wrong_answer(one, alone):
            yield one.kind, f"{answer['reader']} of all", what, str(one.damage)


def says_complete(answer):
    """Return whether a reader reports a run as complete; None if it does not report."""
    if answer["fault"]:
        return None
    if answer["reader"] == "status":
        return any(state == "completed" for _, state in answer["states"])
    if answer["reader"] == "rerun" and not answer.get("denied") and not answer.get("complete"):
        return None
    if answer["reader"] == "sweep" and "refused" in answer:
        return None
    return bool(answer["complete"]) if "complete" in answer else None


def wrong_answer(one, answer):
    """Describe the error in a reader's answer about one run; empty if there is none."""
    expected, complete = one.expected, says_complete(answer)
    if expected.complete is False and complete:
        return "takes it for complete"
    if expected.complete and complete is False:
        return "does not take it for complete"
    if answer["reader"] == "status" and expected.state:
        states = [state for _, state in answer["states"]]
        if states != [expected.state]:
            return f"calls it {states}, it is {expected.state}"
    if answer["reader"] == "validate":
        named = answer["code"] == 1
        if named != bool(answer["named"]) and answer["code"] != 2:
            return f"exit code {answer['code']}, named {answer['named']}"
        if expected.is_named is not None and named != expected.is_named and answer["code"] != 2:
            return "names damage where none is" if named else "names no damage"
    return ""


def check_studies(folder, total, size, seed, kinds=None, pages=0):
    """Plants `total` damaged runs in studies of `size` and reads them all.

    Args:
        folder: Scratch folder.
        total: Number of damaged runs.
        size: Damaged runs in each study; a quarter as many healthy ones are added.
        seed: Of the generator; the same seed damages in the same way.
        kinds: Kinds of damage; all if None.
        pages: Number of studies that figures and the report are drawn of too.

    Returns:
        All faults, and by kind the numbers of planted and of noticed damages.
    """
    generator = random.Random(seed)
    testbed, templates = make_templates(folder, seeds=3 if total > 100 else 1)
    faults, planted_of, found_of = [], collections.Counter(), collections.Counter()
    for number in range(-(-total // size)):
        top = folder / f"study-{number}"
        (top / "results").mkdir(parents=True)
        count = min(size, total - number * size)
        planted = plant(top, templates, count, max(count // 4, 4), generator, kinds)
        answers, died = read_study(testbed, top, pages=number < pages)
        found, noticed = judge(planted, answers, died)
        faults += found
        planted_of.update(one.kind for one in planted)
        found_of.update(one.kind for one in planted if one.name in noticed)
        shutil.rmtree(top, ignore_errors=True)
    return faults, {kind: (planted_of[kind], found_of[kind]) for kind in sorted(planted_of)}


def table(faults, counts):
    """Planted, noticed and wrongly answered damages by kind, and what went wrong most often."""
    wrong = collections.defaultdict(set)
    for fault in faults:
        wrong[fault.kind].add((fault.reader, fault.what, fault.example))
    lines = [f"{'kind':<14}{'planted':>8}{'noticed':>9}{'faults':>8}"]
    for kind, (planted, found) in counts.items():
        lines.append(f"{kind:<14}{planted:>8}{found:>9}{len(wrong[kind]):>8}")
    rest = set(wrong) - set(counts)
    lines += [f"{kind:<14}{'':>17}{len(wrong[kind]):>8}" for kind in sorted(rest)]
    frequent = collections.Counter((f.kind, f.reader, f.what.split(" (")[0]) for f in faults)
    examples = {(f.kind, f.reader, f.what.split(" (")[0]): f.example for f in faults}
    for key, count in frequent.most_common(60):
        lines.append(f"{count:>5} x {' | '.join(key)} | {examples[key]}")
    return "\n".join(lines)
