"""Probes of R2D2 agree on the recipe as it is, and each finds the fault that it is there for."""

import numpy as np
import pytest
import torch

from parallax.adapters.torchrl import r2d2, recurrent
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.probes.catalogue import R2D2_PROBES
from parallax.harness.probes.experiments import ExperimentCache
from parallax.harness.probes.probe import run_probe
from parallax.harness.probes.results import AGREES
from parallax.harness.replay.prioritized import ProportionalStrategy

BY_NAME = {
    probe.name.partition(".")[2]: probe
    for probe in R2D2_PROBES
    if probe.short_name != "default_settings"  # reads the recipe, not the training
}
INTERVAL = "HardUpdate.value_network_update_interval"
QUICK = ("n_step_target", "last_steps_target", "burn_in_gradient", "counts", "sequences")


def answer(cache, name):
    return run_probe(BY_NAME[name], {"torchrl": cache}).answers["torchrl"]


@pytest.fixture(scope="module")
def cache():
    return ExperimentCache(load_adapter("torchrl"))


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.long) for n in BY_NAME]
)
def test_recipe_matches_the_paper(cache, name):
    found = answer(cache, name)
    assert not found.unmeasured
    assert found.comparison.kind == AGREES, found.meaning
    assert found.value.size and np.isfinite(found.value).all()


@pytest.mark.long
@pytest.mark.parametrize("name", BY_NAME)
def test_no_probe_reports_a_difference_for_other_numbers(other_cache, name):
    found = answer(other_cache, name)
    assert found.comparison.kind == AGREES and not found.unmeasured, found.meaning


@pytest.fixture(scope="module")
def other_cache():
    return ExperimentCache(load_adapter("torchrl"), seed=5)


class Through:
    """A burn-in that gradients go through."""

    def __init__(self, parts, steps):
        self._parts, self._steps = parts, steps

    def __call__(self, whole):
        burnt, rest = whole[..., : self._steps], whole[..., self._steps :].clone()
        for module in self._parts:
            burnt = module(burnt)
        for name in recurrent.STATE_KEYS:
            first = burnt["next"][..., -1:][name]
            rest[name] = torch.cat([first, rest[name][..., 1:, :, :]], dim=1)
        return rest


class Skipped(Through):
    """A burn-in that does nothing."""

    def __call__(self, whole):
        rest = whole[..., self._steps :].clone()
        for name in recurrent.STATE_KEYS:
            rest[name][:, 0] = whole[name][:, 0]
        return rest


def change_loss_settings(monkeypatch, **changes):
    """Give the loss other settings than the rest."""
    init = r2d2.SequenceLoss.__init__
    changes = {name.replace("__", "."): value for name, value in changes.items()}

    def initialize(self, network, settings):
        init(self, network, {**settings, **changes})

    monkeypatch.setattr(r2d2.SequenceLoss, "__init__", initialize)


def wrapped(monkeypatch, owner, name, change):
    monkeypatch.setattr(owner, name, change(getattr(owner, name)))


PLANTS = {
    "rescaled_reward": lambda m: m.setattr(r2d2, "signed_hyperbolic", lambda x, e: x),
    "inverse_rescaling": lambda m: m.setattr(r2d2, "signed_parabolic", lambda x, e: x),
    "n_step_target": lambda m: wrapped(
        m, r2d2, "compute_n_step_returns", lambda f: lambda *a: f(*a[:-1], a[-1] - 1)
    ),
    "last_steps_target": lambda m: wrapped(
        m,
        *(r2d2, "compute_n_step_returns"),
        lambda f: lambda r, v, length, ended, *a: f(r, v, length, np.zeros_like(ended), *a),
    ),
    "double_q": lambda m: change_loss_settings(m, loop__double_q=False),
    "sequence_loss": lambda m: wrapped(
        m, *(r2d2.SequenceLoss, "forward"), lambda f: lambda self, b, w: f(self, b, w / b["length"])
    ),
    "gradient_clipping": lambda m: m.setattr(
        torch.nn.utils, "clip_grad_norm_", lambda parameters, norm: None
    ),
    "dueling_head": lambda m: m.setattr(
        recurrent.DuelingHead, "forward", lambda self, x: self.value(x) + self.advantage(x)
    ),
    "burn_in_of_stored_state": lambda m: m.setattr(r2d2, "BurnInTransform", Skipped),
    "burn_in_of_zero_state": lambda m: m.setattr(r2d2, "BurnInTransform", Skipped),
    "stored_state": lambda m: change_loss_settings(m, loop__stored_state=False),
    "burn_in_gradient": lambda m: m.setattr(r2d2, "BurnInTransform", Through),
    "priorities": lambda m: wrapped(
        m, r2d2, "compute_sequence_errors", lambda f: lambda e, length, share: f(e, length, 0.5)
    ),
    "importance_weights": lambda m: m.setattr(
        ProportionalStrategy, "_compute_weights", lambda self, likely: np.ones(len(likely))
    ),
    "counts": lambda m: wrapped(
        m,
        *(r2d2, "build_periodic_targets"),
        lambda f: lambda loss, settings: f(loss, settings | {INTERVAL: settings[INTERVAL] + 1}),
    ),
    "actor_refresh": lambda m: wrapped(
        m,
        r2d2.ActorLag,
        "refresh",
        lambda f: lambda self, c, steps, every, n: f(self, c, steps, 2 * every, n),
    ),
    "sequences": lambda m: wrapped(
        m,
        *(recurrent, "SequenceLayout"),
        lambda f: lambda length, period, burn: f(length, period + 1, burn),
    ),
    "exploration": lambda m: m.setattr(
        r2d2, "compute_actor_epsilons", lambda base, exponent, n: [base] * n
    ),
    "optimizer_step": lambda m: wrapped(
        m,
        *(torch.optim, "Adam"),
        lambda f: lambda parameters, lr, eps: torch.optim.NAdam(parameters, lr=lr, eps=eps),
    ),
}
"""What is wrong in the recipe, by the probe that must say so."""
NAMED = {
    "rescaled_reward": "rewards as they are",
    "double_q": "the largest value of the target network",
    "sequence_loss": "the mean over a sequence's steps",
    "dueling_head": "advantages without their mean taken off",
    "burn_in_gradient": "it goes through the burn-in",
    "importance_weights": "none",
    "stored_state": "from zeros at the first step that is learned from",
}
"""Words of some."""
QUICK_PLANTS = ("burn_in_gradient", "last_steps_target")


def test_each_probe_has_a_fault_to_find():
    assert set(PLANTS) == set(BY_NAME)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK_PLANTS else pytest.mark.long) for n in PLANTS]
)
def test_fault_is_found(monkeypatch, name):
    PLANTS[name](monkeypatch)
    found = answer(ExperimentCache(load_adapter("torchrl")), name)
    assert not found.unmeasured and found.comparison.kind != AGREES
    assert found.meaning == NAMED.get(name, found.meaning) != ""


def test_origins_separate_our_recipe_from_upstream(cache):
    found = {name: answer(cache, name).origin for name in ("n_step_target", "burn_in_gradient")}
    assert found == {"n_step_target": "recipe", "burn_in_gradient": "upstream"}
