"""SAC."""

from adapters.skrl.settings.common import actor_critic, finish
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import SAC

CFG = "SAC_CFG"


def settings(t: Translation, hp: SAC, context: Context) -> Native:
    """Arguments of `skrl.agents.torch.sac.SAC_CFG` and what its agent is put together with."""
    t.constant("policy_delay", 1)
    t.constant("target_update_interval", 1)
    t.aligned("initial_temperature", f"{CFG}.initial_entropy_value")
    entropy = -context.task.action_size if hp.target_entropy is None else hp.target_entropy
    note = "of actions in their own units, before the bounds"
    t.aligned("target_entropy", f"{CFG}.target_entropy", float(entropy), note)
    t.extra(**{f"{CFG}.learn_entropy": True})
    rates = ("policy_learning_rate", "critic_learning_rate", "temperature_learning_rate")
    actor_critic(t, hp, CFG, *rates)
    return finish(t, hp, context)
