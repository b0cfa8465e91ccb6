"""The random generators of a process that everybody draws from, as one state."""

import random
import sys
from typing import Any

import numpy as np

from harness.contract.capture import State


def read() -> State:
    """What the generators of Python, numpy and, where it is loaded, PyTorch will give next."""
    version, words, gauss = random.getstate()
    torch: Any = sys.modules.get("torch")
    return {
        "python": {"version": version, "words": list(words), "gauss": gauss},
        "numpy": np.random.get_state(legacy=False),
        "torch": torch.get_rng_state().numpy() if torch else None,
    }


def lay_in(state: State) -> None:
    """Lets them give that."""
    python = state["python"]
    random.setstate((python["version"], tuple(python["words"]), python["gauss"]))
    np.random.set_state(state["numpy"])
    torch: Any = sys.modules.get("torch")
    if torch and state["torch"] is not None:
        torch.set_rng_state(torch.from_numpy(np.array(state["torch"])))
