"""A run takes the steps and makes the updates that it announces."""

import dataclasses

import numpy as np

from harness.conformance.trainings import (
    base_hyperparameters,
    observe,
    train,
    translate,
    with_value,
)
from harness.contract.adapter import Native
from harness.contract.algorithms import Cadence, Hyperparameters, OffPolicy
from harness.contract.fields import SpecError


class CadenceConformance:
    """Counts from outside are the counts announced, and those are what the schema defines."""

    framework: str

    def test_steps_taken_are_the_steps_reported(self, algorithm: str) -> None:
        """For several budgets the environment is stepped `native.total_steps` times."""
        base = base_hyperparameters(self.framework, algorithm)
        for steps in (128, 130, 191):
            trained = train(self.framework, algorithm, base, steps=steps)
            assert trained.steps == trained.scheduled, f"asked for {steps}"

    def test_steps_of_all_copies_are_counted(self, algorithm: str) -> None:
        """With two environments too; or `n_envs` is refused by name."""
        base = base_hyperparameters(self.framework, algorithm)
        try:
            trained = train(self.framework, algorithm, base, steps=128, n_envs=2)
        except SpecError as error:
            assert "n_envs=2" in str(error) and self.framework in str(error)
            return
        taken, announced = trained.steps, trained.scheduled
        assert taken == announced, f"{announced} transitions announced, {taken} taken"
        distinct = len(np.unique(trained.starts, axis=0))
        assert distinct == 2, "both copies start with the same random state"
        asked_or_rounded_up = 128 <= taken < 256
        assert asked_or_rounded_up, f"128 transitions asked for, {taken} taken"

    def test_updates_are_as_many_as_announced(self, algorithm: str) -> None:
        """Random steps, and gradient steps and target updates, counted from outside."""
        for field, hp in _variants(self.framework, algorithm):
            announced = translate(self.framework, algorithm, hp).cadence
            counted = observe(self.framework, algorithm, hp).cadence
            assert counted == announced, f"with {field or 'the base hyperparameters'}"

    def test_what_is_announced_is_what_the_schema_defines(self, algorithm: str) -> None:
        """But for a step or two that a framework is off, which it declares.

        Targets may move at every step of the critics where the policy learns at some only, if the
        note on `policy_delay` says so.
        """
        for _, hp in _variants(self.framework, algorithm):
            native = translate(self.framework, algorithm, hp)
            defined = hp.cadence(native.total_steps)
            for name, most in _tolerances(hp, defined).items():
                off = getattr(native.cadence, name) - getattr(defined, name)
                if name == "target_updates" and _moves_targets_at_every_step(native):
                    off = native.cadence.target_updates - native.cadence.gradient_steps
                assert abs(off) <= most, f"{name}: off by {off}"


def _moves_targets_at_every_step(native: Native) -> bool:
    notes = [row.note for row in native.alignment if row.field == "policy_delay"]
    return any("targets move at each step" in note for note in notes)


def _variants(framework: str, algorithm: str) -> list[tuple[str, Hyperparameters]]:
    """The base hyperparameters, and each that is a count changed where it can be."""
    base = base_hyperparameters(framework, algorithm)
    variants = [("", base)]
    for field, value in (
        ("epochs", 2),
        ("minibatch_size", 24),
        ("learning_starts", 33),
        ("policy_delay", 3),
        ("target_update_interval", 2),
        ("gradient_steps_per_round", 4),
        ("env_steps_per_round", 4),
    ):
        changed = with_value(framework, algorithm, base, field, value)
        if changed is not None and changed != base:
            variants.append((f"{field}={value}", changed))
    return variants


def _tolerances(hp: Hyperparameters, defined: Cadence) -> dict[str, float]:
    if not isinstance(hp, OffPolicy):
        return dict.fromkeys((field.name for field in dataclasses.fields(Cadence)), 0)
    rounds = 2 * hp.gradient_steps_per_round
    # Some explore along their schedule from the first step on.
    random_steps = hp.learning_starts if hp.actions == "discrete" else hp.env_steps_per_round
    return {
        "random_steps": random_steps,
        "first_update": 2 * hp.env_steps_per_round,
        "gradient_steps": rounds,
        # A framework may make up for a delay with as many steps at once.
        "policy_updates": rounds
        + defined.policy_updates * (getattr(hp, "policy_delay", 1) - 1)
        + 1,
        "target_updates": rounds + 1,
    }
