"""Answers of probes agree with the source code of sbx."""

import pytest

from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.probes import catalogue as registry
from parallax.harness.probes.experiments import ExperimentCache
from parallax.harness.probes.probe import run_probe

pytest.importorskip("sbx")

PROBES = {probe.name: probe for probe in registry.PROBES}


@pytest.fixture(scope="module")
def ask():
    cache = ExperimentCache(load_adapter("sbx"))
    return lambda name: run_probe(PROBES[name], {"sbx": cache}).answers["sbx"]


@pytest.mark.long  # updates are computed operation by operation
def test_policy_and_value_of_a_minibatch_are_read_as_one_update(ask):
    for part in ("gae_with_copies", "policy_loss_with_copies", "policy_loss", "value_loss_factor"):
        assert ask(f"ppo.{part}").comparison.kind == "agrees", part
    assert ask("ppo.total_loss").comparison.kind == "agrees"
    assert ask("ppo.counts_with_copies").comparison.kind == "agrees"
    assert "0.7071" in ask("ppo.gradient_clipping").meaning  # each of both at 0.5
    assert "does not use it" in ask("ppo.value_clipping").unmeasured


@pytest.mark.long
def test_td3_policy_maximizes_min_q_and_targets_move_every_step(ask):
    assert ask("td3.critic_target").comparison.kind == "agrees"
    assert ask("td3.critic_loss_factor").comparison.size == pytest.approx(0.5, rel=1e-3)
    assert ask("td3.policy_terms").meaning == "the smaller of both critics"
    assert ask("td3.policy_gradient_clipping").comparison.kind == "agrees"
    assert "per target update is 1" in ask("td3.delayed_updates").meaning


@pytest.mark.long
def test_temperature_of_sac_has_the_loss_of_its_logarithm(ask):
    for part in ("critic_target", "policy_terms"):
        assert ask(f"sac.{part}").comparison.kind == "agrees", part
    order = ask("sac.update_order").meaning
    assert order.startswith("target updates before the step of the policy is 1, not 0")
    assert "linear in the log temperature" in ask("sac.temperature_gradient").meaning


def test_double_targets_of_dqn_are_refused_by_name(ask):
    assert "double_q" in ask("dqn.double_target").unmeasured


@pytest.mark.long
def test_network_of_dqn_is_read_with_layers_of_one_width(ask):
    for part in ("critic_target", "critic_loss", "target_update", "gradient_source"):
        assert ask(f"dqn.{part}").comparison.kind == "agrees", part
