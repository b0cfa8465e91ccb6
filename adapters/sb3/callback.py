"""The diagnosis as a callback of Stable-Baselines3, for your own trainings.

with DiagnosisCallback() as diagnosis:
    model.learn(20_000, callback=diagnosis)
print(diagnosis.to_frame())
"""

import contextlib
from types import TracebackType
from typing import Any, Self

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

import parallax

# Names of Stable-Baselines3 that differ from ours.
_NAMES = {
    "rollout_steps": "n_steps",
    "minibatch_size": "batch_size",
    "epochs": "n_epochs",
    "value_clip_range": "clip_range_vf",
    "policy_learning_rate": "learning_rate",
    "critic_learning_rate": "learning_rate",
    "temperature_learning_rate": "learning_rate",
    "initial_temperature": "ent_coef",
    "exploration_initial": "exploration_initial_eps",
    "exploration_final": "exploration_final_eps",
    "exploration_steps": "exploration_fraction",
    "exploration_noise": "action_noise",
    "hidden_sizes": "policy_kwargs net_arch",
    "wrappers=normalized": "VecNormalize",
}
_WITHOUT_CLIPPING = {"max_grad_norm": "torch.nn.utils.clip_grad_norm_ in a subclass"}  # SAC, TD3


class DiagnosisCallback(BaseCallback):
    """Diagnosis of a training of Stable-Baselines3 with one environment.

    Used in a `with` statement it also evaluates the checks when the training fails.
    """

    def __init__(self, **options: Any) -> None:
        """Create the callback; `options` of `parallax.Diagnosis` override the model's settings."""
        super().__init__()
        self._options = options
        self._diagnosis: parallax.Diagnosis | None = None
        self._envs: list[Any] = []
        self._plain_env: Any = None

    @property
    def findings(self) -> tuple[Any, ...]:
        """Findings so far."""
        return () if self._diagnosis is None else self._diagnosis.findings

    def to_frame(self) -> Any:
        """Return the findings as a `pandas.DataFrame`."""
        if self._diagnosis is None:
            raise RuntimeError("the training has not begun: pass the callback to model.learn.")
        return self._diagnosis.to_frame()

    def _on_training_start(self) -> None:
        model: Any = self.model
        known: dict[str, Any] = {
            "steps": int(self.locals["total_timesteps"]),
            "gamma": getattr(model, "gamma", None),
            "tau": getattr(model, "tau", None) if hasattr(model, "replay_buffer") else None,
            "target_interval": _get_target_interval(model),
            "learning_starts": getattr(model, "learning_starts", getattr(model, "n_steps", 0)),
            "replays": not isinstance(model, OnPolicyAlgorithm),
            "names": _NAMES if hasattr(model, "max_grad_norm") else _NAMES | _WITHOUT_CLIPPING,
        }
        self._diagnosis = parallax.Diagnosis(**(known | self._options))
        self._envs = _list_envs(model.env)
        self._plain_env = self._envs[0]
        self._envs[0] = self._diagnosis.wrap(self._plain_env)
        self._diagnosis.watch(
            policy=lambda observations: model.predict(observations, deterministic=True)[0],
            networks={"policy": model.policy},
        )

    def _on_step(self) -> bool:
        return True

    def _on_training_end(self) -> None:
        self._finish(None)

    def _finish(self, error: BaseException | None) -> None:
        if self._diagnosis is not None:
            self._diagnosis.__exit__(type(error) if error else None, error, None)
        if self._envs:
            self._envs[0] = self._plain_env
            self._envs = []

    def __enter__(self) -> Self:
        """Return the callback."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Evaluate the checks a last time, also after an error, which propagates."""
        self._finish(error)


def _get_target_interval(model: Any) -> int | None:
    """Return the steps between target updates; None if an update cycle has no fixed length."""
    # TD3 and DDPG move their targets with the policy, DQN and SAC at their own intervals.
    return getattr(model, "target_update_interval", getattr(model, "policy_delay", None))


def _list_envs(venv: Any) -> list[Any]:
    """Return the list of environments in a `DummyVecEnv` below any wrappers."""
    with contextlib.suppress(AttributeError):
        venv = venv.unwrapped
    envs = getattr(venv, "envs", None)
    if not isinstance(envs, list) or len(envs) != 1:
        raise ValueError(
            "DiagnosisCallback watches one environment in this process: use n_envs=1 and "
            "DummyVecEnv, or parallax.Diagnosis around an environment of your own."
        )
    return envs
