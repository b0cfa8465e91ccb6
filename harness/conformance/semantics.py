"""Tests of the meaning of hyperparameters, rewards, actions and targets, and of determinism.

Tasks with images or further kinds of actions are trained as they are, or refused.
"""

import dataclasses
import random
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parallax.envs.scripted import ENV_ID, IMAGE_ENV_ID, NARROW_ENV_ID, PUSHES, SKEWED_ENV_ID
from parallax.envs.tasks import load_task
from parallax.harness.conformance.run_folders import (
    check_killed_run,
    check_last_evaluation_again,
    prepare_scripted_run,
    record_run,
)
from parallax.harness.conformance.trainings import (
    SCRIPTED_TASKS,
    get_scripted_task,
    make_base_hyperparameters,
    make_training_conditions,
    observe_training,
    replace_hyperparameter,
    train_algorithm,
    train_uncached,
    translate_hyperparameters,
)
from parallax.harness.contract.adapter import Weights
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import SpecError
from parallax.harness.probes.catalogue import PROBES
from parallax.harness.probes.experiments import ExperimentCache
from parallax.harness.probes.probe import UnmeasuredError
from parallax.harness.probes.td3.experiments import run_target_smoothing
from parallax.harness.record.reading import read_run

_HUGE_BOUND = 1e9
_REWARD_SCALE = 1e3
_ODD_BATCH_SIZE = 23
_TINY_DISCOUNT = 1e-3  # some frameworks cannot compute with 0
_MIN_RANDOM_ACTIONS = 64


class SemanticsConformance:
    """Tests of the meaning of hyperparameters, rewards, actions and targets."""

    framework: str

    def test_lambda_has_no_effect_without_gamma(self, algorithm: str) -> None:
        """Advantages have weights (gamma lambda)^k: small gamma shows if the two are swapped."""
        base = make_base_hyperparameters(self.framework, algorithm)
        if not hasattr(base, "gae_lambda"):
            pytest.skip(f"{algorithm} has no gae_lambda")
        by_lambda = self._measure_weight_difference(
            algorithm, ({"gamma": _TINY_DISCOUNT, "gae_lambda": x} for x in (0.9, 0.5))
        )
        by_gamma = self._measure_weight_difference(
            algorithm, ({"gamma": x, "gae_lambda": _TINY_DISCOUNT} for x in (0.9, 0.5))
        )
        assert by_lambda < 0.3 * by_gamma, (
            f"weights change by {by_lambda:.2g} with gae_lambda where gamma is {_TINY_DISCOUNT}, "
            f"and by {by_gamma:.2g} with gamma where gae_lambda is"
        )

    @pytest.mark.parametrize("bound", ["max_grad_norm", "value_clip_range", "target_kl"])
    def test_null_is_a_huge_bound(self, algorithm: str, bound: str) -> None:
        """Weights are equal to the last bit without a bound and with one that is never reached."""
        base = make_base_hyperparameters(self.framework, algorithm)
        unbounded, bounded = (
            replace_hyperparameter(self.framework, algorithm, base, bound, value)
            for value in (None, _HUGE_BOUND)
        )
        if unbounded is None or bounded is None:
            pytest.skip(f"{self.framework}'s {algorithm} does not take {bound} both ways")
        none, huge = (train_algorithm(self.framework, algorithm, hp) for hp in (unbounded, bounded))
        if bound == "value_clip_range":  # its arithmetic rounds, even if nothing is clipped
            for name, value in none.weights.items():
                assert huge.weights[name] == pytest.approx(value, rel=1e-2, abs=1e-3), name
        else:
            assert none.digest == huge.digest, f"{bound}=null is not {bound}={_HUGE_BOUND:g}"

    def test_rewards_are_not_scaled(self, algorithm: str) -> None:
        """With gamma near 0, rewards scaled by 1000 give losses scaled by about its square.

        Losses that are linear in large errors are scaled by about the factor itself.
        """
        hp = self._make_hyperparameters(
            algorithm, gamma=_TINY_DISCOUNT, gae_lambda=_TINY_DISCOUNT, vf_coef=1.0
        )
        losses = observe_training(self.framework, algorithm, hp, reward_scale=_REWARD_SCALE).losses
        assert losses, "nothing was differentiated"
        linear = getattr(hp, "huber_delta", None) is not None
        share = max(np.abs(losses)) / (_REWARD_SCALE if linear else _REWARD_SCALE**2)
        # Rewards of the task are near 0.3; losses have factors of 1/2 to 2.
        assert 0.005 < share < 2, f"losses are {share:.2g} times what the rewards' scale makes"

    def test_targets_start_equal_to_their_networks(self, off_policy_algorithm: str) -> None:
        """Before the first update, each target parameter equals one of an online network."""
        base = make_base_hyperparameters(self.framework, off_policy_algorithm)
        weights = observe_training(self.framework, off_policy_algorithm, base).initial_weights
        targets = {name: value for name, value in weights.items() if "target" in name}
        assert targets, "there are no targets"
        online = [value for name, value in weights.items() if name not in targets]
        for name, value in targets.items():
            assert any(np.array_equal(value, other) for other in online), f"{name} is not a copy"

    def test_random_actions_are_distinct_and_spread(self, off_policy_algorithm: str) -> None:
        """The warm-up draws each action independently, uniformly between the bounds."""
        _skip_discrete_actions(off_policy_algorithm)
        base = make_base_hyperparameters(self.framework, off_policy_algorithm)
        count = getattr(base, "learning_starts", 0)
        actions = train_algorithm(self.framework, off_policy_algorithm, base).actions[:count]
        assert len(actions) >= _MIN_RANDOM_ACTIONS, (
            f"only {len(actions)} steps of warm-up could be had"
        )
        distinct = len(np.unique(actions, axis=0))
        assert distinct > 0.9 * len(actions), f"{distinct} of {len(actions)} actions are distinct"
        task = load_task(get_scripted_task(off_policy_algorithm))
        shares = (actions - task.action_low) / (np.array(task.action_high) - task.action_low)
        assert np.abs(shares.mean(axis=0) - 0.5).max() < 0.15, "random actions lie on one side"
        # Uniform numbers have a deviation of 0.29 of their range.
        assert np.abs(shares.std(axis=0) - 0.29).max() < 0.1, "random actions are not uniform"

    def test_actions_scatter_about_the_greedy_one(self, algorithm: str) -> None:
        """The median of the exploration noise is near 0."""
        _skip_discrete_actions(algorithm)
        base = make_base_hyperparameters(self.framework, algorithm)
        trained = train_algorithm(self.framework, algorithm, base, queries_policy=True)
        added = trained.noise[getattr(base, "learning_starts", 0) + 4 :]
        off = np.abs(np.median(added, axis=0)).max()
        assert off < 0.3, f"actions lie {off:.2f} of half the range beside the greedy one"

    def test_actions_reach_the_bounds(self, algorithm: str) -> None:
        """Training actions reach a narrow range's bounds, greedy ones do at far observations."""
        _skip_discrete_actions(algorithm)
        base = make_base_hyperparameters(self.framework, algorithm)
        trained = train_algorithm(self.framework, algorithm, base, env_id=NARROW_ENV_ID)
        task = load_task(NARROW_ENV_ID)
        low, high = task.action_low[0], task.action_high[0]
        reached = [float(trained.actions.min()) / low, float(trained.actions.max()) / high]
        assert min(reached) > 0.95, f"training goes to {reached} of the bounds"
        if ALGORITHMS[algorithm].family == "off-policy":
            # Small networks may favour one side; on that side they must reach the bound.
            greedy = float(np.abs(trained.far).max()) / high
            assert greedy > 0.95, f"the greedy policy goes to {greedy:.2f} of the bounds far away"

    def test_minibatches_have_the_requested_size(self, algorithm: str) -> None:
        """A layer sees the configured number of rows before the first update."""
        base = make_base_hyperparameters(self.framework, algorithm)
        field = "batch_size" if hasattr(base, "batch_size") else "minibatch_size"
        sizes = (_ODD_BATCH_SIZE, 32) if field == "batch_size" else (32,)
        for size in sizes:
            hp = replace_hyperparameter(self.framework, algorithm, base, field, size)
            if hp is not None:
                rows = observe_training(self.framework, algorithm, hp).rows
                assert size in rows, f"{field}={size}: layers saw {sorted(rows)} rows"
                return
        pytest.fail(f"{field} takes none of {sizes}")

    def test_normalising_wrappers_change_what_is_learned(self, algorithm: str) -> None:
        """`wrappers=normalized` reaches what the framework trains on."""
        base = make_base_hyperparameters(self.framework, algorithm)
        plain, normalised = (
            train_algorithm(self.framework, algorithm, base, wrappers=wrappers).digest
            for wrappers in ("none", "normalized")
        )
        assert plain != normalised, "wrappers=normalized changes nothing"

    def _measure_weight_difference(
        self, algorithm: str, settings: Iterable[dict[str, float]]
    ) -> float:
        one, other = (self._train_weights(algorithm, **values) for values in settings)
        return max(float(np.abs(one[name] - other[name]).max()) for name in one)

    def _train_weights(self, algorithm: str, **values: float) -> Weights:
        return train_algorithm(
            self.framework, algorithm, self._make_hyperparameters(algorithm, **values)
        ).weights

    def _make_hyperparameters(self, algorithm: str, **values: float) -> Any:
        hp = make_base_hyperparameters(self.framework, algorithm)
        for field, value in values.items():
            hp = replace_hyperparameter(self.framework, algorithm, hp, field, value) or hp
        return hp


def _skip_discrete_actions(algorithm: str) -> None:
    if ALGORITHMS[algorithm].actions == "discrete":
        pytest.skip("its actions are discrete")


_NOISE_PROBES = {
    "target_policy_noise": "td3.target_noise_scale",
    "target_noise_clip": "td3.target_noise_clip",
}


class TargetNoiseConformance:
    """Tests of target noise, which needs probes because it cannot be observed from outside."""

    framework: str

    @pytest.mark.parametrize("noise", _NOISE_PROBES)
    def test_target_noise_is_a_share_of_half_the_range(self, noise: str) -> None:
        """With actions from -1 to 3, noise has the configured scale and clipping."""
        adapter = load_adapter(self.framework)
        algorithm = _NOISE_PROBES[noise].partition(".")[0]
        if not adapter.supports(algorithm):
            pytest.skip(f"{self.framework} has no {algorithm}, which alone has noise in targets")
        if not adapter.is_probeable:
            pytest.skip(f"{self.framework} cannot be probed: {noise} was not checked")
        cache = ExperimentCache(adapter)
        (probe,) = (probe for probe in PROBES if probe.name == _NOISE_PROBES[noise])
        try:
            measured = float(probe.measure(cache).value[0])
        except UnmeasuredError as reason:
            pytest.skip(f"{noise} was not checked: {reason}")
        requested = getattr(run_target_smoothing(cache, 0).hyperparameters, noise)
        assert measured == pytest.approx(requested, rel=1e-3), (
            f"{noise}: {measured:.3g} of half the range where {requested:g} was requested"
        )


class DeterminismConformance:
    """Tests of determinism and action bounds."""

    framework: str

    def test_same_seed_gives_the_same_weights_whatever_ran_before(self, algorithm: str) -> None:
        """Global random states and earlier runs have no effect."""
        base = make_base_hyperparameters(self.framework, algorithm)
        first = train_algorithm(self.framework, algorithm, base)
        _stir_global_random_states()
        second = train_uncached(
            self.framework, algorithm, base, make_training_conditions(algorithm)
        )
        assert first.digest == second.digest

    def test_other_seed_gives_other_weights(self, algorithm: str) -> None:
        """The seed has an effect on initialisation, exploration or sampling."""
        base = make_base_hyperparameters(self.framework, algorithm)
        digests = {
            train_algorithm(self.framework, algorithm, base, seed=seed).digest for seed in (0, 1, 2)
        }
        assert len(digests) == 3

    def test_asking_the_policy_changes_nothing(self, algorithm: str) -> None:
        """Calling the greedy policy before every step, inside the environment, has no effect."""
        base = make_base_hyperparameters(self.framework, algorithm)
        quiet = train_algorithm(self.framework, algorithm, base)
        queried = train_algorithm(self.framework, algorithm, base, queries_policy=True)
        assert quiet.digest == queried.digest

    def test_greedy_action_depends_on_the_observation_alone(self, algorithm: str) -> None:
        """It depends neither on chance nor on an observation's position in the batch."""
        trained = train_algorithm(
            self.framework, algorithm, make_base_hyperparameters(self.framework, algorithm)
        )
        scale = float(np.abs(trained.greedy).max())
        assert trained.greedy_reversed == pytest.approx(trained.greedy, rel=1e-4, abs=1e-4 * scale)

    @pytest.mark.parametrize("env_id", [ENV_ID, NARROW_ENV_ID, SKEWED_ENV_ID])
    def test_actions_are_within_bounds(self, algorithm: str, env_id: str) -> None:
        """Training and greedy actions are within bounds of +-3, +-0.4, and -1 and 3."""
        base = make_base_hyperparameters(self.framework, algorithm)
        if ALGORITHMS[algorithm].actions == "discrete":
            pytest.skip("its actions are discrete")
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
        """Training and greedy actions are valid choices; the greedy policy returns int64."""
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


_ON_IMAGES = {"env_id": IMAGE_ENV_ID, "patch_constants": True}
"""Conditions of trainings; patches are needed as scripts have layers for images of one size."""


class ImageConformance:
    """Tests of algorithms with `conv_filters` on a scripted task with images of booleans."""

    framework: str

    def test_images_are_learned_from_or_refused(self, image_algorithm: str) -> None:
        """A run in its own process has the same weights; its policy repeats its evaluation."""
        _skip_if_refused(self.framework, image_algorithm)
        done = record_run(self.framework, image_algorithm, IMAGE_ENV_ID)
        assert done.outcome.status == "completed", done.outcome.failure
        assert read_run(done.folder).content["weights_sha256"] == done.train_bare().digest
        check_last_evaluation_again(done.folder)

    def test_conv_filters_reach_every_network(self, image_algorithm: str) -> None:
        """Networks and targets have the configured kernels, over all channels, and they learn."""
        prepared = _skip_if_refused(self.framework, image_algorithm)
        channels = prepared.context.task.image[0]
        changed: Any = dataclasses.replace(prepared.hyperparameters, conv_filters=(4, 5))
        weights = train_algorithm(self.framework, image_algorithm, changed, **_ON_IMAGES).weights
        kernels = {name: value for name, value in weights.items() if value.ndim == 4}
        # Frameworks order the axes of a kernel differently.
        shapes = {tuple(sorted(value.shape)) for value in kernels.values()}
        assert shapes == {tuple(sorted((4, channels, 3, 3))), (3, 3, 4, 5)}
        has_targets = ALGORITHMS[image_algorithm].has_targets
        assert any("target" in name for name in kernels) == has_targets
        # Train without updates, or with a learning rate too small to change a weight.
        still = {"learning_starts": 10**6} if has_targets else {"learning_rate": 1e-30}
        before: Any = dataclasses.replace(changed, **still)
        unlearned = train_algorithm(self.framework, image_algorithm, before, **_ON_IMAGES).weights
        online = [name for name in kernels if "target" not in name]
        assert all((kernels[name] != unlearned[name]).any() for name in online)

    def test_run_on_images_that_is_killed_ends_as_one_that_is_not(
        self, image_algorithm: str, tmp_path: Path
    ) -> None:
        """Weights, evaluations and trace are the same to the last byte."""
        _skip_if_refused(self.framework, image_algorithm)
        check_killed_run(self.framework, image_algorithm, tmp_path / "run", env=IMAGE_ENV_ID)


def _skip_if_refused(framework: str, algorithm: str) -> Any:
    """Return the prepared run, or skip the test if images are refused by name."""
    try:
        return prepare_scripted_run(
            framework, algorithm, env=IMAGE_ENV_ID, steps=128, eval_every=32
        )
    except SpecError as refusal:
        named = IMAGE_ENV_ID in str(refusal) or "conv_filters" in str(refusal)
        assert named and framework in str(refusal), f"the refusal does not say of what: {refusal}"
        pytest.skip(f"refused by name: {refusal}")


class ExtraActionConformance:
    """Tests of algorithms with further kinds of actions, on the scripted task with these."""

    framework: str

    def test_run_with_further_actions_is_learned_from_and_played_again(
        self, further_actions: tuple[str, str]
    ) -> None:
        """A run in its own process has the same weights; its policy repeats its evaluation."""
        algorithm, kind = further_actions
        done = record_run(self.framework, algorithm, SCRIPTED_TASKS[kind])
        assert done.outcome.status == "completed", done.outcome.failure
        bare = done.train_bare()
        assert read_run(done.folder).content["weights_sha256"] == bare.digest
        if kind == "discrete":
            choices = done.prepared.context.task.choices
            assert bare.greedy.dtype == np.int64
            assert set(bare.greedy.tolist()) <= set(range(choices))
        check_last_evaluation_again(done.folder)

    def test_updates_of_further_actions_are_counted(self, further_actions: tuple[str, str]) -> None:
        """The number of updates is the announced one, and the learning rate has an effect."""
        algorithm, kind = further_actions
        conditions = {"env_id": SCRIPTED_TASKS[kind]}
        base: Any = make_base_hyperparameters(self.framework, algorithm)
        native = translate_hyperparameters(self.framework, algorithm, base, **conditions)
        seen = observe_training(self.framework, algorithm, base, **conditions)
        assert seen.update_schedule == native.update_schedule
        slower = dataclasses.replace(base, learning_rate=base.learning_rate / 2)
        both = [train_algorithm(self.framework, algorithm, h, **conditions) for h in (base, slower)]
        assert both[0].digest != both[1].digest

    @pytest.mark.long
    def test_run_with_further_actions_that_is_killed_ends_as_one_that_is_not(
        self, further_actions: tuple[str, str], tmp_path: Path
    ) -> None:
        """Weights, evaluations and trace are the same to the last byte."""
        algorithm, kind = further_actions
        check_killed_run(self.framework, algorithm, tmp_path / "run", env=SCRIPTED_TASKS[kind])
