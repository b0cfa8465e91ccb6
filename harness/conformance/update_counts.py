"""Tests that a run takes the steps and makes the updates that it announces."""

import dataclasses

import numpy as np
import pytest

from parallax.harness.conformance.run_folders import prepare_scripted_run
from parallax.harness.conformance.trainings import (
    STEPS,
    make_base_hyperparameters,
    observe_run,
    observe_training,
    replace_hyperparameter,
    train_algorithm,
    translate_hyperparameters,
)
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.algorithms.base import Hyperparameters, OffPolicy, UpdateSchedule
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import NO_INTERVENTION
from parallax.harness.contract.translation import NativeConfig
from parallax.harness.interventions.catalogue import list_interventions, list_reference_form


class UpdateCountConformance:
    """Tests that observed counts equal announced counts, and these equal the schema's."""

    framework: str

    def test_steps_taken_are_the_steps_reported(self, algorithm: str) -> None:
        """For several budgets, the environment takes `native.total_steps` steps."""
        base = make_base_hyperparameters(self.framework, algorithm)
        for steps in (128, 130, 191):
            trained = train_algorithm(self.framework, algorithm, base, steps=steps)
            assert trained.steps == trained.scheduled, f"{steps} were requested"

    def test_steps_of_all_copies_are_counted(self, algorithm: str) -> None:
        """Steps of two parallel environments are all counted, or `n_envs` is refused by name."""
        base = make_base_hyperparameters(self.framework, algorithm)
        try:
            trained = train_algorithm(self.framework, algorithm, base, steps=128, n_envs=2)
        except SpecError as error:
            assert "n_envs=2" in str(error) and self.framework in str(error)
            return
        taken, announced = trained.steps, trained.scheduled
        assert taken == announced, f"{announced} transitions announced, {taken} taken"
        distinct = len(np.unique(trained.starts, axis=0))
        assert distinct == 2, "both copies start with the same random state"
        requested_or_rounded_up = 128 <= taken < 256
        assert requested_or_rounded_up, f"128 transitions requested, {taken} taken"

    def test_updates_are_as_many_as_announced(self, algorithm: str) -> None:
        """Observed random steps, gradient steps and target updates equal the announced ones."""
        for field, hp in _list_variants(self.framework, algorithm):
            announced = translate_hyperparameters(self.framework, algorithm, hp).update_schedule
            counted = observe_training(self.framework, algorithm, hp).update_schedule
            assert counted == announced, f"with {field or 'the base hyperparameters'}"

    def test_what_is_announced_is_what_the_schema_defines(self, algorithm: str) -> None:
        """Announced counts equal the schema's, except for a step or two that a framework declares.

        With a delayed policy, targets may move at every step of the critics if the note on
        `policy_delay` says so.
        """
        for _, hp in _list_variants(self.framework, algorithm):
            native = translate_hyperparameters(self.framework, algorithm, hp)
            defined = hp.compute_update_schedule(native.total_steps)
            for name, most in _compute_tolerances(hp, defined).items():
                off = getattr(native.update_schedule, name) - getattr(defined, name)
                if name == "target_updates" and _moves_targets_at_every_step(native):
                    off = (
                        native.update_schedule.target_updates
                        - native.update_schedule.total_gradient_steps
                    )
                assert abs(off) <= most, f"{name}: off by {off}"

    def test_updates_with_interventions_are_as_many_as_recorded(
        self, off_policy_algorithm: str
    ) -> None:
        """In the reference form, and with each intervention that declares to change counts."""
        adapter, algorithm = load_adapter(self.framework), off_policy_algorithm
        items = [one for one in list_interventions(adapter) if algorithm in one.algorithms]
        form = {one.name for one in list_reference_form(adapter, algorithm)}
        runs = [("exact", one.name) for one in items if one.updates and one.name not in form]
        base = make_base_hyperparameters(self.framework, algorithm)
        odd = {n: 3 for n in ("policy_delay", "target_update_interval") if hasattr(base, n)}
        for alignment, intervention in [("lockstep", NO_INTERVENTION), *runs]:
            fields = {"alignment": alignment, "intervention": intervention}
            prepared = prepare_scripted_run(
                self.framework,
                algorithm,
                tuple(odd.items()),
                steps=STEPS,
                eval_every=STEPS,
                **fields,
            )
            counted = observe_run(prepared).update_schedule
            assert counted == prepared.native.update_schedule, f"with {fields}"


def _moves_targets_at_every_step(native: NativeConfig) -> bool:
    notes = [row.note for row in native.alignment if row.field == "policy_delay"]
    return any("targets move at each step" in note for note in notes)


def _list_variants(framework: str, algorithm: str) -> list[tuple[str, Hyperparameters]]:
    """Return the base hyperparameters and variants with one count changed, if it is accepted."""
    base = make_base_hyperparameters(framework, algorithm)
    variants = [("", base)]
    for field, value in (
        ("epochs", 2),
        ("minibatch_size", 24),
        ("learning_starts", 33),
        ("policy_delay", 3),
        ("target_update_interval", 2),
        ("gradient_steps", 4),
        ("train_freq", 4),
    ):
        changed = replace_hyperparameter(framework, algorithm, base, field, value)
        if changed is not None and changed != base:
            variants.append((f"{field}={value}", changed))
    return variants


def _compute_tolerances(hp: Hyperparameters, defined: UpdateSchedule) -> dict[str, float]:
    if not isinstance(hp, OffPolicy):
        return dict.fromkeys((field.name for field in dataclasses.fields(UpdateSchedule)), 0)
    rounds = 2 * hp.gradient_steps
    # Some frameworks follow their exploration schedule from the first step on.
    random_steps = hp.learning_starts if hp.actions == "discrete" else hp.train_freq
    return {
        "random_steps": random_steps,
        "first_update": 2 * hp.train_freq,
        "total_gradient_steps": rounds,
        # A framework may make up for the policy delay with as many steps at once.
        "policy_updates": rounds
        + defined.policy_updates * (getattr(hp, "policy_delay", 1) - 1)
        + 1,
        "target_updates": rounds + 1,
    }


DEVICE = "cuda"


class DeviceConformance:
    """Tests with short trainings on a GPU; skipped with the reason if there is none."""

    framework: str

    def test_training_on_a_gpu_takes_its_steps_within_bounds(self, algorithm: str) -> None:
        """Steps are as announced, weights are finite, and policies return NumPy arrays."""
        _skip_where_refused(self.framework, algorithm)
        base = make_base_hyperparameters(self.framework, algorithm)
        trained = train_algorithm(self.framework, algorithm, base, device=DEVICE)
        assert trained.steps == trained.scheduled
        for name, value in trained.weights.items():
            assert np.isfinite(value).all(), name
        on_cpu = train_algorithm(self.framework, algorithm, base)
        assert {n: v.shape for n, v in trained.weights.items()} == {
            n: v.shape for n, v in on_cpu.weights.items()
        }
        assert trained.greedy.shape == on_cpu.greedy.shape
        assert trained.greedy.dtype == on_cpu.greedy.dtype
        if ALGORITHMS[algorithm].actions == "continuous":
            assert np.abs(trained.actions).max() <= 3 and np.abs(trained.greedy).max() <= 3

    def test_updates_on_a_gpu_are_as_many_as_announced(self, algorithm: str) -> None:
        """Counts on a GPU are the announced ones."""
        _skip_where_refused(self.framework, algorithm)
        base = make_base_hyperparameters(self.framework, algorithm)
        announced = translate_hyperparameters(
            self.framework, algorithm, base, device=DEVICE
        ).update_schedule
        assert (
            observe_training(self.framework, algorithm, base, device=DEVICE).update_schedule
            == announced
        )

    def test_device_that_is_not_there_is_refused(self, algorithm: str) -> None:
        """A missing device is refused before training; the message has its name and a remedy."""
        device = f"{DEVICE}:99"
        with pytest.raises(SpecError) as caught:
            prepare_scripted_run(self.framework, algorithm, steps=1, eval_every=1, device=device)
        assert f"device={device}" in str(caught.value) and "Use " in str(caught.value)


def _skip_where_refused(framework: str, algorithm: str) -> None:
    reason = load_adapter(framework).why_unsupported_device(algorithm, DEVICE, True)
    if reason:
        pytest.skip(f"device={DEVICE}: {reason}")
