"""Names of replay strategies, their validation, and the frameworks that support them."""

import pytest
import support

from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.replay import (
    REPLAY_CONFIGS,
    UNIFORM_REPLAY,
    compute_default_interval,
    make_replay_config,
)
from parallax.harness.contract.run_spec import spec_from_dict, spec_to_dict
from parallax.harness.train.prepare import prepare_run


def prepare(framework="sb3", algorithm="dqn", **changes):
    return prepare_run(support.spec(framework, algorithm, **changes), load_adapter(framework))


def test_uniform_is_the_default_and_has_no_part_in_the_name():
    plain = support.spec("sb3", "dqn")
    assert plain.replay == UNIFORM_REPLAY and "replay" not in plain.variant
    assert plain == support.spec("sb3", "dqn", replay="uniform")


def test_variant_names_non_default_fields_and_the_record_has_all():
    spec = support.spec("sb3", "dqn", replay={"name": "per", "alpha": 0.6})
    assert ",replay=per" in spec.variant and "alpha" not in spec.variant
    other = support.spec("sb3", "dqn", replay={"name": "imp", "alpha": 0.7, "fragments": 5})
    assert other.replay.parts == ["replay=imp", "replay.alpha=0.7", "replay.fragments=5"]
    assert spec.title.startswith("sb3+per dqn")
    recorded = spec_to_dict(spec)["replay"]
    assert recorded["name"] == "per" and len(recorded) == 9
    assert spec_from_dict(spec_to_dict(other)) == other
    assert spec != other and hash(spec.replay) != hash(other.replay)


def test_record_without_replay_means_uniform():
    old = spec_to_dict(support.spec("sb3", "dqn"))
    del old["replay"]
    assert spec_from_dict(old).replay == UNIFORM_REPLAY


@pytest.mark.parametrize("name", REPLAY_CONFIGS)
def test_every_field_is_checked_and_has_a_default(name):
    usual = make_replay_config(name)
    assert make_replay_config(usual.to_dict()) == usual
    for field in usual.to_dict().keys() - {"name"}:
        with pytest.raises(SpecError, match=rf"replay\.{field}="):
            make_replay_config({"name": name, field: [-1]})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("pre", r"replay=pre is not known\. Did you mean per\?"),
        ({"name": "per", "alpha": -0.5}, r"replay\.alpha=-0\.5 must be at least 0"),
        ({"name": "per", "alpa": 0.5}, r"replay\.alpa is not known\. Did you mean alpha\?"),
        ({"name": "per", "beta": 2}, r"replay\.beta=2\.0 must be at most 1"),
        ({"name": "per", "draws": "some"}, r"replay\.draws='some' must be one of: independent"),
        ({"name": "uniform", "alpha": 0.5}, r"replay\.alpha has no effect with replay=uniform"),
        ({"name": "imp", "weight_low": 2, "weight_high": 1}, r"replay\.weight_high=1\.0 must be"),
        ({"alpha": 0.5}, r"must be one of: uniform, per, rank, atdc, imp"),
    ],
)
def test_invalid_replay_settings_are_one_message(given, message):
    with pytest.raises(SpecError, match=message):
        make_replay_config(given)


def test_ppo_replays_nothing():
    with pytest.raises(
        SpecError,
        match=r"replay=per needs a replay buffer, but algorithm=ppo .*Use replay=uniform, or",
    ):
        prepare(algorithm="ppo", replay="per")


@pytest.mark.parametrize("framework", ["tianshou"])
def test_framework_without_replay_support_is_refused_before_training(framework):
    message = f"replay=imp is not available for algorithm=td3 of framework={framework}: .*Use repl"
    with pytest.raises(SpecError, match=message):
        prepare(framework, "td3", replay="imp")


@pytest.mark.parametrize(
    ("algorithm", "replay", "more", "message"),
    [
        ("td3", {"name": "per"}, {}, "which is replay.critics=net"),
        ("ddpg", {"name": "per", "draws": "stratified"}, {}, "which is replay.draws=independent"),
        ("ddpg", {"name": "per", "alpha": 0}, {}, "which is replay=uniform"),
        ("ddpg", {"name": "per", "normalize": "none"}, {}, "use replay.normalize=batch"),
        ("ddpg", {"name": "rank"}, {}, "in proportion to errors only; replay=per is carried by"),
        ("ddpg", {"name": "imp"}, {}, "before the errors that correct the weights are known"),
        ("ddpg", {"name": "atdc"}, {}, "and does not evaluate its networks between minibatches"),
        (
            "dqn",
            {"name": "per"},
            {"alignment": "exact", "patches": False, "hyperparameters": {"huber_delta": 1.0}},
            "huber_delta=1.0: in tianshou it is a loss without importance weights",
        ),
    ],
)
def test_replay_settings_missing_in_tianshou_are_refused_with_the_remedy(
    algorithm, replay, more, message
):
    with pytest.raises(SpecError, match=message):
        prepare("tianshou", algorithm, replay=replay, **more)


@pytest.mark.parametrize(
    ("algorithm", "critics", "message"),
    [
        ("sac", "mean", "which is replay.critics=max"),
        ("td3", "net", "use replay.critics=mean or max"),
    ],
)
def test_replay_settings_missing_in_torchrl_are_refused_with_the_remedy(
    algorithm, critics, message
):
    with pytest.raises(SpecError, match=message):
        prepare("torchrl", algorithm, replay={"name": "imp", "critics": critics})
    prepare("torchrl", algorithm, replay={"name": "imp", "critics": "max"})


@pytest.mark.parametrize(
    ("steps", "interval"),
    [(1, 1), (99, 1), (100, 2), (499_999, 9_999), (500_000, 10_000), (10**7, 10_000)],
)
def test_a_sweep_is_due_after_a_fiftieth_of_a_short_run(steps, interval):
    assert compute_default_interval(steps) == interval
