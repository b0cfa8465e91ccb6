"""Settings of sb3-contrib's TQC, which takes the arguments of SB3's SAC and three more."""

import importlib.util

from parallax.adapters.sb3 import settings as sac
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.translation import AlgorithmSettings, ConfigTranslator, NativeConfig
from parallax_tqc.description import TQC

MODEL = "sb3_contrib:TQC"
"""Module and name of the class that trains."""


def couple_defaults(defaults: TQC, context: RunContext) -> TQC:
    """Couple values as for SAC."""
    coupled = sac.couple_defaults_sac(defaults, context)
    assert isinstance(coupled, TQC)
    return coupled


def translate(t: ConfigTranslator, hp: TQC, context: RunContext) -> NativeConfig:
    """Return arguments of `sb3_contrib.TQC`."""
    if importlib.util.find_spec("sb3_contrib") is None:
        raise SpecError("algorithm=tqc needs: pip install 'sb3-contrib>=2.9.2,<2.10'")
    t.set_option("n_critics", "policy_kwargs.n_critics")
    t.set_option("n_quantiles", "policy_kwargs.n_quantiles")
    t.set_option("dropped_quantiles", "top_quantiles_to_drop_per_net")
    if hp.dropped_quantiles >= hp.n_quantiles:
        t.reject_value("dropped_quantiles", f"must be less than n_quantiles={hp.n_quantiles}")
    return sac.translate_sac(t, hp, context)


SETTINGS = AlgorithmSettings(translate, couple_defaults)
