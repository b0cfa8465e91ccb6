"""Parts that older releases of TorchRL lack, without one of them."""

import pytest
import torch

pytest.importorskip("torchrl")
from torchrl.objectives import group_optimizers

from parallax.adapters.torchrl import SUPPORTED_VERSIONS
from parallax.adapters.torchrl.replay import select_vmap_option
from parallax.adapters.torchrl.versions import COEFFICIENT_NAMES, join_optimizers


def make_adam(rate, eps):
    return torch.optim.Adam([torch.nn.Parameter(torch.ones(2))], lr=rate, eps=eps)


def test_joined_optimizers_equal_those_of_upstream():
    parts = make_adam(0.1, 1e-5), make_adam(0.2, 1e-8)
    ours, theirs = join_optimizers(*parts), group_optimizers(*parts)
    assert type(ours) is type(theirs) and len(ours.param_groups) == 2
    assert ours.param_groups == theirs.param_groups


def test_vmap_is_named_only_where_it_is_deactivated():
    assert select_vmap_option({}) == select_vmap_option({"deactivate_vmap": False}) == {}
    assert select_vmap_option({"deactivate_vmap": True}) == {"deactivate_vmap": True}


def test_coefficients_have_current_names_in_the_installed_release():
    assert {name: name for name in ("entropy_coeff", "critic_coeff")} == COEFFICIENT_NAMES


@pytest.mark.parametrize(
    ("release", "tensordict", "is_old"),
    [("0.6.0", "0.6.2", True), ("0.7.2", "0.7.2", True), ("0.8.1", "0.8.3", False)],
)
def test_older_releases_get_matching_package_versions(release, tensordict, is_old):
    requirements = SUPPORTED_VERSIONS.list_requirements(release)
    assert f"tensordict=={tensordict}" in requirements
    assert ("gymnasium==0.29.1" in requirements) is is_old


def test_old_coefficient_names_are_not_declared_defaults(monkeypatch):
    import ast

    from parallax.adapters import torchrl as adapter

    def read(call):
        parsed = ast.parse(call, mode="eval").body
        calls = [("ClipPPOLoss", parsed.keywords)]
        monkeypatch.setattr(adapter, "_find_component_calls", lambda algorithm: iter(calls))
        return adapter.read_upstream_defaults("ppo")

    assert "ClipPPOLoss.entropy_coeff" not in read("ClipPPOLoss(entropy_coef=cfg.loss.entropy)")
    assert read("ClipPPOLoss(critic_coef=0.25)")["ClipPPOLoss.critic_coeff"] == 0.25
