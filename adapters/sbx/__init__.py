"""sbx: its public classes, which train in JAX, and their `learn()`."""

from collections.abc import Mapping, Sequence
from typing import Any

from parallax.harness.contract.adapter import Adapter


class SbxAdapter(Adapter):
    """Adapter of sbx (Stable-Baselines3's algorithms in JAX)."""

    name = "sbx"
    libraries = ("jax",)
    packages = ("sbx-rl", "stable-baselines3", "jax", "flax", "optax")
    import_names = ("sbx",)
    install_command = "pip install 'sbx-rl>=0.28,<0.29'"

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
