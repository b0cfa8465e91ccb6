"""Reading loss and target of a single critic off its gradients.

One gradient does not tell how strongly a critic is drawn from where it is drawn to. In a training
with a discount of 0 the target is the reward, so that its gradients tell the first; with that
known those of other trainings tell the second.
"""

from collections.abc import Callable

import numpy as np

from harness.probes.contract import Step
from harness.probes.lab import Lab, Run
from harness.probes.networks import HIDDEN, output, output_gradient
from harness.probes.readings import batch, critic_updates
from harness.probes.results import Array
from harness.probes.shared.critics import Reader

FAR = 0.2
"""Errors that are smaller, as a share of the largest, tell no slope."""


def predictions_and_pulls(run: Run, step: Step) -> tuple[Array, Array]:
    """Predictions of the critic, and derivatives of its loss by them times the rows.

    Args:
        run: The training.
        step: Of the critic.

    Returns:
        Both float[rows].
    """
    data, (_, activation) = batch(run, step), HIDDEN[run.experiment.algorithm]
    choosing = run.experiment.dictation.choices > 0
    inputs = data.observations if choosing else np.hstack([data.observations, data.actions])
    rows = np.arange(len(inputs))
    taken = data.actions[:, 0].astype(int) if choosing else np.zeros_like(rows)
    predictions = output(step.before, "critic1", inputs, activation)
    gradients = output_gradient(step.gradients, step.before, "critic1", inputs, activation)
    return predictions[rows, taken], gradients[rows, taken] * len(rows)


def slopes(run: Run, step: Step) -> Array:
    """Second derivatives of the loss in a training without a future, float[some rows]."""
    predictions, pulls = predictions_and_pulls(run, step)
    errors = predictions - batch(run, step).rewards
    far = np.abs(errors) > FAR * np.abs(errors).max()
    return np.asarray(pulls[far] / errors[far])


def reader(bandit: Callable[[Lab], Run]) -> Reader:
    """Reads the updates of an algorithm with one critic.

    Args:
        bandit: A training with a discount of 0.
    """

    def target(lab: Lab, run: Run, step: Step) -> Array:
        plain = bandit(lab)
        slope = np.median(slopes(plain, critic_updates(plain)[0]))
        predictions, pulls = predictions_and_pulls(run, step)
        return np.asarray(predictions - pulls / slope)

    return Reader(slopes, target)
