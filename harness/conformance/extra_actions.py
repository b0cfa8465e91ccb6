"""Kinds of actions that an algorithm takes besides those that it is known for."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parallax.harness.conformance.resuming import check_killed_run
from parallax.harness.conformance.run_folders import record_run
from parallax.harness.conformance.trainings import (
    SCRIPTED_TASKS,
    make_base_hyperparameters,
    observe_training,
    train_algorithm,
    translate_hyperparameters,
)
from parallax.harness.policies.evaluation import (
    EvaluationConditions,
    evaluate_loaded_policy,
    get_recorded_returns,
    has_same_returns,
)
from parallax.harness.policies.loading import NotLoadableError, load_policy
from parallax.harness.record.reading import read_run


class ExtraActionConformance:
    """Algorithms with further kinds of actions, on the scripted task with actions of that kind."""

    framework: str

    def test_run_with_further_actions_is_learned_from_and_played_again(
        self, further_actions: tuple[str, str]
    ) -> None:
        """A run in a process of its own ends as one here, and its policy plays again."""
        algorithm, kind = further_actions
        done = record_run(self.framework, algorithm, SCRIPTED_TASKS[kind])
        assert done.outcome.status == "completed", done.outcome.failure
        bare = train_algorithm(
            self.framework, algorithm, done.prepared.hyperparameters, env_id=SCRIPTED_TASKS[kind]
        )
        assert read_run(done.folder).content["weights_sha256"] == bare.digest
        if kind == "discrete":
            choices = done.prepared.context.task.choices
            assert bare.greedy.dtype == np.int64
            assert set(bare.greedy.tolist()) <= set(range(choices))
        try:
            policy = load_policy(done.folder)
        except NotLoadableError as reason:
            pytest.skip(str(reason))
        again = evaluate_loaded_policy(policy, EvaluationConditions())
        assert has_same_returns(again, get_recorded_returns(policy))

    def test_updates_of_further_actions_are_counted(self, further_actions: tuple[str, str]) -> None:
        """As many updates are made as the translation announces, and a learning rate matters."""
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
