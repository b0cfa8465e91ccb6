"""Patches of code that JAX compiles."""

import dataclasses

import pytest

from parallax.harness.cli.main import dispatch_command
from parallax.harness.conformance.trainings import (
    make_base_hyperparameters,
    make_training_conditions,
    train_uncached,
)
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.probes.catalogue import PROBES
from parallax.harness.probes.experiments import AlignmentLevel, ExperimentCache
from parallax.harness.probes.probe import run_probe
from parallax.harness.probes.results import AGREES
from parallax.harness.record.reading import read_run

pytest.importorskip("sbx")


def train_dqn(**changes):
    base = make_base_hyperparameters("sbx", "dqn")
    patched = dataclasses.replace(base, **changes)
    around = make_training_conditions("dqn", steps=80, patch_constants=bool(changes))
    return train_uncached("sbx", "dqn", patched, around).digest


@pytest.mark.long
def test_compiled_code_is_patched_and_restored_afterwards():
    plain = train_dqn()
    # Two values of one constant: compiled code of the first must not be reused for the second.
    patched = {train_dqn(huber_delta=0.05), train_dqn(huber_delta=0.1)}
    assert len(patched | {plain}) == 3
    assert train_dqn() == plain


@pytest.mark.long
def test_the_last_evaluation_acts_with_patched_code(tmp_path):
    words = ["framework=sbx", "algorithm=dqn", "env=CartPole-v1", "hps=zoo", "alignment=exact"]
    words += ["hyperparameters.hidden_sizes=[16,8]", "hyperparameters.learning_starts=32"]
    words += ["steps=64", "eval_every=64", "eval_episodes=1", f"results_dir={tmp_path}"]
    assert dispatch_command(["train", *words]) == 0
    (folder,) = (file.parent for file in tmp_path.rglob("run.json"))
    assert read_run(folder).complete
    assert dispatch_command(["policy", "evaluate", str(folder)]) == 0


@pytest.mark.long
def test_probes_query_a_patched_network_after_training():
    probe = next(probe for probe in PROBES if probe.name == "dqn.dueling_head")
    for name in ("sbx", "sb3", "torchrl"):
        cache = ExperimentCache(load_adapter(name), level=AlignmentLevel("exact"))
        answer = run_probe(probe, {name: cache}).answers[name]
        assert answer.comparison.kind == AGREES and not answer.unmeasured
    greedy = next(probe for probe in PROBES if probe.name == "dqn.greedy_action")
    cache = ExperimentCache(load_adapter("sbx"), level=AlignmentLevel("exact"))
    assert not run_probe(greedy, {"sbx": cache}).answers["sbx"].unmeasured
