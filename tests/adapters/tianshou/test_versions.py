"""Translation to releases of Tianshou before 2.0, without one of them."""

from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("tianshou")

from parallax.adapters.tianshou.versions import (
    OlderAdam,
    make_older_policy,
    make_older_schedule,
    rename_arguments,
    use_mode,
)


class OlderPolicy(SimpleNamespace):
    """Policy that stores its arguments."""

    def set_eps(self, eps):
        self.eps = eps


def list_parameters(optimizer):
    return [value for group in optimizer.param_groups for value in group["params"]]


def test_each_network_has_its_own_optimizer():
    actor, critic, second = (torch.nn.Linear(1, 1) for _ in range(3))
    optimizers = {f"{name}_optim": OlderAdam(lr=0.5) for name in ("policy", "critic", "critic2")}
    alpha = SimpleNamespace(target_entropy=-2.0, log_alpha=-1.0, optim=OlderAdam(lr=0.25))
    policy = SimpleNamespace(actor=actor, action_space=7)
    networks = {"critic": critic, "critic2": second}
    made = make_older_policy(OlderPolicy, policy, alpha=alpha, tau=0.1, **networks, **optimizers)
    assert list_parameters(made.actor_optim) == list(actor.parameters())
    assert list_parameters(made.critic2_optim) == list(second.parameters())
    target, log, adam = made.alpha
    assert target == -2 and log.item() == -1 and adam.defaults["lr"] == 0.25
    assert made.tau == 0.1 and made.action_space == 7 and made.policy is made


def test_ppo_has_one_optimizer_and_a_schedule():
    actor, critic, adam = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1), OlderAdam(lr=1.0)
    adam.with_lr_scheduler_factory(make_older_schedule(1, 10, 5))
    policy = SimpleNamespace(actor=actor, dist_fn=lambda parameters: parameters)
    made = make_older_policy(OlderPolicy, policy, critic=critic, optim=adam, gamma=0.9)
    assert list_parameters(made.optim) == [*actor.parameters(), *critic.parameters()]
    assert made.discount_factor == 0.9 and not hasattr(made, "gamma")
    assert made.dist_fn((1, 2)) == made.dist_fn(1, 2) == (1, 2)
    made.optim.step()
    made.lr_scheduler.step()
    assert made.optim.param_groups[0]["lr"] == 0.5


def test_dqn_explores_and_clips_errors():
    policy = SimpleNamespace(model=torch.nn.Linear(1, 1), eps_training=0.3)
    given = {"optim": OlderAdam(lr=1.0), "gamma": 0.9, "huber_loss_delta": None}
    made = make_older_policy(OlderPolicy, policy, **given)
    assert made.eps == 0.3 and made.clip_loss_grad is False
    made.set_eps_training(0.1)
    assert made.eps == 0.1


def test_trainers_have_other_names_of_arguments():
    assert rename_arguments(epoch_num_steps=5, batch_size=2) == {
        "step_per_epoch": 5,
        "batch_size": 2,
    }


def test_mode_is_restored():
    module = torch.nn.Linear(1, 1)
    with use_mode(module, enabled=False):
        assert not module.training
    assert module.training
