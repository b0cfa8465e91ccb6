import math

import pytest
import torch
from loops import iterate_some

from parallax.adapters.torchrl import sac, td3
from parallax.adapters.torchrl.networks import build_q_network, copy_weights

MODULES = {"td3": td3, "sac": sac}


def snapshot(components, module):
    return copy_weights(components.loss, module.NETWORKS)


def changed(before, after):
    return {name.split(".")[0] for name in before if (before[name] != after[name]).any()}


def test_sac_scale_is_one_at_zero_and_never_below_a_tenth(build):
    extractor = build("sac").actor[0].module[1]
    raw = torch.tensor([[0.0, 0.0, -50.0, -50.0], [0.0, 0.0, 0.0, 50.0]])
    _, scale = extractor(raw)
    torch.testing.assert_close(scale, torch.tensor([[0.1, 0.1], [1.0, 50.5361]]), rtol=1e-3, atol=0)


@pytest.mark.parametrize("algorithm", ["td3", "sac"])
def test_twin_critics_are_initialized_within_the_range_of_the_template(
    build, algorithm, monkeypatch
):
    given = []

    def keep(*arguments):
        given.append(build_q_network(*arguments))
        return given[-1]

    monkeypatch.setattr(MODULES[algorithm], "build_q_network", keep)
    twins = build(algorithm).loss.qvalue_network_params.flatten_keys(".")
    for name, template in iterate_some(given[0].named_parameters()):
        first, second = twins[name].unbind(0)
        # The range of a single number, here the last bias, is that number.
        drawn = not torch.equal(first, second) and not torch.equal(first, template)
        assert drawn == (template.numel() > 1)
        assert first.min() >= template.min() and second.max() <= template.max()


def test_td3_updates_policy_and_targets_on_delayed_updates_only(build, transitions):
    components = build("td3", policy_delay=3)
    for step in range(1, 7):
        before = snapshot(components, td3)
        td3.update(components, transitions(), step)
        moved = changed(before, snapshot(components, td3))
        assert moved == (set(td3.NETWORKS) if step % 3 == 0 else {"qvalue_network"})


@pytest.mark.parametrize("algorithm", ["td3", "sac"])
def test_targets_move_by_tau(build, transitions, algorithm):
    module = MODULES[algorithm]
    components = build(algorithm, tau=0.1)
    before = snapshot(components, module)
    module.update(components, transitions(), 2)
    after = snapshot(components, module)
    for name in iterate_some(before):
        if name.startswith("target_"):
            expected = 0.9 * before[name] + 0.1 * after[name.removeprefix("target_")]
            assert after[name] == pytest.approx(expected, abs=1e-7)


def test_sac_updates_all_networks_in_every_update(build, transitions):
    components = build("sac")
    for step in (1, 2, 3):
        before = snapshot(components, sac)
        sac.update(components, transitions(), step)
        assert changed(before, snapshot(components, sac)) == {*sac.NETWORKS, "log_alpha"}


def test_sac_policy_learns_from_the_critics_before_their_step(build, transitions):
    results = []
    for rate in (1e-5, 1.0):
        components = build("sac", critic_learning_rate=rate)
        torch.manual_seed(1)
        sac.update(components, transitions(), 1)
        results.append(copy_weights(components.loss, ["actor_network"]))
    assert not changed(*results)


def test_sac_starts_at_the_requested_temperature(build):
    log_alpha = build("sac", initial_temperature=0.2).loss.log_alpha
    assert log_alpha.item() == pytest.approx(math.log(0.2))


@pytest.mark.parametrize("algorithm", ["td3", "sac"])
def test_a_time_limit_is_bootstrapped_through_and_an_end_is_not(build, transitions, algorithm):
    def critic_loss(**ends):
        components = build(algorithm)
        torch.manual_seed(1)
        return MODULES[algorithm].update(components, transitions(**ends), 1)["loss/critic"]

    assert critic_loss(truncated=True) == critic_loss()
    assert critic_loss(terminated=True) != critic_loss()
