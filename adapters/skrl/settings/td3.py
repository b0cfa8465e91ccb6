"""TD3."""

from adapters.skrl.settings.common import UNITS, actor_critic, exploration, finish, half_range
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import TD3

CFG = "TD3_CFG"


def settings(t: Translation, hp: TD3, context: Context) -> Native:
    """Arguments of `skrl.agents.torch.td3.TD3_CFG` and what its agent is put together with."""
    exploration(t, hp, context, CFG)
    t.aligned("policy_delay", f"{CFG}.policy_delay")
    smoothing = f"{CFG}.smooth_regularization"
    std = hp.target_policy_noise * half_range(t, context, "target_policy_noise")
    kwargs = {"mean": 0.0, "std": std}
    t.aligned("target_policy_noise", f"{smoothing}_noise_kwargs", kwargs, UNITS)
    t.extra(**{f"{smoothing}_noise": "GaussianNoise" if std else None})
    clip = hp.target_noise_clip * half_range(t, context, "target_noise_clip")
    t.aligned("target_noise_clip", f"{smoothing}_clip", clip, UNITS)
    actor_critic(t, hp, CFG, "policy_learning_rate", "critic_learning_rate")
    return finish(t, hp, context)
