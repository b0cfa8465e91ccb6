"""The unit of TD3's target noise, read by the probes where an adapter can be probed."""

import pytest

from harness.contract.adapter import load_adapter
from harness.probes.contract import Probeable
from harness.probes.lab import Lab
from harness.probes.probe import Unmeasured
from harness.probes.registry import PROBES
from harness.probes.td3.trainings import smoothing

_READ = {
    "target_policy_noise": "td3.target_noise_scale",
    "target_noise_clip": "td3.target_noise_clip",
}


class TargetConformance:
    """What no training shows from outside: noise that only targets see."""

    framework: str

    @pytest.mark.parametrize("noise", _READ)
    def test_target_noise_is_a_share_of_half_the_range(self, noise: str) -> None:
        """Where actions range from -1 to 3, it is as large, and cut there, as was told."""
        adapter = load_adapter(self.framework)
        algorithm = _READ[noise].partition(".")[0]
        if not adapter.supports(algorithm):
            pytest.skip(f"{self.framework} has no {algorithm}, which alone has noise in targets")
        if not isinstance(adapter, Probeable):
            pytest.skip(f"{self.framework} cannot be probed: {noise} was not checked")
        lab = Lab(adapter)
        (probe,) = (probe for probe in PROBES if probe.name == _READ[noise])
        try:
            measured = float(probe.measure(lab).value[0])
        except Unmeasured as reason:
            pytest.skip(f"{noise} was not checked: {reason}")
        told = getattr(smoothing(lab, 0).hyperparameters, noise)
        assert measured == pytest.approx(told, rel=1e-3), (
            f"{noise}: {measured:.3g} of half the range where {told:g} was told"
        )
