"""Tests that tasks with image observations or further kinds of actions are supported or refused."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parallax.envs.scripted import IMAGE_ENV_ID
from parallax.harness.conformance.resuming import check_killed_run
from parallax.harness.conformance.run_folders import (
    check_last_evaluation_again,
    prepare_scripted_run,
    record_run,
)
from parallax.harness.conformance.trainings import (
    SCRIPTED_TASKS,
    make_base_hyperparameters,
    observe_training,
    train_algorithm,
    translate_hyperparameters,
)
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import SpecError
from parallax.harness.record.reading import read_run

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
        asked: Any = dataclasses.replace(prepared.hyperparameters, conv_filters=(4, 5))
        weights = train_algorithm(self.framework, image_algorithm, asked, **_ON_IMAGES).weights
        kernels = {name: value for name, value in weights.items() if value.ndim == 4}
        # Frameworks order the axes of a kernel differently.
        shapes = {tuple(sorted(value.shape)) for value in kernels.values()}
        assert shapes == {tuple(sorted((4, channels, 3, 3))), (3, 3, 4, 5)}
        has_targets = ALGORITHMS[image_algorithm].has_targets
        assert any("target" in name for name in kernels) == has_targets
        # Train without updates, or with a learning rate too small to change a weight.
        still = {"learning_starts": 10**6} if has_targets else {"learning_rate": 1e-30}
        before: Any = dataclasses.replace(asked, **still)
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
        around = {"env_id": SCRIPTED_TASKS[kind]}
        base: Any = make_base_hyperparameters(self.framework, algorithm)
        native = translate_hyperparameters(self.framework, algorithm, base, **around)
        seen = observe_training(self.framework, algorithm, base, **around)
        assert seen.update_schedule == native.update_schedule
        slower = dataclasses.replace(base, learning_rate=base.learning_rate / 2)
        both = [train_algorithm(self.framework, algorithm, h, **around) for h in (base, slower)]
        assert both[0].digest != both[1].digest

    @pytest.mark.long
    def test_run_with_further_actions_that_is_killed_ends_as_one_that_is_not(
        self, further_actions: tuple[str, str], tmp_path: Path
    ) -> None:
        """Weights, evaluations and trace are the same to the last byte."""
        algorithm, kind = further_actions
        check_killed_run(self.framework, algorithm, tmp_path / "run", env=SCRIPTED_TASKS[kind])
