"""Every declared patch has a case in the conformance suite: a value that needs it, and is taken."""

import dataclasses

import pytest

from parallax.harness.conformance.hyperparameters import list_patch_cases
from parallax.harness.conformance.patches import find_patch_probe
from parallax.harness.contract.adapter_discovery import find_adapter_entry_points, load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS

PATCHES = [
    pytest.param(framework, algorithm, field, id=f"{framework}-{algorithm}-{field}")
    for framework in sorted(find_adapter_entry_points())
    for algorithm in ALGORITHMS
    for field in sorted(load_adapter(framework).list_patchable_fields(algorithm))
]
# Nothing needs them in a plain training: tests/harness/train/test_ppo_images.py, and
# tests/adapters/tianshou/test_replay.py for the loss of prioritized replay.
NEED_MORE = {
    ("cleanrl", "ppo", "conv_filters"): "needs images",
    ("tianshou", "dqn", "huber_delta"): "needs prioritized replay",
}


@pytest.mark.parametrize(("framework", "algorithm", "field"), PATCHES)
def test_every_patch_has_a_case(framework, algorithm, field):
    if reason := NEED_MORE.get((framework, algorithm, field)):
        pytest.skip(reason)
    cases = list_patch_cases(framework, algorithm)
    changed = [case for case in cases if case.field == field and case.is_patched]
    assert changed, f"no value of the conformance suite needs the patch of {field}"
    for case in changed:
        assert dataclasses.asdict(case.hyperparameters)[field] == case.value


# Probes see no images, and no sizes of DQN's networks: weights and counts alone prove these.
UNMEASURED = {
    ("cleanrl", "ppo", "conv_filters"),
    ("cleanrl", "dqn", "hidden_sizes"),
    ("sbx", "dqn", "hidden_sizes"),
}


@pytest.mark.parametrize(("framework", "algorithm", "field"), PATCHES)
def test_every_patch_has_a_probe(framework, algorithm, field):
    measured = find_patch_probe(algorithm, field) is not None
    assert measured == ((framework, algorithm, field) not in UNMEASURED)
