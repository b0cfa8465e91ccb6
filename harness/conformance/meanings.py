"""Hyperparameters mean what they say, and rewards, actions and targets are what they should be."""

from typing import Any

import numpy as np
import pytest

from envs.scripted import NARROW_ENV_ID
from envs.tasks import load_task
from harness.conformance.trainings import (
    Circumstances,
    base_hyperparameters,
    observe,
    train,
    with_value,
)
from harness.contract.algorithms import ALGORITHMS

_HUGE = 1e9
_LOUD = 1e3
_ODD = 23
_RANDOM = 64


class MeaningConformance:
    """What a wrong number would not show in counts or seeds."""

    framework: str

    def test_lambda_has_no_effect_without_gamma(self, algorithm: str) -> None:
        """Advantages are sums with weights (gamma lambda)^k: a swap of both shows at gamma = 0."""
        base = base_hyperparameters(self.framework, algorithm)
        if not hasattr(base, "gae_lambda"):
            pytest.skip(f"{algorithm} has no gae_lambda")
        digests = [
            train(
                self.framework, algorithm, self._with(algorithm, gamma=0.0, gae_lambda=lam)
            ).digest
            for lam in (0.9, 0.5)
        ]
        swapped = [
            train(self.framework, algorithm, self._with(algorithm, gamma=g, gae_lambda=0.0)).digest
            for g in (0.9, 0.5)
        ]
        assert digests[0] == digests[1], "at gamma=0 gae_lambda changes what is learned"
        assert swapped[0] != swapped[1], "at gae_lambda=0 gamma changes nothing"

    @pytest.mark.parametrize("bound", ["max_grad_norm", "value_clip_range", "target_kl"])
    def test_null_is_a_huge_bound(self, algorithm: str, bound: str) -> None:
        """Weights are the same, to the last bit, without a bound and with one that nothing meets."""
        base = base_hyperparameters(self.framework, algorithm)
        runs = [with_value(self.framework, algorithm, base, bound, v) for v in (None, _HUGE)]
        if runs[0] is None or runs[1] is None:
            pytest.skip(f"{self.framework}'s {algorithm} does not take {bound} both ways")
        none, huge = (train(self.framework, algorithm, hp) for hp in runs)
        if bound == "value_clip_range":  # its arithmetic rounds, even where nothing is cut
            for name, value in none.weights.items():
                assert huge.weights[name] == pytest.approx(value, rel=1e-2, abs=1e-3), name
        else:
            assert none.digest == huge.digest, f"{bound}=null is not {bound}={_HUGE:g}"

    def test_rewards_are_not_scaled(self, algorithm: str) -> None:
        """Without gamma, a thousandfold reward gives a loss of about its square."""
        hp = self._with(algorithm, gamma=0.0, gae_lambda=0.0, vf_coef=1.0)
        losses = observe(self.framework, algorithm, hp, reward_scale=_LOUD).losses
        assert losses, "nothing was differentiated"
        share = max(np.abs(losses)) / _LOUD**2
        # Rewards of the task are near 0.3; losses have factors of 1/2 to 2.
        assert 0.005 < share < 2, f"losses are {share:.2g} times the square of the rewards' scale"

    def test_targets_start_equal_to_their_networks(self, off_policy_algorithm: str) -> None:
        """Each target has the numbers of an online network before the first update."""
        base = base_hyperparameters(self.framework, off_policy_algorithm)
        weights = observe(self.framework, off_policy_algorithm, base).at_first
        targets = {name: value for name, value in weights.items() if "target" in name}
        assert targets, "there are no targets"
        online = [value for name, value in weights.items() if name not in targets]
        for name, value in targets.items():
            assert any(np.array_equal(value, other) for other in online), f"{name} is no copy"

    def test_random_actions_are_distinct_and_spread(self, off_policy_algorithm: str) -> None:
        """The warm-up draws each action anew, uniformly between the bounds."""
        base = base_hyperparameters(self.framework, off_policy_algorithm)
        count = getattr(base, "learning_starts", 0)
        actions = train(self.framework, off_policy_algorithm, base).actions[:count]
        assert len(actions) >= _RANDOM, f"only {len(actions)} steps of warm-up could be had"
        distinct = len(np.unique(actions, axis=0))
        assert distinct > 0.9 * len(actions), f"{distinct} of {len(actions)} actions are distinct"
        task = load_task(Circumstances().env_id)
        shares = (actions - task.action_low) / (np.array(task.action_high) - task.action_low)
        assert np.abs(shares.mean(axis=0) - 0.5).max() < 0.15, "random actions lie on one side"
        # Uniform numbers have a deviation of 0.29 of their range.
        assert np.abs(shares.std(axis=0) - 0.29).max() < 0.1, "random actions are not uniform"

    def test_actions_scatter_about_the_greedy_one(self, algorithm: str) -> None:
        """The median of what exploration adds is near 0."""
        base = base_hyperparameters(self.framework, algorithm)
        trained = train(self.framework, algorithm, base, ask=True)
        added = trained.noise[getattr(base, "learning_starts", 0) + 4 :]
        off = np.abs(np.median(added, axis=0)).max()
        assert off < 0.3, f"actions lie {off:.2f} of half the range beside the greedy one"

    def test_actions_reach_the_bounds(self, algorithm: str) -> None:
        """Those of the greedy policy far away, or, where it is bounded itself, of training."""
        base = base_hyperparameters(self.framework, algorithm)
        trained = train(self.framework, algorithm, base, env_id=NARROW_ENV_ID)
        task, on_policy = load_task(NARROW_ENV_ID), ALGORITHMS[algorithm].family != "off-policy"
        seen = trained.actions if on_policy else trained.far
        for found, bound in ((seen.min(), task.action_low[0]), (seen.max(), task.action_high[0])):
            assert found == pytest.approx(bound, rel=0.05), f"actions go to {found:.3g} of {bound}"

    def test_minibatches_have_the_size_asked_for(self, algorithm: str) -> None:
        """A layer sees as many rows as were asked for before the first update."""
        base = base_hyperparameters(self.framework, algorithm)
        field = "batch_size" if hasattr(base, "batch_size") else "minibatch_size"
        sizes = (_ODD, 32) if field == "batch_size" else (32,)
        for size in sizes:
            hp = with_value(self.framework, algorithm, base, field, size)
            if hp is not None:
                rows = observe(self.framework, algorithm, hp).rows
                assert size in rows, f"{field}={size}: layers saw {sorted(rows)} rows"
                return
        pytest.fail(f"{field} takes none of {sizes}")

    def test_normalising_wrappers_change_what_is_learned(self, algorithm: str) -> None:
        """`wrappers=normalized` reaches what the framework trains on."""
        base = base_hyperparameters(self.framework, algorithm)
        plain, normalised = (
            train(self.framework, algorithm, base, wrappers=wrappers).digest
            for wrappers in ("none", "normalized")
        )
        assert plain != normalised

    def _digest(self, algorithm: str, **values: float) -> str:
        return train(self.framework, algorithm, self._with(algorithm, **values)).digest

    def _with(self, algorithm: str, **values: float) -> Any:
        hp = base_hyperparameters(self.framework, algorithm)
        for field, value in values.items():
            hp = with_value(self.framework, algorithm, hp, field, value) or hp
        return hp
