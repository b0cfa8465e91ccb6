"""Patches of code that JAX compiles."""

import dataclasses

import pytest

from parallax.harness.conformance.trainings import (
    make_base_hyperparameters,
    make_training_conditions,
    train_uncached,
)

pytest.importorskip("sbx")


def train_dqn(**changes):
    base = make_base_hyperparameters("sbx", "dqn")
    patched = dataclasses.replace(base, **changes)
    around = make_training_conditions("dqn", steps=80, patch_constants=bool(changes))
    return train_uncached("sbx", "dqn", patched, around).digest


def test_compiled_code_is_patched_and_upstreams_own_afterwards():
    plain = train_dqn()
    # Two values of one constant: compiled code of the first must not stand for the second.
    patched = {train_dqn(huber_delta=0.05), train_dqn(huber_delta=0.1)}
    assert len(patched | {plain}) == 3
    assert train_dqn() == plain
