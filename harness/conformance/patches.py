"""Tests that each patch of upstream's code sets its value, as a probe measures it."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from parallax.harness.conformance.hyperparameters import list_patch_cases
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import format_value
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.probes import results
from parallax.harness.probes.catalogue import PROBES
from parallax.harness.probes.experiments import AlignmentLevel, ExperimentCache
from parallax.harness.probes.families.optimisation import OPTIMIZER_SETTINGS
from parallax.harness.probes.probe import Probe, run_probe
from parallax.harness.probes.results import AGREES, ProbeResult

_NO_BOOTSTRAP = ("nothing follows the end", "does not bootstrap: the target is the reward")
_NOT_NORMALIZED = "the advantage in place of the normalized advantage"
_NORMALIZED = ("standardised over", "divided by the sample")
_EXCEEDED_DIVERGENCE = 1e-6


class ShownAnswer:
    """An answer with its numbers by name.

    Attributes:
        value: All numbers; float[numbers].
        expected: Those of the probe's source.
        meaning: Description of the difference between them; empty if they agree.
        result: The result of the probe, whose only answer it is.
        numbers: The numbers by name, or by position.
    """

    def __init__(self, result: ProbeResult) -> None:
        (answer,) = result.answers.values()
        self.value, self.expected = answer.value.ravel(), answer.expected.ravel()
        self.meaning = "" if answer.comparison.kind == AGREES else answer.meaning or "differs"
        self.result, self.unmeasured = result, answer.unmeasured
        names = results.list_entry_names(result, len(self.value))
        self.numbers = dict(zip(names, self.value.tolist(), strict=True))

    def read_optimizer_setting(self, setting: str, *networks: str) -> Any:
        """Return a setting of these networks' optimizers; all values if they have several."""
        names = self.result.quantity.rpartition(": ")[2].split(", ")
        rows = dict(zip(names, self.value.reshape(len(names), -1), strict=True))
        column = OPTIMIZER_SETTINGS.index(setting)
        found = sorted({float(rows[name][column]) for name in networks if name in rows})
        return found[0] if len(found) == 1 else found

    def read_common_number(self) -> float | None:
        """Return the number that all entries are; None if they differ."""
        first = float(self.value[0])
        return first if np.allclose(self.value, first, rtol=1e-3) else None

    def read_bootstrap(self) -> Any:
        """Return whether the value after a time limit counts, or the meaning if it is unknown."""
        # Other known next values are 0 only at a termination.
        is_known = not self.meaning or self.meaning.startswith("target: ")
        return False if self.meaning in _NO_BOOTSTRAP else is_known or self.meaning

    def read_clip_range(self) -> float | None:
        """Return the smallest change of a prediction that is clipped; None without any."""
        changes = np.abs(np.asarray(self.result.axis and self.result.axis.values))
        due = np.where(self.expected, np.abs(self.expected), np.abs(self.value).max())
        clipped = changes[np.abs(self.value) < 1e-2 * due]
        return None if self.meaning == "not clipped" or not len(clipped) else float(clipped.min())

    def read_minibatch_size(self) -> Any:
        """Return the size of all minibatches but the last, or all sizes if they are others."""
        size, rollout = int(self.value[0]), int(self.expected.sum())
        due = [min(size, rollout - start) for start in range(0, rollout, size)]
        return size if self.value.tolist() == due else self.value.tolist()

    def read_update_counts(self) -> tuple[float, float]:
        """Return the environment steps per update, and the updates per step or cycle."""
        updates = self.numbers.get("updates", self.numbers.get("critic steps", 0.0))
        first = self.numbers["environment steps at the first update"]
        span, every = self.numbers["environment steps"] - first, "environment steps between two "
        cycles = span // self.numbers.get(f"{every}updates", 1) + 1
        return span / max(updates - 1, 1), updates / cycles

    def read_target_interval(self) -> float:
        """Return the steps between two target updates, of the environment or of the critics."""
        if between := self.numbers.get("environment steps between two target updates"):
            return between
        # A share of all steps cannot show whether an interval begins with the first of them.
        first = self.numbers["critic steps at the first target update"]
        return first if first > 1 else self.numbers["critic steps"] / self.numbers["target updates"]


@dataclasses.dataclass(frozen=True)
class PatchProbe:
    """A probe whose answer shows the value of a hyperparameter.

    Attributes:
        probe: Its name without the algorithm; of several names, the one that the algorithm has.
        read: Returns the value that the answer shows.
        values: Values to set by the patch; the first that needs it is used.
        unpatched: Values that upstream has in the probe's experiments, besides its recipe's.
        tolerance: Largest relative deviation of the value, as steps may not divide.
        confirmed_by: Another probe that sets the field itself and then agrees with its source.
    """

    probe: str
    read: Callable[[ShownAnswer], Any]
    values: tuple[Any, ...]
    unpatched: tuple[Any, ...] = ()
    tolerance: float = 1e-3
    confirmed_by: str = ""


def _make_optimizer_probe(setting: str, value: float, *networks: str) -> PatchProbe:
    read = lambda shown: shown.read_optimizer_setting(setting, *networks)  # noqa: E731
    return PatchProbe("adam_settings", read, (value,))


def _make_rate_probe(network: str) -> PatchProbe:
    return PatchProbe("learning_rates", lambda shown: shown.numbers[network], (0.02,))


PATCH_PROBES: Mapping[str, PatchProbe] = {
    # A temperature's optimizer has no epsilon of its own.
    "adam_eps": _make_optimizer_probe("eps", 1e-3, "policy", "value", "critic1"),
    "policy_weight_decay": _make_optimizer_probe("weight_decay", 0.1, "policy"),
    "critic_weight_decay": _make_optimizer_probe("weight_decay", 0.1, "critic1"),
    "critic_learning_rate": _make_rate_probe("critic1"),
    "temperature_learning_rate": _make_rate_probe("temperature"),
    "bootstrap_truncation": PatchProbe(
        "truncation_target truncation", ShownAnswer.read_bootstrap, (False, True)
    ),
    "clip_range_schedule": PatchProbe(
        "clip_range_annealing",
        lambda shown: {1.0: "constant", 0.25: "linear"}.get(
            round(4 * shown.value[-1] / shown.expected[0]) / 4, shown.meaning
        ),
        ("linear", "constant"),
    ),
    "value_clip_range": PatchProbe(
        "value_clipping", ShownAnswer.read_clip_range, (0.05, 0.2), (0.2, None), 0.2
    ),
    "normalize_advantage": PatchProbe(
        "advantage_normalisation",
        lambda shown: (
            shown.meaning != _NOT_NORMALIZED
            and (not shown.meaning or shown.meaning.startswith(_NORMALIZED) or shown.meaning)
        ),
        (False, True),
    ),
    "minibatch_size": PatchProbe(
        "minibatch_remainder", ShownAnswer.read_minibatch_size, (8,), (10,)
    ),
    "target_kl": PatchProbe(
        "early_stopping",
        lambda shown: {8: None, 1: _EXCEEDED_DIVERGENCE}.get(int(shown.value[0]), shown.meaning),
        (_EXCEEDED_DIVERGENCE,),
        confirmed_by="divergence_limit",
    ),
    "train_freq": PatchProbe(
        "counts", lambda shown: shown.read_update_counts()[0], (4,), (1,), 0.15
    ),
    "gradient_steps": PatchProbe("counts", lambda shown: shown.read_update_counts()[1], (2,), (1,)),
    "policy_delay": PatchProbe(
        "counts", lambda shown: shown.numbers["critic steps at the first policy step"], (3,), (1,)
    ),
    "target_update_interval": PatchProbe(
        "counts", ShownAnswer.read_target_interval, (13,), (9,), 0.2
    ),
    "tau": PatchProbe("target_update", ShownAnswer.read_common_number, (0.5,)),
    "huber_delta": PatchProbe("loss_numbers", lambda shown: shown.value[1] or None, (0.5,)),
    # Norms that are not clipped differ from one update to the next.
    "max_grad_norm": PatchProbe("gradient_clipping", ShownAnswer.read_common_number, (0.01,)),
    "double_q": PatchProbe(
        "target_by_default",
        lambda shown: {"": False, "target: double": True}.get(shown.meaning, shown.meaning),
        (True, False),
    ),
    "dueling": PatchProbe(
        "initial_weights",
        lambda shown: bool(np.isnan(shown.numbers["critic1.out"])),
        (True, False),
        confirmed_by="dueling_head",
    ),
    "exploration_noise_kind": PatchProbe(
        "exploration_kind",
        lambda shown: "ornstein-uhlenbeck" if shown.value[0] > 0.5 else "gaussian",
        ("ornstein-uhlenbeck",),
    ),
    "initial_temperature": PatchProbe(
        "initial_temperature", ShownAnswer.read_common_number, (0.5,)
    ),
    "target_entropy": PatchProbe(
        "target_entropy", lambda shown: shown.value[0] if shown.meaning else None, (-7.0,)
    ),
    "hidden_sizes": PatchProbe(
        "network_sizes",
        lambda shown: tuple(shown.value[:2] if len(set(shown.value)) < 3 else shown.value),
        ((12, 9), (12, 12)),
    ),
}
"""The probe that measures each hyperparameter which patches set.

Probes have no images for `conv_filters`, and no question about the sizes of networks of values:
their patches are tested by weights and numbers of updates alone (`HyperparameterConformance`).
"""


@dataclasses.dataclass(frozen=True)
class PatchProof:
    """The values that a probe's answers show without and with a patch.

    Attributes:
        before: Upstream's value, and the one that the answer shows without the patch.
        after: The value that the patch sets, and the one that the answer shows with it.
        unconfirmed: Description of an answer of `confirmed_by`; empty if it is as it must be.
    """

    probe: str
    before: tuple[Any, Any]
    after: tuple[Any, Any]
    unconfirmed: str


def find_patch_probe(algorithm: str, field: str) -> Probe | None:
    """Return the probe that measures a hyperparameter, or None if there is none."""
    names = PATCH_PROBES[field].probe.split() if field in PATCH_PROBES else []
    wanted = [f"{algorithm}.{name}" for name in names]
    return next((probe for probe in PROBES if probe.name in wanted), None)


def prove_patch(framework: str, probe: Probe, field: str) -> PatchProof:
    """Measure a hyperparameter without its patch and with it.

    Raises:
        AssertionError: No value that is tried is set without the patch, or none with it.
    """
    entry = PATCH_PROBES[field]
    values = (getattr(load_recipe(probe.algorithm, framework), field), *entry.unpatched)
    before = _measure_first_value(framework, probe, field, values, False)
    after = _measure_first_value(framework, probe, field, entry.values, True)
    others = [p for p in PROBES if p.name == f"{probe.algorithm}.{entry.confirmed_by}"]
    wrong = [answer.meaning for p in others for _, answer in [_run_probe(framework, p, {})]]
    return PatchProof(probe.name, before, after, "".join(wrong))


def _measure_first_value(
    framework: str, probe: Probe, field: str, values: Sequence[Any], patched: bool
) -> tuple[Any, Any]:
    """Return the first value that is set with a patch, or without, and the one that is shown."""
    for value in values:
        patches, shown = _run_probe(framework, probe, {field: value})
        if (field in patches) == patched:
            assert not shown.unmeasured, f"{field}={format_value(value)}: {shown.unmeasured}"
            return value, PATCH_PROBES[field].read(shown)
    raise AssertionError(f"{field}: no value of {values} is set with patched={patched}")


def _run_probe(
    framework: str, probe: Probe, fixed: Mapping[str, Any]
) -> tuple[set[str], ShownAnswer]:
    level = AlignmentLevel("exact", framework)
    cache = ExperimentCache(load_adapter(framework), level=level, fixed=fixed)
    shown = ShownAnswer(run_probe(probe, {framework: cache}))
    return {field for run in cache.list_runs() for field in run.patched_fields}, shown


def is_shown(field: str, value: Any, shown: Any) -> bool:
    """Return whether an answer shows a value, up to the probe's resolution."""
    numbers = [isinstance(x, float | int) and not isinstance(x, bool) for x in (value, shown)]
    if all(numbers):
        return bool(np.isclose(shown, value, rtol=PATCH_PROBES[field].tolerance, atol=1e-12))
    return not any(numbers) and bool(shown == value)


class PatchConformance:
    """Tests that a probe measures upstream's value without a patch and the patch's with it."""

    framework: str

    def test_probe_measures_the_value_that_a_patch_sets(
        self, patched_algorithm: str, patched_field: str
    ) -> None:
        """Without the patch the answer shows upstream's value, with it the requested one."""
        cases = list_patch_cases(self.framework, patched_algorithm)
        if not any(case.field == patched_field and case.is_patched for case in cases):
            pytest.skip(f"{patched_field} needs no patch in a plain training")
        probe = find_patch_probe(patched_algorithm, patched_field)
        if probe is None or not load_adapter(self.framework).is_probeable:
            pytest.skip(f"no probe of {patched_algorithm} measures {patched_field}")
        proof = prove_patch(self.framework, probe, patched_field)
        for how, (value, shown) in (("without", proof.before), ("with", proof.after)):
            assert is_shown(patched_field, value, shown), (
                f"{proof.probe} shows {patched_field}={shown} {how} the patch, and not {value}"
            )
        assert not proof.unconfirmed, f"with the patch of {patched_field}: {proof.unconfirmed}"
