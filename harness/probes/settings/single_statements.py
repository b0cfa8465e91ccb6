"""Probes of single statements that no other probe decides."""

from collections.abc import Sequence

import numpy as np

from harness.probes import setups
from harness.probes.lab import Lab
from harness.probes.ppo import readings
from harness.probes.ppo import trainings as ppo_runs
from harness.probes.probe import Measurement, Probe, Unmeasured, listed, relation
from harness.probes.readings import critic_updates, critics
from harness.probes.results import Axis
from harness.probes.sac import trainings as sac_runs
from harness.probes.setups import HALF, HIGH, LOW
from harness.probes.td3 import trainings as td3_runs
from harness.probes.world import TRUNCATED

DELAY = 3


def _stored_reward(lab: Lab) -> Measurement:
    run = ppo_runs.truncated(lab)
    if "rewards" not in run.record.stored:
        raise Unmeasured("what it stores was not read")
    cut = [t for t in run.transitions[: ppo_runs.ROLLOUT] if t.end == TRUNCATED]
    rows = np.array([t.end == TRUNCATED for t in run.transitions[: ppo_runs.ROLLOUT]])
    given = np.array([t.reward for t in cut])
    following = readings.values(run.weights, np.array([t.next_observation for t in cut]))
    text = "the reward plus the discounted value of the state that was cut"
    others = {text: given + ppo_runs.GAMMA * following}
    return Measurement(run.record.stored["rewards"][rows], given, alternatives=others)


def exploration_unit(lab: Lab, algorithm: str = "td3") -> Measurement:
    """Actions with noise of a given size, against the paper's."""
    noises, run = td3_runs.NOISES, td3_runs.beyond(lab, algorithm)
    noisy = td3_runs.centres() + td3_runs.EXPLORATION * HALF * noises
    return Measurement(
        run.actions()[:, 0], np.clip(noisy, LOW[0], HIGH[0]), Axis("standard normal noise", noises)
    )


def _target_noise_source(lab: Lab) -> Measurement:
    # Exploration noise of another kind or size would change targets if they took it from there.
    quiet = td3_runs.update(lab)
    loud = td3_runs.exploring_update(lab)
    first, other = (critics(run, critic_updates(run)[0]).target for run in (quiet, loud))
    changed = not np.allclose(first, other, atol=1e-4)
    return Measurement(np.array([float(changed)]), np.zeros(1))


def _delay(lab: Lab) -> Measurement:
    world = setups.dictation(lab, setups.ROWS + 6 * DELAY)
    name = "td3 delayed"
    weights = setups.weights(lab, "td3")
    run = lab.run(setups.off_policy(name, "td3", world, weights, policy_delay=DELAY))
    critic = sum("critic1" in step.networks for step in run.record.steps)
    policy = sum("policy" in step.networks for step in run.record.steps)
    moves = sum(network == "critic1_target" for _, _, network in run.record.target_moves)
    if not policy or not moves:
        raise Unmeasured("the policy or the targets did not move")
    return Measurement(np.round([critic / policy, critic / moves]), np.full(2, float(DELAY)))


def _policy_steps(lab: Lab) -> Measurement:
    steps = sac_runs.counting(lab).record.steps
    critic, policy, temperature = (
        sum(network in step.networks for step in steps)
        for network in ("critic1", "policy", "temperature")
    )
    return Measurement(np.array([policy, temperature]) / critic, np.ones(2))


PROBES: Sequence[Probe] = (
    Probe(
        "ppo.stored_reward",
        "Which reward is stored where a time limit cuts?",
        f"{ppo_runs.PAPER}, algorithm 1: that of the environment",
        "in units of reward",
        _stored_reward,
        relation("stored reward"),
    ),
    Probe(
        "td3.exploration_unit",
        "Which action is taken with noise of 0.1 of half the range, where it is from -1 to 3?",
        f"{td3_runs.PAPER}, section 6.1: noise on the action, kept within the bounds",
        "action, in action units",
        exploration_unit,
        relation("action"),
    ),
    Probe(
        "td3.target_noise_source",
        "Does the noise in targets follow the noise that is set for exploration?",
        f"{td3_runs.PAPER}, eq. 14: it has a size of its own",
        "0 no, 1 yes",
        _target_noise_source,
        lambda comparison, measurement: "the noise in targets is that of exploration",
        counts=True,
    ),
    Probe(
        "td3.delayed_updates",
        f"How many critic steps are there per policy step and per target update, told {DELAY}?",
        f"{td3_runs.PAPER}, algorithm 1: d for both",
        "critic steps: per policy step, per target update",
        _delay,
        listed(("per policy step", "per target update")),
        counts=True,
    ),
    Probe(
        "sac.policy_steps",
        "How many steps of policy and temperature are there per critic step, by default?",
        f"{sac_runs.PAPER}, algorithm 1: 1",
        "steps per critic step: policy, temperature",
        _policy_steps,
        listed(("policy steps", "temperature steps")),
    ),
)
