"""sbx: its public classes, which train in JAX, and their `learn()`."""

import contextlib
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any

from parallax.adapters.torch_common.devices import explain_missing_device
from parallax.harness.contract.acceleration import EAGER, explain_missing_acceleration
from parallax.harness.contract.adapter import Adapter
from parallax.harness.contract.packages import VersionRange

SUPPORTED_VERSIONS = VersionRange(
    "sbx-rl",
    "0.13",
    "0.29",
    why_not_older="Older releases were not tried.",
    update_modules={
        name: (f"sbx.{name}.{name}", f"sbx.{name}.policies", "sbx.common.policies")
        for name in ("ppo", "td3", "sac", "dqn")
    },
)


class SbxAdapter(Adapter):
    """Adapter of sbx (Stable-Baselines3's algorithms in JAX)."""

    name = "sbx"
    libraries = ("jax",)
    packages = ("sbx-rl", "stable-baselines3", "jax", "flax", "optax")
    import_names = ("sbx",)
    install_command = "pip install 'sbx-rl>=0.28,<0.29'"
    supported_versions = SUPPORTED_VERSIONS

    accelerations = (EAGER,)

    def why_unsupported_device(self, algorithm: str, device: str, here: bool) -> str:
        """Return why `device` cannot be used: JAX takes the first GPU that PyTorch finds, too."""
        if device.partition(":")[2]:
            return "JAX is set to the first one. Use device=cuda."
        if here and device == "cuda" and not any(entry_points(group="jax_plugins")):
            return "JAX has no plugin for it. Use device=cpu, or install jax[cuda13]."
        return explain_missing_device(device, here, ("cuda",))

    def why_unsupported_acceleration(
        self, algorithm: str, acceleration: str, device: str, here: bool
    ) -> str:
        """Return why `acceleration` cannot be used: JAX compiles in any case."""
        if acceleration in self.accelerations:
            return ""
        return explain_missing_acceleration(acceleration, device, "jax")

    def why_unobservable_acceleration(self, acceleration: str) -> str:
        """Return why probes see no difference: they always run JAX operation by operation."""
        if acceleration != EAGER:
            return ""
        return (
            "probes and lockstep run JAX operation by operation in any case, so that both sides "
            "would be the same. Compare trained weights: python benchmarks/accelerations.py does"
        )

    def apply_acceleration(self, acceleration: str) -> contextlib.AbstractContextManager[None]:
        """Return a context without jit for `eager`."""
        if acceleration != EAGER:
            return contextlib.nullcontext()
        import jax

        eager: contextlib.AbstractContextManager[None] = jax.disable_jit()
        return eager

    @property
    def upstream_modules(self) -> tuple[str, ...]:
        """Return the packages whose source may be changed; sbx-rl's is named sbx."""
        return ("sbx", *super().upstream_modules)

    def training_modules(self, algorithm: str) -> Sequence[str]:
        """Return the modules of all algorithms; JAX starts its threads at the first computation."""
        return ("parallax.adapters.sbx.train",)

    def upstream_defaults(self, algorithm: str) -> Mapping[str, Any]:
        """Return the defaults in the signature of the algorithm's class."""
        import inspect

        import sbx

        parameters = inspect.signature(getattr(sbx, algorithm.upper())).parameters
        return {n: p.default for n, p in parameters.items() if p.default is not p.empty}
