import pytest
import torch
from loops import iterate_some

from parallax.adapters.torchrl import ppo
from parallax.adapters.torchrl.networks import copy_weights
from parallax.harness.conformance.trainings import (
    make_base_hyperparameters,
    make_training_conditions,
    train_uncached,
)


@pytest.fixture
def rollout(transitions):
    def make(count=8, **ends):
        log_prob = torch.full((count,), -1.0)
        return transitions(count, **ends).set("action_log_prob", log_prob)

    return make


@pytest.mark.parametrize(
    ("network", "gain"), [("actor_network_params", 1.0), ("critic_network_params", 0.01)]
)
def test_ppo_layers_are_orthogonal_with_one_gain_and_no_bias(build, network, gain):
    parameters = getattr(build("ppo").loss, network).flatten_keys(".").items()
    matrices = [value for name, value in parameters if name.endswith("weight")]
    assert len(matrices) == 3
    for matrix in matrices:
        short = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
        torch.testing.assert_close(short @ short.T, gain**2 * torch.eye(len(short)))
    biases = [value for name, value in parameters if name.endswith("bias")]
    assert len(biases) == 3 and all((value == 0).all() for value in biases)


def test_ppo_starts_with_standard_deviation_one_before_squashing(build, rollout):
    output = build("ppo").actor.get_dist(rollout())
    assert (output.scale == 1).all()


def test_ppo_bootstraps_through_a_time_limit_but_not_through_an_end(build, rollout):
    components = build("ppo", gamma=0.5, gae_lambda=0.7)
    with torch.no_grad():
        cut = components.advantages(rollout(truncated=True))
        ended = components.advantages(rollout(terminated=True))
    reward, value = cut["next", "reward"], cut["state_value"]
    one_step = reward + 0.5 * cut["next", "state_value"]
    torch.testing.assert_close(cut["value_target"], one_step)
    torch.testing.assert_close(cut["advantage"], one_step - value)
    torch.testing.assert_close(ended["value_target"], reward)


def test_ppo_values_are_those_of_the_critic_at_each_epoch(build, rollout):
    components = build("ppo")
    data = components.advantages(rollout())
    before = data["state_value"].clone()
    ppo.update(components, data.detach(), 1)
    assert (components.advantages(data.detach())["state_value"] != before).all()


def test_ppo_schedules_fall_from_the_start_value_with_each_update(build):
    components = build("ppo", steps=64, clip_range_schedule="linear")
    total = components.total_updates
    assert total == 8
    for step, left in ((1, 1.0), (5, 0.5), (8, 0.125), (9, 0.0)):
        rate = ppo.anneal_schedules(components, step).item()
        assert rate == pytest.approx(3e-4 * left)
        assert components.optimizer.param_groups[0]["lr"].item() == rate
        assert components.loss.clip_epsilon.item() == pytest.approx(0.2 * left)


def test_ppo_constant_schedules_change_nothing(build):
    components = build("ppo", learning_rate_schedule="constant")
    assert ppo.anneal_schedules(components, 7).item() == pytest.approx(3e-4)
    assert components.loss.clip_epsilon.item() == pytest.approx(0.2)


@pytest.mark.parametrize("max_norm", [None, 0.01])
def test_ppo_gradients_are_clipped_only_on_request(build, rollout, max_norm):
    components = build("ppo", max_grad_norm=max_norm)
    with torch.no_grad():
        data = components.advantages(rollout())
    ppo.update(components, data, 1)
    groups = components.optimizer.param_groups
    gradients = [p.grad for group in groups for p in group["params"] if p.grad is not None]
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm().item()
    assert norm > 0.02 if max_norm is None else norm == pytest.approx(max_norm, rel=1e-3)


def test_ppo_trains_without_a_value_loss(build, rollout):
    components = build("ppo", vf_coef=0.0)
    with torch.no_grad():
        data = components.advantages(rollout())
    before = copy_weights(components.loss, ["critic_network"])
    assert "loss/value" not in ppo.update(components, data, 1)
    after = copy_weights(components.loss, ["critic_network"])
    assert all((before[name] == after[name]).all() for name in iterate_some(before))


def test_ppo_learns_from_whole_rollouts_after_an_early_stop(monkeypatch):
    base = make_base_hyperparameters("torchrl", "ppo")
    minibatches = base.rollout_steps // base.minibatch_size
    seen = []

    def exceed_at_the_second(components, batch):
        seen.append(len(batch))
        return len(seen) == 2

    monkeypatch.setattr(ppo, "exceeds_target_kl", exceed_at_the_second)
    steps = 2 * base.rollout_steps
    train_uncached("torchrl", "ppo", base, make_training_conditions("ppo", steps=steps))
    assert len(seen) == 2 + base.epochs * minibatches
