"""TQC of sb3-contrib, whose class takes what Stable-Baselines3's SAC takes and three numbers."""

import importlib.util

from adapters.sb3.settings import sac
from harness.contract.adapter import Context, Native, Translation
from harness.contract.fields import SpecError
from parallax_tqc.description import TQC

MODEL = "sb3_contrib:TQC"
"""Where the class is that trains."""


def own_defaults(defaults: TQC, context: Context) -> TQC:
    """As for SAC."""
    found = sac.own_defaults(defaults, context)
    assert isinstance(found, TQC)
    return found


def settings(t: Translation, hp: TQC, context: Context) -> Native:
    """Arguments of `sb3_contrib.TQC`."""
    if importlib.util.find_spec("sb3_contrib") is None:
        raise SpecError("algorithm=tqc needs: pip install 'sb3-contrib>=2.9.2,<2.10'")
    t.aligned("n_critics", "policy_kwargs.n_critics")
    t.aligned("n_quantiles", "policy_kwargs.n_quantiles")
    t.aligned("dropped_quantiles", "top_quantiles_to_drop_per_net")
    if hp.dropped_quantiles >= hp.n_quantiles:
        t.refuse("dropped_quantiles", f"must be less than n_quantiles={hp.n_quantiles}")
    return sac.settings(t, hp, context)
