"""Probes that are named where two implementations diverge in lockstep training."""

import numpy as np
import pytest

from parallax.harness.probes.catalogue import list_differing_probes
from parallax.harness.probes.results import AnswerComparison, ProbeAnswer


def answer_all_but(*names):
    """Returns answers as in the paper, except of the named probes."""

    def answer(probe):
        kind, x = ("function", 1.0) if probe.name in names else ("agrees", 0.0), np.zeros(1)
        return ProbeAnswer(x + kind[1], x, AnswerComparison(kind[0], kind[1]))

    return answer


@pytest.mark.parametrize(
    ("different", "named"),
    [
        ((), ()),
        (("td3.counts",), ("td3.counts",)),
        (("td3.counts_with_copies", "td3.counts"), ("td3.counts", "td3.counts_with_copies")),
        (("td3.counts", "td3.critic_target"), ("td3.critic_target",)),
        (("td3.default_settings",), ()),  # no cause of a divergence at equal settings
    ],
)
def test_counts_are_named_where_no_other_probe_explains_a_divergence(different, named):
    found = list_differing_probes(answer_all_but(), answer_all_but(*different), "td3")
    assert found == named
    unmeasured = list_differing_probes(lambda probe: None, answer_all_but(*different), "td3")
    assert unmeasured == ()
