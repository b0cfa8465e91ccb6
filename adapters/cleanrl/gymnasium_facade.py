"""The gymnasium 0.28 interface that CleanRL's PPO script calls, over today's gymnasium."""

from types import SimpleNamespace
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode
from gymnasium.vector import SyncVectorEnv as ModernSyncVectorEnv

from harness.adapter import MakeEnv


class SyncVectorEnv(ModernSyncVectorEnv):
    """Resets in the step that ends an episode and lists final infos, as gymnasium 0.28 did."""

    def __init__(self, makers: list[Any]) -> None:
        super().__init__(makers, autoreset_mode=AutoresetMode.SAME_STEP)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Steps all environments."""
        *result, infos = super().step(actions)
        if "final_info" in infos:
            infos["final_info"] = _as_list(infos["final_info"], infos["_final_info"])
        observations, rewards, terminated, truncated = result
        return observations, rewards, terminated, truncated, infos


def gymnasium_facade(make_env: MakeEnv) -> SimpleNamespace:
    """What stands for the module `gymnasium` in the script.

    The four feedback-altering wrappers are identities: where they are wanted, `make_env`
    has them in already, the same for every framework.
    """
    wrappers = gymnasium.wrappers
    return SimpleNamespace(
        make=lambda env_id: make_env(),
        spaces=gymnasium.spaces,
        vector=SimpleNamespace(SyncVectorEnv=SyncVectorEnv),
        wrappers=SimpleNamespace(
            FlattenObservation=wrappers.FlattenObservation,
            RecordEpisodeStatistics=wrappers.RecordEpisodeStatistics,
            ClipAction=wrappers.ClipAction,
            NormalizeObservation=_identity,
            TransformObservation=_identity,
            NormalizeReward=_identity,
            TransformReward=_identity,
        ),
    )


def _identity(env: gymnasium.Env[Any, Any], *args: Any, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    return env


def _as_list(final: dict[str, Any], done: Any) -> list[dict[str, Any] | None]:
    """One info per environment that ended, None for the others."""
    episode = final["episode"]
    return [
        {"episode": {key: episode[key][i] for key in ("r", "l")}} if ended else None
        for i, ended in enumerate(done)
    ]
