"""Probes of DDPG's updates: those of TD3 with one critic, and weight decay."""

from collections.abc import Sequence

import numpy as np

from harness.probes.contract import Step
from harness.probes.ddpg import trainings
from harness.probes.ddpg.trainings import ALGORITHM, DECAY, PAPER
from harness.probes.lab import Lab, Run
from harness.probes.probe import Measurement, Probe, relation
from harness.probes.readings import UPDATES, batch
from harness.probes.shared import critics, single
from harness.probes.shared.critics import Targets, Terms, with_ends
from harness.probes.shared.optimizers import adam_shares
from harness.probes.td3 import update as td3

SMOOTHED = 0.2
"""TD3's noise in next actions, which DDPG does not have."""


def targets(run: Run, step: Step) -> Targets:
    """The paper's targets of an update, and others by what they are."""
    (paper,) = td3.next_values(run, step, "policy_target", "_target", 0.0)
    values = {
        "noise in the next action": td3.next_values(
            run, step, "policy_target", "_target", SMOOTHED
        )[0],
        "the online policy's next action": td3.next_values(run, step, "policy", "_target", 0.0)[0],
        "the online critic's value": td3.next_values(run, step, "policy_target", "", 0.0)[0],
        "online policy and critic": td3.next_values(run, step, "policy", "", 0.0)[0],
    }
    return with_ends(run, step, paper, values)


def terms(run: Run, step: Step) -> Terms:
    """What the paper's targets are summed from, with their weights."""
    (value,) = td3.next_values(run, step, "policy_target", "_target", 0.0)
    gamma = run.hyperparameters.gamma
    return {"reward": (batch(run, step).rewards, 1.0), "next value": (value, gamma)}


def _weight_decay(lab: Lab) -> Measurement:
    run = trainings.decaying(lab)
    networks = ("policy", "critic1")
    shares = [adam_shares(run, name, DECAY) for name in networks]
    value = np.array(shares)
    return Measurement(value, np.ones_like(value))


QUESTIONS = critics.Questions(
    "ddpg",
    trainings.update,
    trainings.loud,
    trainings.learning_copies,
    trainings.full,
    targets,
    terms,
    ALGORITHM,
    half=False,
    reader=single.reader(trainings.bandit),
    plain=trainings.bandit,
)
PROBES: Sequence[Probe] = (
    *QUESTIONS.probes(),
    Probe(
        "ddpg.policy_terms",
        "What does the policy climb?",
        f"{ALGORITHM}: the critic",
        f"weight of the critic, in the first {UPDATES} steps",
        lambda lab: td3.climbed(lab, "ddpg"),
        relation("weight of the critic"),
        tolerance=5e-4,
    ),
    critics.policy_clipping_probe("ddpg", lambda lab: td3.policy_clipping(lab, "ddpg"), ALGORITHM),
    critics.critics_seen_probe("ddpg", lambda lab: td3.critics_seen(lab, "ddpg"), ALGORITHM),
    Probe(
        "ddpg.weight_decay",
        f"What does a weight decay of {DECAY} of policy and critic do to a step?",
        f"{PAPER}, section 7: L2 weight decay, a part of the gradient",
        f"share of Adam's step with that gradient, in the first {UPDATES} steps: policy, critic",
        _weight_decay,
        lambda comparison, measurement: "steps go elsewhere than Adam's with an L2 penalty",
        tolerance=1e-3,
    ),
)
