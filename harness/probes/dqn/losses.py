"""Probes of DQN's loss: its shape, what clips it, and how a network with two heads splits it."""

from collections.abc import Callable, Sequence

import numpy as np

from harness.probes.contract import Step
from harness.probes.dqn import trainings
from harness.probes.dqn.trainings import LOUD, NORM, PAPER
from harness.probes.lab import Lab, Run
from harness.probes.networks import RELU
from harness.probes.probe import Measurement, Probe, Unmeasured, listed, relation
from harness.probes.readings import batch, critic_updates
from harness.probes.results import Array, Axis
from harness.probes.shared.critics import Reader
from harness.probes.shared.single import predictions_and_pulls

BENT = 0.999
"""Share of the largest pull from which a loss may be linear: no error can be read there."""
NEAR, FEW = 0.4, 0.02
"""Errors between these, as shares of the largest pull, tell the slope near 0."""
CURVE = ("pull per error, near 0", "error from which the pull is constant, 0 for none")


def errors_and_pulls(run: Run, step: Step) -> tuple[Array, Array]:
    """Errors of a training without a future, and derivatives of the loss by predictions.

    Args:
        run: One with a discount of 0.
        step: Of the network.

    Returns:
        Both float[rows], in ascending order of the errors.
    """
    predictions, pulls = predictions_and_pulls(run, step)
    errors = predictions - batch(run, step).rewards
    order = np.argsort(errors)
    return errors[order], pulls[order]


def fitted(errors: Array, pulls: Array) -> tuple[float, float]:
    """Pull per error near 0, and the error from which the pull is constant, 0 for none.

    Raises:
        Unmeasured: Nothing pulls.
    """
    largest = np.abs(errors).max()
    near = (np.abs(errors) < NEAR * largest / 4) & (np.abs(errors) > FEW * largest / 4)
    near = near if near.any() else np.abs(errors) <= np.sort(np.abs(errors))[2]
    slope = float(np.median(pulls[near] / errors[near]))
    if not slope:
        raise Unmeasured("values of the actions that were taken are not drawn to anything")
    flat = np.abs(pulls) > BENT * np.abs(pulls).max()
    return slope, float(np.abs(pulls).max() / slope) if flat.sum() > 1 else 0.0


def expected_pulls(errors: Array, slope: float, bend: float) -> Array:
    """Derivatives of a loss that is squared near 0 and linear from an error on; 0 for never."""
    return np.asarray(slope * (np.clip(errors, -bend, bend) if bend else errors))


def _first(run: Run) -> tuple[Array, Array]:
    return errors_and_pulls(run, critic_updates(run)[0])


def _shape(lab: Lab) -> Measurement:
    # The updates after the first show whether gradients are left over.
    run = trainings.bandit(lab)
    read = [errors_and_pulls(run, step) for step in critic_updates(run)]
    errors, pulls = (np.concatenate(arrays) for arrays in zip(*read, strict=True))
    return Measurement(pulls, np.clip(errors, -1, 1), Axis("error", errors), _losses(errors))


def _losses(errors: Array) -> dict[str, Array]:
    return {
        "the squared error, without a bend": 2 * errors,
        "half the squared error, without a bend": errors,
        "the absolute error": np.sign(errors),
        "twice the paper's": 2 * np.clip(errors, -1, 1),
    }


def _huber(runner: Callable[[Lab], Run], delta: float) -> Callable[[Lab], Measurement]:
    def measure(lab: Lab) -> Measurement:
        errors, pulls = _first(runner(lab))
        others = {
            f"divided by {delta:g}": np.clip(errors, -delta, delta) / delta,
            "linear from 1 on": np.clip(errors, -1, 1),
        }
        expected = np.clip(errors, -delta, delta)
        return Measurement(pulls, expected, Axis("error", errors), others)

    return measure


def _curve(lab: Lab) -> Measurement:
    slope, bend = fitted(*_first(trainings.bandit(lab)))
    return Measurement(np.array([slope, bend]).round(5), np.array([1.0, 1.0]))


def _clipping(lab: Lab) -> Measurement:
    run = trainings.loud(lab)
    slope, bend = fitted(*_first(trainings.bandit(lab)))
    shares = []
    for step in critic_updates(run)[:2]:
        errors, pulls = errors_and_pulls(run, step)
        shares.append(float(np.median(pulls / expected_pulls(errors, slope, bend))))
    return Measurement(np.array(shares), np.ones(len(shares)))


def _norm(lab: Lab) -> Measurement:
    steps = critic_updates(trainings.clipped(lab))[:2]
    norms = [np.sqrt(sum(np.sum(g**2) for g in step.gradients.values())) for step in steps]
    return Measurement(np.array(norms), np.full(len(norms), NORM))


def _rewards(lab: Lab) -> Measurement:
    run = trainings.rewarded(lab)
    slope, bend = fitted(*_first(trainings.bandit(lab)))
    step = critic_updates(run)[0]
    predictions, pulls = predictions_and_pulls(run, step)
    rewards = batch(run, step).rewards
    known = {
        "rewards are cut at -1 and 1": np.clip(rewards, -1, 1),
        "the signs of rewards": np.sign(rewards),
    }
    others = {name: expected_pulls(predictions - r, slope, bend) for name, r in known.items()}
    expected = expected_pulls(predictions - rewards, slope, bend)
    return Measurement(pulls, expected, Axis("reward", rewards), others)


def _head_pulls(lab: Lab) -> Measurement:
    run = trainings.dueling(lab)
    step = critic_updates(run)[0]
    weights, data = step.before, batch(run, step)
    body = RELU(data.observations @ weights["critic1.0.weight"].T + weights["critic1.0.bias"])
    pulls = {head: pull_of_head(step, body, head) for head in ("advantage", "value")}
    taken = np.eye(pulls["advantage"].shape[1])[data.actions[:, 0].astype(int)]
    value = pulls["value"]
    hidden = RELU(
        body @ weights["critic1.advantage0.weight"].T + weights["critic1.advantage0.bias"]
    )
    advantages = hidden @ weights["critic1.advantage.weight"].T + weights["critic1.advantage.bias"]
    best = np.eye(taken.shape[1])[advantages.argmax(axis=1)]
    others = {
        "advantages without their mean taken off": value * taken,
        "the largest advantage is taken off": value * (taken - best),
    }
    return Measurement(pulls["advantage"], value * (taken - 1 / taken.shape[1]), None, others)


def pull_of_head(step: Step, body: Array, head: str) -> Array:
    """Gradients of the loss by the outputs of one head, solved from its last layer's.

    Args:
        step: Of a network with two heads.
        body: What both heads see, float[rows, units].
        head: `advantage` or `value`.

    Returns:
        float[rows, outputs], times the rows.
    """
    name = f"critic1.{head}"
    weights = step.before
    hidden = RELU(body @ weights[f"{name}0.weight"].T + weights[f"{name}0.bias"])
    system = np.vstack([hidden.T, np.ones(len(hidden))])
    known = np.vstack([step.gradients[f"{name}.weight"].T, step.gradients[f"{name}.bias"]])
    return np.asarray(np.linalg.lstsq(system, known, rcond=None)[0] * len(hidden))


def _target(lab: Lab, run: Run, step: Step) -> Array:
    # What predictions are drawn to; not a number where the loss is linear.
    slope, bend = fitted(*_first(trainings.bandit(lab)))
    predictions, pulls = predictions_and_pulls(run, step)
    read = predictions - pulls / slope
    return np.where(np.abs(pulls) < BENT * slope * bend, read, np.nan) if bend else read


def _slopes(run: Run, step: Step) -> Array:
    errors, pulls = errors_and_pulls(run, step)
    return pulls / errors


READER = Reader(_slopes, _target)
"""How DQN's targets are read, whatever its loss."""

PROBES: Sequence[Probe] = (
    Probe(
        "dqn.critic_loss",
        "How strongly is a value drawn to its target, by the error, by default?",
        f"{PAPER}, methods: by the error, which is cut at -1 and 1",
        "derivative of the loss by the prediction, times the minibatch size, in the first updates",
        _shape,
        relation("pull on the value"),
        tolerance=1e-3,
    ),
    Probe(
        "dqn.loss_numbers",
        "What is the slope of the loss near 0, and where does it become linear, by default?",
        f"{PAPER}, methods: 1, and from an error of 1 on",
        ", ".join(CURVE),
        _curve,
        listed(CURVE),
        tolerance=1e-2,
    ),
    *(
        Probe(
            f"dqn.huber_loss{suffix}",
            f"How strongly is a value drawn to its target, told to be linear from {delta:g} on?",
            "Huber 1964, eq. 2.6: by the error, which is cut there",
            "derivative of the loss by the prediction, times the minibatch size",
            _huber(runner, delta),
            relation("pull on the value"),
            tolerance=1e-3,
        )
        for suffix, delta, runner in (
            ("", 1.0, trainings.huber),
            ("_half", 0.5, trainings.narrow_huber),
        )
    ),
    Probe(
        "dqn.critic_gradient_clipping",
        "Are huge gradients clipped, by default?",
        f"{PAPER}: they are not",
        f"pull on values that are {LOUD:g} times as steep, as a share of what is due, in the "
        "first two updates",
        _clipping,
        relation("pull on steep values"),
        tolerance=0.01,
    ),
    Probe(
        "dqn.gradient_clipping",
        f"Which norm have gradients that are clipped at {NORM}?",
        "Pascanu et al. 2013 (arXiv:1211.5063), algorithm 1: that norm, over all layers",
        "norm, in the first two updates",
        _norm,
        relation("norm"),
        tolerance=1e-3,
    ),
    Probe(
        "dqn.reward_clipping",
        "How strongly is a value drawn to rewards beyond -1 and 1?",
        f"{PAPER}, methods: cuts rewards of Atari games there; here as the environment gives them",
        "derivative of the loss by the prediction, times the minibatch size",
        _rewards,
        relation("pull to large rewards"),
        tolerance=5e-3,
    ),
    Probe(
        "dqn.dueling_head",
        "How is a pull on a value shared out among the advantages of a duelling network?",
        "Wang et al. 2016 (arXiv:1511.06581), eq. 9: the mean of the advantages is taken off",
        "derivative of the loss by each advantage, times the minibatch size",
        _head_pulls,
        relation("pull on the advantages"),
        tolerance=1e-3,
    ),
)
