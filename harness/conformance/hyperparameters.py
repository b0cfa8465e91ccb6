"""Tests that each hyperparameter is declared and has the schema's meaning, or is refused."""

import contextlib
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parallax.envs.scripted import ENV_ID, NARROW_ENV_ID
from parallax.harness.conformance.observer import CRITIC, POLICY, TEMPERATURE
from parallax.harness.conformance.trainings import (
    STEPS,
    make_base_hyperparameters,
    observe_training,
    replace_hyperparameter,
    train_algorithm,
    translate_hyperparameters,
)
from parallax.harness.contract.adapter import Weights
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.algorithms.base import Hyperparameters
from parallax.harness.contract.fields import SpecError, format_value
from parallax.harness.contract.translation import NativeConfig

_LEARNING_RATE_ROLES = {
    "learning_rate": POLICY,
    "policy_learning_rate": POLICY,
    "critic_learning_rate": CRITIC,
    "temperature_learning_rate": TEMPERATURE,
}
_NOISE = 0.05
_LEARNING_STEPS = 32
"""Environment steps after the random ones within which a changed hyperparameter has an effect."""


@dataclasses.dataclass(frozen=True)
class PatchCase:
    """A value that an adapter patches into upstream's code, or sets without changing it.

    Attributes:
        base: Hyperparameters with another value of it.
        hyperparameters: The same hyperparameters with this value.
        native: Translation of `hyperparameters`.
    """

    field: str
    value: Any
    base: Hyperparameters
    hyperparameters: Hyperparameters
    native: NativeConfig

    @property
    def is_patched(self) -> bool:
        """Return whether a patch of upstream's source gives the value."""
        return self.field in self.native.patched_fields


# Other settings that some values need so that only a patch can set them; each entry is tried.
_SURROUNDINGS: Sequence[Mapping[str, Any]] = (
    {},
    {"learning_starts": 65},
    {"clip_range": 0.1},
    {"train_freq": 3, "gradient_steps": 2},
    {"gradient_steps": 3},
    {"tau": 0.3},
)


@functools.cache
def list_patch_cases(framework: str, algorithm: str) -> list[PatchCase]:
    """List cases for every hyperparameter that is a constant upstream or that a patch can set."""
    usual = make_base_hyperparameters(framework, algorithm)
    rows = translate_hyperparameters(framework, algorithm, usual).alignment
    fixed = {row.field for row in rows if row.is_fixed}
    patchable = load_adapter(framework).list_patchable_fields(algorithm)
    found = []
    for field in sorted(patchable | fixed):
        for surroundings in _SURROUNDINGS:
            cases = [
                case
                for value in type(usual).alternatives.get(field, ())
                if (case := _make_patch_case(framework, algorithm, field, value, surroundings))
                and (case.is_patched or field in fixed)
            ]
            found += cases
            if any(case.is_patched for case in cases) or (cases and field not in patchable):
                break
    return found


def _make_patch_case(
    framework: str, algorithm: str, field: str, value: Any, surroundings: Mapping[str, Any]
) -> PatchCase | None:
    """Return a case, or None if the value is the usual one or the framework refuses it."""
    usual = make_base_hyperparameters(framework, algorithm)
    known = {name: given for name, given in surroundings.items() if hasattr(usual, name)}
    if len(known) < len(surroundings) or field in known or value == getattr(usual, field):
        return None
    base = dataclasses.replace(usual, **known)
    other = dataclasses.replace(base, **{field: value})
    trained = framework, algorithm
    try:
        translate_hyperparameters(*trained, base, patch_constants=True)
        native = translate_hyperparameters(*trained, other, patch_constants=True)
    except SpecError:
        return None  # the alignment table of a recipe shows what is refused
    return PatchCase(field, value, base, other, native)


class HyperparameterConformance:
    """Tests that hyperparameters are declared, used in the schema's unit, or refused by name."""

    framework: str

    def test_every_hyperparameter_is_declared(self, algorithm: str) -> None:
        """The alignment has one row per field of the schema, in its order."""
        base = make_base_hyperparameters(self.framework, algorithm)
        declared = [
            row.field
            for row in translate_hyperparameters(self.framework, algorithm, base).alignment
        ]
        assert declared == [field.name for field in dataclasses.fields(ALGORITHMS[algorithm])]

    def test_hyperparameter_is_honoured_or_refused(self, algorithm: str, field: str) -> None:
        """Another value gives other weights; if upstream has a constant, it is refused by name."""
        base = make_base_hyperparameters(self.framework, algorithm)
        if field == "vf_coef":  # if values have separate gradients, clipping cancels it
            base = (
                replace_hyperparameter(self.framework, algorithm, base, "max_grad_norm", None)
                or base
            )
        rows = {
            row.field: row
            for row in translate_hyperparameters(self.framework, algorithm, base).alignment
        }
        if rows[field].is_fixed:
            _check_refusal(self.framework, algorithm, field, base)
            return
        # So many that hyperparameters of learning matter.
        steps = min(STEPS, getattr(base, "learning_starts", STEPS) + _LEARNING_STEPS)
        for value in ALGORITHMS[algorithm].alternatives[field]:
            if value == getattr(base, field):
                continue
            other = replace_hyperparameter(self.framework, algorithm, base, field, value)
            if other is None:
                continue  # this value is refused; at least one must be accepted
            before, after = (
                train_algorithm(self.framework, algorithm, hp, steps=steps) for hp in (base, other)
            )
            changes = before.digest != after.digest
            assert changes, (
                f"{self.framework} {algorithm}: {field}={format_value(value)} changes nothing"
            )
            return
        raise AssertionError(f"{self.framework} {algorithm}: {field} takes no other value tried")

    def test_patch_changes_its_constant_and_nothing_else(self, algorithm: str) -> None:
        """A patch with upstream's own value changes no weights; with another value it does.

        The number of updates is the announced one. The same is checked for constants of upstream
        that an adapter sets without a patch.
        """
        trained = self.framework, algorithm
        base = make_base_hyperparameters(*trained)
        rows = {row.field: row for row in translate_hyperparameters(*trained, base).alignment}
        plain = train_algorithm(*trained, base)
        for field in sorted(load_adapter(self.framework).list_patchable_fields(algorithm)):
            if rows[field].is_fixed:
                same = train_algorithm(*trained, base, forced_patches=(field,))
                assert same.digest == plain.digest, f"{field}: the patch changes something else"
        for case in list_patch_cases(*trained):
            found = train_algorithm(*trained, case.hyperparameters, patch_constants=True)
            changed = f"{case.field}={format_value(case.value)}"
            before = train_algorithm(*trained, case.base, patch_constants=True)
            assert found.digest != before.digest, f"{changed} changes nothing"
            if case.field == "target_kl":  # the number of updates depends on the data
                continue
            observed = observe_training(*trained, case.hyperparameters, patch_constants=True)
            assert observed.update_schedule == case.native.update_schedule, f"with {changed}"

    def test_conversion_changes_what_a_value_does(self, algorithm: str) -> None:
        """Some value that upstream uses otherwise than the schema says gives other weights."""
        trained = self.framework, algorithm
        base = make_base_hyperparameters(*trained)
        options = [(f, value) for f, values in base.alternatives.items() for value in values]
        if hasattr(base, "target_kl"):  # a limit that the first epoch of this training reaches late
            options.append(("target_kl", 0.03))
        acts: dict[str, bool] = {}
        for field, value in options:
            hp = dataclasses.replace(base, **{field: value})
            with contextlib.suppress(SpecError):  # the alignment of a recipe shows what is refused
                native = translate_hyperparameters(*trained, hp, patch_constants=True)
                if field not in native.conversions or acts.get(field):
                    continue
                plain, converted = (
                    train_algorithm(*trained, hp, patch_constants=True, converted_fields=fields)
                    for fields in ((), (field,))
                )
                acts[field] = plain.digest != converted.digest
        assert all(acts.values()), f"a conversion changes nothing: {acts}"

    def test_learning_rates_reach_their_networks(self, algorithm: str) -> None:
        """Policy, critics and temperature have the configured learning rates."""
        base = make_base_hyperparameters(self.framework, algorithm)
        seen = observe_training(self.framework, algorithm, base).learning_rates
        checked = [
            f for f, role in _LEARNING_RATE_ROLES.items() if hasattr(base, f) and role in seen
        ]
        assert checked, f"optimizers of {sorted(seen)} stepped, of which no rate is known"
        for field in checked:
            rate = seen[_LEARNING_RATE_ROLES[field]][0]
            assert rate == pytest.approx(getattr(base, field)), (
                f"{_LEARNING_RATE_ROLES[field]}: {field}"
            )

    def test_learning_rate_schedule_is_followed(self, algorithm: str) -> None:
        """A constant rate stays the same; a linear one never rises and ends near zero."""
        base = make_base_hyperparameters(self.framework, algorithm)
        for schedule in ("constant", "linear"):
            hp: Any = replace_hyperparameter(
                self.framework, algorithm, base, "learning_rate_schedule", schedule
            )
            if hp is None:
                continue
            rates = observe_training(self.framework, algorithm, hp).learning_rates[POLICY]
            if schedule == "constant":
                assert rates == pytest.approx([hp.learning_rate] * len(rates))
            else:  # the first rate is full or one rollout later, the last is 0 or one earlier
                total = translate_hyperparameters(self.framework, algorithm, hp).total_steps
                of_rollout = hp.learning_rate * hp.rollout_steps / total * 1.001
                way = f"a linear schedule went from {rates[0]:.3g} to {rates[-1]:.3g}"
                assert rates == sorted(rates, reverse=True), way
                assert hp.learning_rate - of_rollout <= rates[0] <= hp.learning_rate, way
                assert 0 <= rates[-1] <= of_rollout, way

    def test_hidden_sizes_reach_every_network(self, algorithm: str) -> None:
        """No layer of any network has the old width."""
        base: Any = make_base_hyperparameters(self.framework, algorithm)
        wider = replace_hyperparameter(self.framework, algorithm, base, "hidden_sizes", (12, 12))
        if wider is None or 12 in base.hidden_sizes:
            pytest.skip("its widths are fixed")
        weights = train_algorithm(self.framework, algorithm, wider).weights
        for name, value in weights.items():
            former = set(value.shape) & set(base.hidden_sizes)
            assert not former, f"{name} has {former.pop()} units where 12 were requested"

    def test_targets_move_by_tau(self, off_policy_algorithm: str) -> None:
        """A target parameter moves by the share `tau` of the way to the online one."""
        base = make_base_hyperparameters(self.framework, off_policy_algorithm)
        rows = translate_hyperparameters(self.framework, off_policy_algorithm, base).alignment
        fixed = next(row.is_fixed for row in rows if row.field == "tau")
        hp: Any = replace_hyperparameter(self.framework, off_policy_algorithm, base, "tau", 0.1)
        hp = base if hp is None and fixed else hp  # a fixed tau is checked as it is
        assert hp is not None, "tau=0.1 is refused"
        step = observe_training(self.framework, off_policy_algorithm, hp).target_step
        assert step is not None, "no target network ever moved"
        targets = [name for name in step.before if "target" in name]
        assert targets, "no weights are named as targets"
        online = [value for name, value in step.after.items() if name not in targets]
        for name in targets:
            before, after = step.before[name], step.after[name]
            if _is_close(before, after) and any(_is_close(before, value) for value in online):
                continue  # the online parameter has not changed yet, or is a constant
            shares = [_compute_share(before, after, value) for value in online]
            assert any(share == pytest.approx(hp.tau, rel=0.02) for share in shares), (
                f"{name} did not go tau={hp.tau} of the way to any online parameter"
            )

    @pytest.mark.parametrize("env_id", [ENV_ID, NARROW_ENV_ID])
    def test_exploration_noise_is_a_share_of_half_the_range(
        self, noisy_algorithm: str, env_id: str
    ) -> None:
        """Noise around the greedy action has the configured share of the range, for any bounds."""
        trained = self.framework, noisy_algorithm
        base = make_base_hyperparameters(*trained)
        hp: Any = replace_hyperparameter(*trained, base, "exploration_noise", _NOISE)
        assert hp is not None, f"exploration_noise={_NOISE} is refused"
        # A policy that barely learns stays away from the bounds, where noise is clipped.
        hp = replace_hyperparameter(*trained, hp, "policy_learning_rate", 1e-5) or hp
        noise = train_algorithm(*trained, hp, queries_policy=True, env_id=env_id).noise
        after_warm_up = noise[hp.learning_starts + 2 :]
        # The median is robust to the few actions that are clipped at the bounds.
        deviation = np.median(np.abs(after_warm_up)) / 0.6745
        assert deviation == pytest.approx(_NOISE, rel=0.3)

    def test_target_networks_are_named_so(self, algorithm: str) -> None:
        """Weights contain target networks exactly if the algorithm has some."""
        base = make_base_hyperparameters(self.framework, algorithm)
        weights: Weights = train_algorithm(self.framework, algorithm, base).weights
        assert any("target" in name for name in weights) == ALGORITHMS[algorithm].has_targets


def _is_close(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Return whether two weights are equal up to float32 rounding."""
    return one.shape == other.shape and bool(np.allclose(one, other, rtol=1e-6, atol=1e-7))


def _compute_share(before: NDArray[Any], after: NDArray[Any], online: NDArray[Any]) -> float:
    """Return the share of the way from `before` to `online` at which `after` is; nan if off it."""
    if before.shape != online.shape:
        return np.nan
    way, gone = (online - before).ravel().astype(float), (after - before).ravel().astype(float)
    if not way.any():
        return np.nan
    share = float(way @ gone / (way @ way))
    strays = np.abs(gone - share * way).max() > 1e-6 + 0.01 * np.abs(gone).max()
    return np.nan if strays else share


def _check_refusal(framework: str, algorithm: str, field: str, base: Any) -> None:
    constant = getattr(base, field)
    value = next(value for value in ALGORITHMS[algorithm].alternatives[field] if value != constant)
    other = dataclasses.replace(base, **{field: value})
    with pytest.raises(SpecError) as caught:
        translate_hyperparameters(framework, algorithm, other)
    for part in (
        f"hyperparameters.{field}={format_value(value)}",
        framework,
        format_value(constant),
    ):
        assert part in str(caught.value), f"the refusal does not name {part}"
