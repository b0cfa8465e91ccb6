"""A test suite for adapters, shipped with the package.

An adapter's test file subclasses `AdapterConformance` with the adapter's name:

    from harness.conformance import AdapterConformance

    class TestMine(AdapterConformance):
        framework = "mine"

and gets one test per algorithm and hyperparameter that it supports, and some more.
"""

import dataclasses
import random
import sys
from typing import Any

import numpy as np
import pytest

from harness.adapter import load_adapter
from harness.conformance_runs import (
    ALTERNATIVES,
    Trained,
    base_hyperparameters,
    changed,
    train,
    translate,
)
from harness.fields import SpecError
from harness.spec import ALGORITHMS
from harness.translation import plain


class AdapterConformance:
    """What every adapter must keep. Subclass it and set `framework`."""

    framework: str

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """One test per supported algorithm, and per hyperparameter where one is asked for."""
        adapter = load_adapter(self.framework)
        supported = [name for name in ALGORITHMS if adapter.supports(name)]
        if "field" in metafunc.fixturenames:
            pairs = [
                (algorithm, field.name)
                for algorithm in supported
                for field in dataclasses.fields(ALGORITHMS[algorithm])
            ]
            metafunc.parametrize(("algorithm", "field"), pairs)
        elif "algorithm" in metafunc.fixturenames:
            metafunc.parametrize("algorithm", supported)

    def test_every_hyperparameter_is_declared(self, algorithm: str) -> None:
        """The alignment has one row per field of the schema, in its order."""
        native = translate(
            self.framework, algorithm, base_hyperparameters(self.framework, algorithm)
        )
        declared = [row.field for row in native.alignment]
        assert declared == [field.name for field in dataclasses.fields(ALGORITHMS[algorithm])]

    def test_hyperparameter_is_honoured_or_refused(self, algorithm: str, field: str) -> None:
        """Another value trains to other weights; of a constant it is refused by name."""
        base = base_hyperparameters(self.framework, algorithm)
        rows = {row.field: row for row in translate(self.framework, algorithm, base).alignment}
        if rows[field].kind == "constant":
            self._check_refusal(algorithm, field, base)
            return
        values = [v for v in ALTERNATIVES[field] if v != getattr(base, field)]
        for value in values:
            try:
                other = changed(self.framework, algorithm, base, field, value)
                translate(self.framework, algorithm, other)
            except SpecError:
                continue  # this value cannot be had; another must
            assert self._differ(algorithm, base, other), (
                f"{self.framework} {algorithm}: {field}={plain(value)} changes nothing"
            )
            return
        raise AssertionError(f"{self.framework} {algorithm}: {field} takes none of {values}")

    def test_steps_taken_are_the_steps_reported(self, algorithm: str) -> None:
        """For several budgets the environment is stepped `native.total_steps` times."""
        base = base_hyperparameters(self.framework, algorithm)
        for steps in (128, 130, 255):
            trained = train(self.framework, algorithm, base, steps=steps)
            assert trained.steps == trained.scheduled, f"asked for {steps}"

    def test_same_seed_gives_the_same_weights_whatever_ran_before(self, algorithm: str) -> None:
        """Global random states and earlier runs leak into nothing."""
        base = base_hyperparameters(self.framework, algorithm)
        first = train(self.framework, algorithm, base)
        _stir_global_random_states()
        second = train.__wrapped__(self.framework, algorithm, base)
        assert first.digest == second.digest

    def test_other_seed_gives_other_weights(self, algorithm: str) -> None:
        """The seed reaches initialisation, exploration or sampling."""
        base = base_hyperparameters(self.framework, algorithm)
        digests = {train(self.framework, algorithm, base, seed=seed).digest for seed in (0, 1, 2)}
        assert len(digests) == 3

    def test_asking_the_policy_changes_nothing(self, algorithm: str) -> None:
        """The greedy policy may be called before every step, from within the environment."""
        base = base_hyperparameters(self.framework, algorithm)
        quiet = train(self.framework, algorithm, base)
        asked = train(self.framework, algorithm, base, ask=True)
        assert quiet.digest == asked.digest

    def test_actions_are_within_bounds(self, algorithm: str) -> None:
        """In training and of the greedy policy, on a task with bounds other than +-1."""
        trained = train(self.framework, algorithm, base_hyperparameters(self.framework, algorithm))
        for name in ("actions", "greedy"):
            actions = getattr(trained, name)
            assert actions.min() >= trained.low and actions.max() <= trained.high, name
        assert np.abs(trained.actions).max() > 1, "the range beyond +-1 is never used"

    def test_target_networks_are_named_so(self, algorithm: str) -> None:
        """Weights of off-policy algorithms hold target networks, those of PPO none."""
        trained = train(self.framework, algorithm, base_hyperparameters(self.framework, algorithm))
        assert any("target" in name for name in trained.weights) == (algorithm != "ppo")

    def _check_refusal(self, algorithm: str, field: str, base: Any) -> None:
        constant = getattr(base, field)
        value = next(value for value in ALTERNATIVES[field] if value != constant)
        other = dataclasses.replace(base, **{field: value})
        with pytest.raises(SpecError) as caught:
            translate(self.framework, algorithm, other)
        for part in (f"hyperparameters.{field}={plain(value)}", self.framework, plain(constant)):
            assert part in str(caught.value), f"the refusal does not name {part}"

    def _differ(self, algorithm: str, base: Any, other: Any) -> bool:
        one: Trained = train(self.framework, algorithm, base)
        two: Trained = train(self.framework, algorithm, other)
        return one.digest != two.digest


def _stir_global_random_states() -> None:
    random.seed(12345)
    np.random.seed(54321)
    # Adapters may use torch; the harness itself does not import it.
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(777)
