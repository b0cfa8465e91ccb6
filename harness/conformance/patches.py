"""Tests that each patch of upstream's code sets its value, as a probe measures it."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from parallax.harness.conformance.hyperparameters import list_patch_cases
from parallax.harness.contract.adapter import load_adapter
from parallax.harness.contract.fields import format_value
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.probes.catalogue import PROBES
from parallax.harness.probes.experiments import AlignmentLevel, ExperimentCache
from parallax.harness.probes.families.optimisation import OPTIMIZER_SETTINGS
from parallax.harness.probes.probe import Probe, run_probe
from parallax.harness.probes.results import (
    AGREES,
    ProbeAnswer,
    ProbeResult,
    get_axis_values,
    list_entry_names,
)

ReadValue = Callable[[Mapping[str, float], ProbeAnswer, ProbeResult], Any]
"""Returns the value of a hyperparameter that an answer shows, from its numbers by name."""


@dataclasses.dataclass(frozen=True)
class PatchProbe:
    """A probe whose answer shows the value of a hyperparameter.

    Attributes:
        probes: Names without the algorithm; the first that the algorithm has is used.
        read: Returns the value that the answer shows.
        values: Values to set by the patch; the first that needs it is used.
        unpatched: Values that upstream has in the probe's experiments, besides its recipe's.
        tolerance: Largest relative deviation of the value, because of steps that do not divide.
        confirmed_by: Probes that set the field themselves and then answer as in their source.
    """

    probes: tuple[str, ...]
    read: ReadValue
    values: tuple[Any, ...]
    unpatched: tuple[Any, ...] = ()
    tolerance: float = 1e-3
    confirmed_by: tuple[str, ...] = ()


def _read_entry(name: str) -> ReadValue:
    return lambda numbers, answer, result: numbers[name]


def _read_only_number(numbers: Mapping[str, float], answer: ProbeAnswer, result: Any) -> Any:
    """Return the number that all entries share, or all of them."""
    value = answer.value.ravel()
    return float(value[0]) if np.allclose(value, value[0], rtol=1e-3) else value.tolist()


def _read_optimizer_setting(setting: str, *networks: str) -> ReadValue:
    def read(numbers: Mapping[str, float], answer: ProbeAnswer, result: ProbeResult) -> Any:
        rows = dict(
            zip(
                result.quantity.rpartition(": ")[2].split(", "),
                answer.value.reshape(-1, len(OPTIMIZER_SETTINGS)),
                strict=True,
            )
        )
        column = OPTIMIZER_SETTINGS.index(setting)
        found = {float(rows[name][column]) for name in networks if name in rows}
        return found.pop() if len(found) == 1 else sorted(found)

    return read


def _read_truncation(numbers: Any, answer: ProbeAnswer, result: Any) -> Any:
    if answer.meaning in (
        "nothing follows the end",
        "does not bootstrap: the target is the reward",
    ):
        return False
    # Other next values that are known are 0 at a termination alone.
    is_known = answer.comparison.kind == AGREES or answer.meaning.startswith("target: ")
    return is_known or answer.meaning


def _read_schedule(numbers: Any, answer: ProbeAnswer, result: Any) -> str:
    shares = answer.value / answer.expected[0]
    if np.allclose(shares, 1, atol=0.1):
        return "constant"
    return "linear" if np.allclose(shares, [1, 0.75, 0.5, 0.25], atol=0.1) else str(shares)


def _read_clip_range(numbers: Any, answer: ProbeAnswer, result: ProbeResult) -> float | None:
    changes = np.abs(np.asarray(get_axis_values(result, answer)))
    due = np.where(answer.expected, np.abs(answer.expected), np.abs(answer.value).max())
    clipped = changes[np.abs(answer.value) < 1e-2 * due]
    return float(clipped.min()) if len(clipped) else None


def _read_minibatch_size(numbers: Any, answer: ProbeAnswer, result: Any) -> Any:
    size, rollout = int(answer.value[0]), int(answer.expected.sum())
    due = [min(size, rollout - start) for start in range(0, rollout, size)]
    return size if answer.value.tolist() == due else answer.value.tolist()


def _read_normalization(numbers: Any, answer: ProbeAnswer, result: Any) -> Any:
    if answer.meaning == "not standardised":
        return False
    words = ("standardised over", "divided by the sample")
    return answer.comparison.kind == AGREES or answer.meaning.startswith(words) or answer.meaning


def _read_divergence_limit(numbers: Any, answer: ProbeAnswer, result: Any) -> Any:
    """Return None if all steps were taken, and the experiment's limit if one exceeded it."""
    return {8: None, 1: _EXCEEDED_DIVERGENCE}.get(int(answer.value[0]), answer.value.tolist())


def _read_update_interval(numbers: Mapping[str, float], answer: Any, result: Any) -> float:
    updates = numbers["critic steps"] - 1
    span = numbers["environment steps"] - numbers["environment steps at the first update"]
    return span / updates if updates else span


def _read_updates_per_cycle(numbers: Mapping[str, float], answer: Any, result: Any) -> float:
    every = numbers.get("environment steps between two updates", 1)
    span = numbers["environment steps"] - numbers["environment steps at the first update"]
    return numbers.get("updates", numbers.get("critic steps", 0)) / (span // every + 1)


def _read_target_interval(numbers: Mapping[str, float], answer: Any, result: Any) -> float:
    between = numbers.get("environment steps between two target updates")
    return between or numbers["critic steps"] / max(numbers["target updates"], 1)


def _read_sizes(numbers: Any, answer: ProbeAnswer, result: Any) -> Any:
    sizes = tuple(int(units) for units in answer.value)
    return sizes[:2] if sizes[:2] == sizes[2:] else sizes


def _read_norm(numbers: Any, answer: ProbeAnswer, result: Any) -> float | None:
    """Return the norm that two gradients share; None if they differ, so are not clipped."""
    first, second = answer.value
    return float(first) if np.isclose(first, second, rtol=1e-3) else None


def _read_double_q(numbers: Any, answer: ProbeAnswer, result: Any) -> Any:
    return answer.comparison.kind != AGREES and (answer.meaning == "target: double" or "?")


_NO_BOOTSTRAP = ("nothing follows the end", "does not bootstrap: the target is the reward")
_EXCEEDED_DIVERGENCE = 1e-6
_FIRST_POLICY_STEP = "critic steps at the first policy step"
PATCH_PROBES: Mapping[str, PatchProbe] = {
    # The option sets the epsilon of networks' optimizers, and none of the temperature's.
    "adam_eps": PatchProbe(
        ("adam_settings",), _read_optimizer_setting("eps", "policy", "value", "critic1"), (1e-3,)
    ),
    "policy_weight_decay": PatchProbe(
        ("adam_settings",), _read_optimizer_setting("weight_decay", "policy"), (0.1,)
    ),
    "critic_weight_decay": PatchProbe(
        ("adam_settings",), _read_optimizer_setting("weight_decay", "critic1"), (0.1,)
    ),
    "critic_learning_rate": PatchProbe(("learning_rates",), _read_entry("critic1"), (0.02,)),
    "temperature_learning_rate": PatchProbe(
        ("learning_rates",), _read_entry("temperature"), (0.02,)
    ),
    "bootstrap_truncation": PatchProbe(
        ("truncation_target", "truncation"), _read_truncation, (False, True)
    ),
    "clip_range_schedule": PatchProbe(
        ("clip_range_annealing",), _read_schedule, ("linear", "constant")
    ),
    "value_clip_range": PatchProbe(
        ("value_clipping",), _read_clip_range, (0.1, 0.2), (0.2, None), tolerance=0.1
    ),
    "normalize_advantage": PatchProbe(
        ("advantage_normalisation",), _read_normalization, (False, True)
    ),
    "minibatch_size": PatchProbe(("minibatch_remainder",), _read_minibatch_size, (8,), (10,)),
    "target_kl": PatchProbe(
        ("early_stopping",),
        _read_divergence_limit,
        (_EXCEEDED_DIVERGENCE,),
        confirmed_by=("divergence_limit",),
    ),
    "train_freq": PatchProbe(("counts",), _read_update_interval, (4,), (1,), tolerance=0.15),
    "gradient_steps": PatchProbe(("counts",), _read_updates_per_cycle, (2,), (1,)),
    "policy_delay": PatchProbe(("counts",), _read_entry(_FIRST_POLICY_STEP), (3,), (1,)),
    "target_update_interval": PatchProbe(
        ("counts",), _read_target_interval, (5,), (9,), tolerance=0.2
    ),
    "tau": PatchProbe(("target_update",), _read_only_number, (0.5,)),
    "huber_delta": PatchProbe(
        ("loss_numbers",),
        lambda numbers, answer, result: float(answer.value[1]) or None,
        (0.5,),
        tolerance=0.01,
    ),
    "max_grad_norm": PatchProbe(("gradient_clipping",), _read_norm, (0.01,)),
    "double_q": PatchProbe(("target_by_default",), _read_double_q, (True, False)),
    "dueling": PatchProbe(
        ("initial_weights",),
        lambda numbers, answer, result: bool(np.isnan(numbers["critic1.out"])),
        (True, False),
        confirmed_by=("dueling_head",),
    ),
    "exploration_noise_kind": PatchProbe(
        ("exploration_kind",),
        lambda numbers, answer, result: (
            "ornstein-uhlenbeck" if answer.value[0] > 0.5 else "gaussian"
        ),
        ("ornstein-uhlenbeck",),
    ),
    "initial_temperature": PatchProbe(("initial_temperature",), _read_only_number, (0.5,)),
    "target_entropy": PatchProbe(
        ("target_entropy",),
        lambda numbers, answer, result: (
            None if answer.comparison.kind == AGREES else float(answer.value[0])
        ),
        (-7.0,),
    ),
    "hidden_sizes": PatchProbe(("network_sizes",), _read_sizes, ((12, 9), (12, 12))),
}
"""The probe that measures each hyperparameter which patches set.

Of the others, `conv_filters` needs images, which probes do not have; their patches are tested by
weights and numbers of updates alone (`HyperparameterConformance`).
"""


@dataclasses.dataclass(frozen=True)
class PatchProof:
    """The values that a probe's answers show without and with a patch.

    Attributes:
        probe: Name of the probe.
        before: Upstream's value, and the one that the answer shows without the patch.
        after: The value that the patch sets, and the one that the answer shows with it.
        unconfirmed: Names of further probes that do not answer as in their source.
    """

    probe: str
    before: tuple[Any, Any]
    after: tuple[Any, Any]
    unconfirmed: tuple[str, ...] = ()


def find_patch_probe(algorithm: str, field: str) -> Probe | None:
    """Return the probe that measures a hyperparameter, or None if there is none."""
    names = PATCH_PROBES[field].probes if field in PATCH_PROBES else ()
    known = {probe.name: probe for probe in PROBES}
    return next((known[n] for name in names if (n := f"{algorithm}.{name}") in known), None)


def prove_patch(framework: str, algorithm: str, field: str) -> PatchProof:
    """Measure a hyperparameter without its patch and with it.

    Raises:
        AssertionError: No value that is tried runs without the patch, or none needs it.
    """
    probe, entry = find_patch_probe(algorithm, field), PATCH_PROBES[field]
    assert probe is not None, f"no probe of {algorithm} measures {field}"
    own = getattr(load_recipe(algorithm, framework), field)
    found = []
    for values, patched in (((own, *entry.unpatched), False), (entry.values, True)):
        pair = _measure_first_value(framework, probe, field, values, patched)
        how = "with a" if patched else "without a"
        assert pair, f"{field}: none of {values} is set {how} patch in {probe.name}"
        found.append(pair)
    further = [p for p in PROBES if p.name in {f"{algorithm}.{n}" for n in entry.confirmed_by}]
    wrong = [p.name for p in further if _run_probe(framework, p)[1].comparison.kind != AGREES]
    return PatchProof(probe.name, found[0], found[1], tuple(wrong))


def _measure_first_value(
    framework: str, probe: Probe, field: str, values: Sequence[Any], patched: bool
) -> tuple[Any, Any] | None:
    """Return the first value that is set with a patch, or without, and the one that is shown."""
    for value in values:
        cache, answer, result = _run_probe(framework, probe, {field: value})
        if any(field in run.patched_fields for run in cache.list_runs()) == patched:
            assert not answer.unmeasured, f"{field}={format_value(value)}: {answer.unmeasured}"
            names = list_entry_names(result, answer.value.size)
            numbers = dict(zip(names, answer.value.ravel().tolist(), strict=True))
            return value, PATCH_PROBES[field].read(numbers, answer, result)
    return None


def _run_probe(
    framework: str, probe: Probe, fixed: Mapping[str, Any] | None = None
) -> tuple[ExperimentCache, ProbeAnswer, ProbeResult]:
    level = AlignmentLevel("exact", framework)
    cache = ExperimentCache(load_adapter(framework), level=level, fixed=fixed)
    result = run_probe(probe, {framework: cache})
    return cache, result.answers[framework], result


def is_shown(field: str, value: Any, shown: Any) -> bool:
    """Return whether an answer shows a value, up to the probe's resolution."""
    if isinstance(value, float | int) and not isinstance(value, bool):
        return isinstance(shown, float | int) and bool(
            np.isclose(shown, value, rtol=PATCH_PROBES[field].tolerance, atol=1e-12)
        )
    return type(shown) is type(value) and bool(shown == value)


class PatchConformance:
    """Tests that a probe measures upstream's value without a patch and the patch's with it."""

    framework: str

    def test_probe_measures_the_value_that_a_patch_sets(
        self, patched_algorithm: str, patched_field: str
    ) -> None:
        """Without the patch the answer shows upstream's value, with it the requested one."""
        trained = self.framework, patched_algorithm, patched_field
        if not load_adapter(self.framework).is_probeable:
            pytest.skip(f"{self.framework} cannot be probed")
        cases = list_patch_cases(self.framework, patched_algorithm)
        if not any(case.field == patched_field and case.is_patched for case in cases):
            pytest.skip(f"{patched_field} needs no patch in a plain training")
        if find_patch_probe(patched_algorithm, patched_field) is None:
            pytest.skip(f"no probe of {patched_algorithm} measures {patched_field}")
        proof = prove_patch(*trained)
        for how, (value, shown) in (("without", proof.before), ("with", proof.after)):
            assert is_shown(patched_field, value, shown), (
                f"{proof.probe} shows {patched_field}={format_value(shown)} {how} the patch, "
                f"and not {format_value(value)}"
            )
        assert not proof.unconfirmed, f"with the patch, {proof.unconfirmed} are not as expected"
