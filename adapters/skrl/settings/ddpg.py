"""DDPG."""

from adapters.skrl.settings.common import UNITS, actor_critic, exploration, finish, half_range
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import DDPG

CFG = "DDPG_CFG"
THETA, STEP = 0.15, 0.01
"""Of the schema's process; skrl's takes steps of 1, so its options take the step in."""


def settings(t: Translation, hp: DDPG, context: Context) -> Native:
    """Arguments of `skrl.agents.torch.ddpg.DDPG_CFG` and what its agent is put together with."""
    if hp.exploration_noise_kind == "gaussian":
        exploration(t, hp, context, CFG)
    else:
        _process(t, hp, context)
    t.part_of("exploration_noise_kind", f"{CFG}.exploration_noise")
    for field in ("policy_weight_decay", "critic_weight_decay"):
        t.constant(field, 0.0, "torch.optim.Adam's own; no option")
    t.constant("policy_delay", 1)
    actor_critic(t, hp, CFG, "policy_learning_rate", "critic_learning_rate")
    return finish(t, hp, context)


def _process(t: Translation, hp: DDPG, context: Context) -> None:
    sigma = hp.exploration_noise * half_range(t, context, "exploration_noise")
    kwargs = {"theta": THETA * STEP, "sigma": sigma * STEP**0.5, "base_scale": 1.0}
    note = f"{UNITS}; it goes on over the ends of episodes"
    t.aligned("exploration_noise", f"{CFG}.exploration_noise_kwargs", kwargs, note)
    t.extra(**{f"{CFG}.exploration_noise": "OrnsteinUhlenbeckNoise" if sigma else None})
    t.extra(**{f"{CFG}.exploration_scheduler": None})
