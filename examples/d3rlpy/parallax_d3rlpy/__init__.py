"""d3rlpy: `fit_online` of its TD3, in an interpreter of its own."""

import importlib.util

from parallax.harness.contract.adapter import Adapter
from parallax.harness.contract.fields import SpecError


class D3rlpyAdapter(Adapter):
    """Adapter of d3rlpy, which only training imports: it is not installed where a study starts."""

    name = "d3rlpy"
    packages = ("d3rlpy", "torch")

    def check_installed(self) -> None:
        """Raise `SpecError` if the package is missing."""
        if importlib.util.find_spec("d3rlpy") is None:
            raise SpecError(
                "framework=d3rlpy needs an interpreter of its own, because d3rlpy requires "
                "gymnasium 1.0.0. Create one as in examples/d3rlpy/README.md and name it with "
                "framework.python=PATH."
            )
