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
    patched = {
        train_dqn(huber_delta=0.05),
        train_dqn(huber_delta=0.1),
        train_dqn(hidden_sizes=(8, 6, 4), dueling=True),
    }
    assert len(patched | {plain}) == 4
    assert train_dqn() == plain
