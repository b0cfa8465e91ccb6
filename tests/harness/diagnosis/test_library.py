"""A program of one's own, watched; the faulty ones are found, and nothing is changed."""

import gymnasium
import numpy as np
import pytest
import torch
from faulty_programs.dqn import FAULTS, train
from loops import iterate_some
from torch.optim import optimizer

from parallax.harness.contract.events import TrainingError
from parallax.harness.diagnosis.check import CheckResult, DiagnosisCheck
from parallax.harness.diagnosis.user_loop import Diagnosis

STEPS, PERIOD = 700, 40


@pytest.fixture(scope="module")
def healthy():
    lines = []
    return *train(steps=STEPS, period=PERIOD, say=lines.append), lines


def test_library_diagnosis_does_not_change_weights(healthy):
    _, weights, _ = healthy
    _, unwatched = train(steps=STEPS, watched=False)
    pairs = iterate_some(zip(weights, unwatched, strict=True))
    assert all(np.array_equal(a, b) for a, b in pairs)


def test_healthy_program_has_no_findings_of_faults(healthy):
    found, _, lines = healthy
    assert not set(FAULTS.values()) & set(found)
    assert not [finding for finding in found.values() if finding.level == "error"]
    assert not [line for line in lines if "not watched" in line or "failed" in line]


@pytest.mark.parametrize(
    "fault", ["target_acts", "target_never_updated", "ends_ignored", "weights"]
)
def test_a_fault_is_found(fault):
    found, _ = train(fault, steps=STEPS, period=PERIOD)
    assert FAULTS[fault] in found


def test_strict_mode_ends_the_program_and_removes_hooks():
    hooks, backward = optimizer._global_optimizer_post_hooks, torch.Tensor.backward
    with pytest.raises(TrainingError, match="wrong-targets"):
        train("ends_ignored", steps=STEPS, period=PERIOD, strict=True)
    assert not hooks and torch.Tensor.backward is backward


def broken(signals, threshold):
    raise ZeroDivisionError("of mine")


def seen(signals, threshold):
    return CheckResult("It is there.", 1.0)


def own(name, detect):
    words = ("causes", "remedies", "may be wrong")
    return DiagnosisCheck(
        name, "mine", "throughout", "warning", ("return",), 0.0, "own", detect, *words
    )


def test_failing_check_is_reported_once_and_others_continue():
    lines = []
    diagnosis = Diagnosis(
        steps=600, extra_checks=[own("broken", broken), own("seen", seen)], say=lines.append
    )
    env = diagnosis.wrap(gymnasium.make("CartPole-v1"))
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(600):
        if any(env.step(int(rng.integers(2)))[2:4]):
            env.reset()
    found = {finding.check.id: finding for finding in diagnosis.finish()}
    assert found["seen"].count > 1
    assert len([line for line in lines if "of mine" in line]) == 1
    assert len([line for line in lines if "It is there" in line]) == 1
    assert diagnosis.report()["problems"]
