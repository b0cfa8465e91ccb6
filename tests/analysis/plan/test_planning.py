"""Plans of further seeds, carried through to the runs that the harness would make."""

import collections
import csv
import dataclasses
import hashlib
import itertools
import json
import math
import os
import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import support
from hydra import compose, initialize_config_module
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser

from parallax.analysis.data.load import load_runs
from parallax.analysis.labels import format_number
from parallax.analysis.plan.planning import plan_seeds
from parallax.analysis.stats import effect_size_and_power as effects
from parallax.analysis.stats.moments import compute_moments
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.study import judge_runs
from parallax.harness.cli.hydra_app import register_config_groups, spec_from_config
from parallax.harness.cli.main import main
from parallax.harness.cli.plan import SeedSweep, format_script, make_sweeps
from parallax.harness.contract.run_spec import spec_to_dict

SCORES = {  # by framework: mean and deviation over seeds
    "sb3": (1000.0, 150.0),
    "cleanrl": (1200.0, 150.0),
    "torchrl": (1005.0, 5.0),
}


@pytest.fixture(scope="module", autouse=True)
def groups():
    register_config_groups()


def make_spec(*overrides):
    with initialize_config_module("parallax.harness.conf", version_base="1.3"):
        spec, results = spec_from_config(compose("config", list(overrides)))
    return spec, results


def write_runs(results, seeds=range(5), frameworks=SCORES, status="completed", **changes):
    """Runs of half an hour, with scores that are spread evenly around each framework's mean."""
    for framework in frameworks:
        mean, sd = SCORES[framework]
        for seed in seeds:
            values = {"study": "mine", "hps": "original", **changes}
            spec = support.spec(framework=framework, seed=seed, **values)
            record = {
                "schema": 1,
                "status": status,
                "spec": json.loads(json.dumps(spec_to_dict(spec))),
                "steps": {"scheduled": spec.steps},
                "timings": {"seconds": 1800.0},
            }
            folder = spec.folder(results)
            folder.mkdir(parents=True)
            (folder / "run.json").write_text(json.dumps(record))
            score = mean + sd * (seed % 5 - 2) / math.sqrt(2.5)
            every = np.r_[spec.eval_every : spec.steps : spec.eval_every, spec.steps]
            np.savez(
                folder / "evaluations.npz",
                timesteps=every,
                results=np.full((len(every), 2), score, dtype=np.float32),
                ep_lengths=np.ones((len(every), 2), dtype=np.int32),
            )


def planned_specs(text):
    """Return every run of the script's command lines, parsed by the harness."""
    found = []
    for line in text.splitlines():
        if not line.startswith("${PYTHON:-python} -P -m parallax train"):
            continue
        words = shlex.split(line.split(' "$@"')[0])
        overrides = OverridesParser.create().parse_overrides(words[words.index("--multirun") + 1 :])
        for jobs in BasicSweeper.split_arguments(overrides, None):
            seeds = collections.defaultdict(list)
            for job in jobs:
                (seed,) = (word for word in job if word.startswith("seed="))
                seeds[tuple(word for word in job if word != seed)].append(int(seed[5:]))
            for job, numbers in seeds.items():
                spec, place = make_spec(*job)
                found += [(dataclasses.replace(spec, seed=seed), place) for seed in numbers]
    return found


def plan(results, *arguments):
    assert main(["study", "plan", str(results), *map(str, arguments)]) == 0
    return (results / "analysis" / "plan.sh").read_text()


def test_sweep_has_exactly_the_missing_seeds(results, capsys):
    write_runs(results)
    verdicts = judge_runs(load_runs(results), VerdictOptions()).consistency
    open_pairs = [item for item in verdicts if item.verdict == "inconclusive"]
    assert open_pairs
    wanted = {}
    for item in open_pairs:
        for group in (item.first, item.second):
            size = max(item.seeds_needed, wanted.get(group.framework, 0))
            wanted[group.framework] = size
    expected = {(name, seed) for name, size in wanted.items() for seed in range(5, int(size))}
    found = planned_specs(plan(results, "--max-seeds", "100"))
    assert {(spec.framework, spec.seed) for spec, _ in found} == expected
    assert len(found) == len(expected)
    hours = 0.5 * len(expected)
    assert f"Runs to make: {len(expected)}, 0 of them" in (output := capsys.readouterr().out)
    assert f"Cost: {format_number(hours)} core-hours" in output
    assert "over the 80% ranges below, with at most 100 seeds" in output


def test_planned_runs_have_the_folder_of_existing_settings(results):
    write_runs(
        results,
        frameworks=("sb3", "cleanrl"),
        algorithm="td3",
        hps="cleanrl",
        env="Hopper-v4",
        alignment="exact",
        steps=5000,
        eval_every=500,
        evaluation_seed=3,
        hyperparameters={"gamma": 0.98, "hidden_sizes": [64, 64]},
    )
    found = planned_specs(plan(results, "--max-seeds", "100"))
    assert found
    there = {run.path.parent for run in load_runs(results).runs}
    for spec, place in found:
        assert spec.folder(place).parent in there
        assert not spec.folder(place).exists()


def test_incomplete_runs_are_planned_again_and_counted(results, capsys):
    write_runs(results)
    folder = next(results.rglob("cleanrl/*/seed=3"))
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**record, "status": "failed", "failure": "x"}))
    found = planned_specs(plan(results, "--max-seeds", "100"))
    assert ("cleanrl", 3) in {(spec.framework, spec.seed) for spec, _ in found}
    output = capsys.readouterr().out
    assert "1 of them begun before and not complete" in output
    assert "1 of these failed" in output
    replaced = planned_specs(plan(results, "--max-seeds", "100", "--replace-failed"))
    assert len(replaced) == len(found)
    assert ("cleanrl", 3) not in {(spec.framework, spec.seed) for spec, _ in replaced}


def test_framework_without_complete_runs_gets_as_many_seeds_as_others(results, capsys):
    write_runs(results, frameworks=("sb3", "torchrl"))
    write_runs(results, seeds=(0,), frameworks=("cleanrl",), status="pending")
    found = planned_specs(plan(results, "--max-seeds", "5"))
    assert {spec.seed for spec, _ in found if spec.framework == "cleanrl"} == set(range(5))
    assert "Cost of 5 runs unknown" in capsys.readouterr().out


def test_pairs_that_need_too_many_seeds_are_counted_and_not_planned(results, capsys):
    write_runs(results)
    assert planned_specs(plan(results, "--max-seeds", "100"))
    assert planned_specs(plan(results, "--max-seeds", "5")) == []
    output = capsys.readouterr().out
    assert "Pairs of frameworks: 0 decided, 0 to go on with, 3 would need more than 5" in output
    assert "Nothing to run." in output


def test_tasks_and_recipes_are_merged_into_few_commands(results):
    for env in ("Hopper-v4", "Walker2d-v4"):
        for hps in ("sb3", "original"):
            write_runs(results, env=env, hps=hps)
    loaded = load_runs(results)
    needs = plan_seeds(judge_runs(loaded, VerdictOptions()).consistency, loaded, 1000, 5).needs
    sweeps = make_sweeps(needs, loaded)
    assert len(needs) == 12
    assert len(sweeps) < 12
    products = [
        (env, hps, framework, seed)
        for item in sweeps
        for env in item.envs
        for hps in item.hps
        for framework in item.frameworks
        for seed in item.seeds
    ]
    wanted = [
        (need.cell.env, need.cell.hps, need.framework, seed)
        for need in needs
        for seed in need.seeds
    ]
    assert sorted(products) == sorted(wanted)


def test_script_passes_arguments_and_continues_after_a_failure(results, tmp_path):
    write_runs(results)
    script = results / "analysis" / "plan.sh"
    plan(results, "--max-seeds", "100")
    fake = tmp_path / "python"
    fake.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nexit 3\n')
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    environment = {**os.environ, "PYTHON": str(fake)}
    done = subprocess.run(["sh", str(script), "a=1", "b=x y"], env=environment, check=False)
    assert done.returncode == 3
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == script.read_text().count("-m parallax train --multirun")
    assert all(call.endswith("a=1 b=x y") for call in calls)


def test_plan_script_starts_an_accepted_command(results, tmp_path):
    """The real program, up to its own check of the values."""
    write_runs(results, frameworks=("sb3", "cleanrl"))
    plan(results, "--max-seeds", "100")
    script = results / "analysis" / "plan.sh"
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(Path.cwd())}
    done = subprocess.run(
        ["sh", str(script), "steps=0"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "steps=0 must be at least 1" in done.stderr


def test_imported_runs_cannot_be_planned(tmp_path, capsys):
    rng = np.random.default_rng(0)
    for i in (1, 2):
        folder = tmp_path / "logs" / "ppo" / f"Hopper-v4_{i}"
        folder.mkdir(parents=True)
        np.savez(
            folder / "evaluations.npz",
            timesteps=np.array([10, 20]),
            results=rng.normal(size=(2, 3)),
            ep_lengths=np.ones((2, 3), int),
        )
    words = ["--pattern", "{algorithm}/{env}_{seed}", "--results-dir", str(tmp_path)]
    assert main(["import", str(tmp_path / "logs"), "--study", "study", *words]) == 0
    for words in ([], ["--sequential"]):
        assert main(["study", "plan", str(tmp_path / "study"), *words]) == 2
        assert "no setting has complete runs of two frameworks" in capsys.readouterr().err
    assert not (tmp_path / "study/analysis").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-seeds", "1"], "--batch=5 and --max-seeds=1"),
        (["--sequential", "--max-seeds", "12"], "batch=5 and max_seeds=12 do not fit"),
        (["--sequential", "--batch", "1"], "a multiple of it as max_seeds"),
    ],
)
def test_bad_sizes_are_one_message(results, make_run, capsys, arguments, message):
    make_run()
    assert main(["study", "plan", str(results), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_sequential_plans_the_next_batch_only(results, capsys):
    write_runs(results, frameworks=("sb3", "cleanrl"))
    found = planned_specs(plan(results, "--sequential", "--batch", "5", "--max-seeds", "30"))
    assert {(spec.framework, spec.seed) for spec, _ in found} == {
        (name, seed) for name in ("sb3", "cleanrl") for seed in range(5, 10)
    }
    assert "Checks after every 5 seeds, 30 at most" in capsys.readouterr().out
    with (results / "analysis" / "stopping.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["verdict"], row["checks"], row["next_check"]) == ("inconclusive", "5", "10")


def test_a_setting_without_any_complete_run_breaks_nothing(results, capsys):
    write_runs(results, frameworks=("sb3", "cleanrl"))
    write_runs(results, frameworks=("sb3", "cleanrl"), env="Hopper-v4", status="pending")
    for arguments in ((), ("--sequential",)):
        found = planned_specs(plan(results, "--max-seeds", "100", *arguments))
        assert {spec.env for spec, _ in found} == {"InvertedPendulum-v4"}


def test_plan_states_uncertainty_and_variants_and_plans_rankings(results, make_run, capsys):
    rng = np.random.default_rng(0)
    for framework, algorithm in itertools.product(("sb3", "cleanrl"), ("ppo", "td3")):
        for seed in range(5):
            score = 400 + 150 * (algorithm == "td3") + rng.normal(0, 200)
            make_run(
                env="InvertedPendulum-v4",
                framework=framework,
                algorithm=algorithm,
                seed=seed,
                score=score,
                variant="steps=20000",
            )
    plan(results, "--max-seeds", "1000")
    said = capsys.readouterr().out
    assert "ppo, original, steps=20000,alignment=common, sb3: " in said
    assert re.search(r"in total \d+ to \S+ \(80% range; \d+ by the measured", said)
    assert "Pairs of rankings: 1 to go on with" in said
    assert "Holm's correction" in said


def write_inconclusive_runs(make_run, **spec):
    for framework, score in (("sb3", 100.0), ("cleanrl", 104.0)):
        for seed in range(5):
            make_run(framework=framework, seed=seed, score=score + 20 * seed, **spec)


NAMED_CODE = {"python": "/tmp/evil.sh", "env_wrappers": ["evil:Wrap"], "env_kwargs": {"a": "/b"}}


@pytest.mark.parametrize("name", NAMED_CODE)
def test_a_plan_with_code_that_runs_name_needs_trust(results, make_run, capsys, name):
    write_inconclusive_runs(make_run, **{name: NAMED_CODE[name]})
    command = ["study", "plan", str(results), "--max-seeds", "1000"]
    assert main(command) == 2
    assert "names what would run as you" in (error := capsys.readouterr().err)
    assert "--trust" in error
    assert not (results / "analysis" / "plan.sh").exists()
    assert main([*command, "--trust"]) == 0


UNKNOWN_SETTINGS = [
    ("+hydra.callbacks.evil", {"+hydra.callbacks.evil": {"_target_": "logging.FileHandler"}}),
    ("--config-dir", {"--config-dir": "evil"}),
    ("+x", {"env_kwargs": {"+x": 1}}),
    ("a.b", {"overridden": ["a.b"], "hyperparameters": {"a.b": 1}}),
]


@pytest.mark.parametrize(("name", "spec"), UNKNOWN_SETTINGS)
def test_unknown_settings_of_runs_are_no_words_of_a_plan(results, make_run, capsys, name, spec):
    write_inconclusive_runs(make_run, **spec)
    assert main(["study", "plan", str(results), "--max-seeds", "1000"]) == 2
    assert f"settings that this version does not know: {name}." in capsys.readouterr().err
    assert not (results / "analysis" / "plan.sh").exists()


def test_a_plan_imports_nothing_from_the_current_folder(results, make_run, tmp_path):
    write_inconclusive_runs(make_run)
    plan(results, "--max-seeds", "1000")
    package = tmp_path / "here" / "parallax"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("open('ran', 'w')\n")
    environment = {"PATH": os.environ["PATH"], "PYTHON": sys.executable}
    subprocess.run(
        ["sh", str(results / "analysis" / "plan.sh"), "--help"],
        cwd=package.parent,
        env=environment,
        check=False,
        capture_output=True,
    )
    assert not (package.parent / "ran").exists()


def test_estimated_seeds_suffice_for_a_significant_permutation_test():
    one = np.array([1.0])
    needed = effects.estimate_seeds_needed(100 * one, (one, one), 0.05 * one, 0.01 * one)
    assert needed == 4
    assert 2 / math.comb(8, 4) < 0.05 < 2 / math.comb(6, 3)


def test_range_of_seeds_needed_covers_the_true_number():
    rng, inside = np.random.default_rng(0), 0
    one = np.ones(1)
    true = float(effects.estimate_seeds_needed(2 * one, (one, one), 0.05 * one, 0.01 * one)[0])
    for _ in range(40):
        first, second = rng.normal(2, 1, 5), rng.normal(0, 1, 5)
        low, high = effects.estimate_seed_range(
            (compute_moments(first), compute_moments(second)), 0.05, 0.01, rng
        )
        inside += low <= true <= high
    assert inside / 40 > 0.65
    same = compute_moments(np.full(5, 2.0))
    assert np.isnan(effects.estimate_seed_range((same, same), 0.05, 0.1, rng)).all()


@pytest.mark.parametrize("state", ["same", "edited", "missing"])
def test_an_own_script_that_was_edited_is_not_trained_and_named(tmp_path, state):
    script = tmp_path / "mine.py"
    script.write_text("print(1)\n")
    digest = hashlib.sha256(script.read_bytes()).hexdigest()[:8]
    sweep = SeedSweep(
        (), ("ppo",), ("original",), ("A-v0",), ("cleanrl",), (3,), ("mine.py", digest)
    )
    (tmp_path / "plan.sh").write_text(format_script([sweep], "remark"))
    if state == "edited":
        script.write_text("print(2)\n")
    elif state == "missing":
        script.unlink()
    done = subprocess.run(
        ["sh", "plan.sh"],
        cwd=tmp_path,
        env={**os.environ, "PYTHON": "echo"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (0 if state == "same" else 2)
    assert ("-m parallax train" in done.stdout) == (state == "same")
    sentence = f"{tmp_path}/mine.py is not the script of these runs"
    assert (sentence in done.stderr) == (state != "same")


def test_rankings_of_runs_that_cannot_be_repeated_are_not_planned(results, make_run, capsys):
    rng = np.random.default_rng(0)
    for framework, algorithm in itertools.product(("sb3", "cleanrl"), ("ppo", "td3")):
        for seed in range(5):
            score = 400 + 150 * (algorithm == "td3") + rng.normal(0, 200)
            names = {"framework": framework, "algorithm": algorithm, "seed": seed}
            path = make_run(env="InvertedPendulum-v4", score=score, **names) / "run.json"
            record = json.loads(path.read_text())
            record["spec"].pop("overridden", None)
            record.pop("checksum", None)
            record["imported"] = {
                **{"source": "table.csv", "files": {}, "format": "table", "stated_by": {}},
                **{"returns": "evaluation", "are_means": False, "unknown": []},
            }
            path.write_text(json.dumps(record))
    plan(results, "--max-seeds", "1000")
    said = capsys.readouterr().out
    assert "Pairs of rankings: 1" not in said and "cannot be repeated" in said
