"""Seeds decide, nothing else does; and actions stay inside their bounds."""

import random
import sys

import numpy as np
import pytest

from parallax.envs.scripted import ENV_ID, NARROW_ENV_ID, PUSHES, SKEWED_ENV_ID
from parallax.envs.tasks import load_task
from parallax.harness.conformance.trainings import (
    make_base_hyperparameters,
    make_training_conditions,
    train_algorithm,
    train_uncached,
)
from parallax.harness.contract.algorithms import ALGORITHMS


class DeterminismConformance:
    """Determinism and action bounds."""

    framework: str

    def test_same_seed_gives_the_same_weights_whatever_ran_before(self, algorithm: str) -> None:
        """Global random states and earlier runs leak into nothing."""
        base = make_base_hyperparameters(self.framework, algorithm)
        first = train_algorithm(self.framework, algorithm, base)
        _stir_global_random_states()
        second = train_uncached(
            self.framework, algorithm, base, make_training_conditions(algorithm)
        )
        assert first.digest == second.digest

    def test_other_seed_gives_other_weights(self, algorithm: str) -> None:
        """The seed reaches initialisation, exploration or sampling."""
        base = make_base_hyperparameters(self.framework, algorithm)
        digests = {
            train_algorithm(self.framework, algorithm, base, seed=seed).digest for seed in (0, 1, 2)
        }
        assert len(digests) == 3

    def test_asking_the_policy_changes_nothing(self, algorithm: str) -> None:
        """The greedy policy may be called before every step, from within the environment."""
        base = make_base_hyperparameters(self.framework, algorithm)
        quiet = train_algorithm(self.framework, algorithm, base)
        asked = train_algorithm(self.framework, algorithm, base, ask=True)
        assert quiet.digest == asked.digest

    def test_greedy_action_depends_on_the_observation_alone(self, algorithm: str) -> None:
        """Not on chance, nor on the place of an observation among others."""
        trained = train_algorithm(
            self.framework, algorithm, make_base_hyperparameters(self.framework, algorithm)
        )
        scale = float(np.abs(trained.greedy).max())
        assert trained.greedy_reversed == pytest.approx(trained.greedy, rel=1e-4, abs=1e-4 * scale)

    @pytest.mark.parametrize("env_id", [ENV_ID, NARROW_ENV_ID, SKEWED_ENV_ID])
    def test_actions_are_within_bounds(self, algorithm: str, env_id: str) -> None:
        """In training and of the greedy policy, with bounds of +-3, +-0.4, and -1 and 3."""
        base = make_base_hyperparameters(self.framework, algorithm)
        if ALGORITHMS[algorithm].actions == "discrete":
            pytest.skip("its actions are choices")
        trained = train_algorithm(self.framework, algorithm, base, env_id=env_id)
        task = load_task(env_id)
        low, high = task.action_low[0], task.action_high[0]
        for name in ("actions", "greedy"):
            actions = getattr(trained, name)
            assert np.isfinite(actions).all(), name
            assert actions.min() >= low and actions.max() <= high, name
        reach = np.ptp(trained.actions) / (high - low)
        assert reach > 0.5, f"training used {reach:.0%} of the action range"

    def test_choices_are_those_of_the_task(self, algorithm: str) -> None:
        """In training and of the greedy policy, which returns them as int64."""
        if ALGORITHMS[algorithm].actions == "continuous":
            pytest.skip("its actions are within bounds")
        trained = train_algorithm(
            self.framework, algorithm, make_base_hyperparameters(self.framework, algorithm)
        )
        assert trained.greedy.dtype == np.int64 and trained.greedy.shape == (5,)
        assert set(trained.greedy) <= set(range(len(PUSHES)))
        assert set(trained.actions.tolist()) == set(range(len(PUSHES))), "training tries not all"


def _stir_global_random_states() -> None:
    random.seed(12345)
    np.random.seed(54321)
    # Adapters may use torch; the harness itself does not import it.
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(777)
