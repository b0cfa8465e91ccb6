"""Answers of probes agree with the source code of skrl."""

import pytest

from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.probes import catalogue as registry
from parallax.harness.probes.experiments import ExperimentCache
from parallax.harness.probes.probe import run_probe

pytest.importorskip("skrl")

PROBES = {probe.name: probe for probe in registry.PROBES}


@pytest.fixture(scope="module")
def measure():
    cache = ExperimentCache(load_adapter("skrl"))
    return lambda name: run_probe(PROBES[name], {"skrl": cache}).answers["skrl"]


def test_advantages_are_read_before_and_weighted_after_standardization(measure):
    assert measure("ppo.gae").comparison.kind == "agrees"
    found = measure("ppo.advantage_normalisation")
    assert found.meaning.startswith("standardised over the whole rollout, by the sample deviation")
    assert measure("ppo.std_gradient").comparison.kind == "agrees"


def test_updates_of_a_policy_that_is_not_squashed_are_read_as_such(measure):
    for part in ("critic_target", "critic_loss_factor", "policy_terms"):
        assert measure(f"sac.{part}").comparison.kind == "agrees", part
    assert "not squashed" in measure("sac.log_prob").meaning


def test_networks_created_by_the_probe_are_not_measured(measure):
    for name in ("ppo.activation", "sac.greedy_action"):
        assert "came from the probe" in measure(name).unmeasured
