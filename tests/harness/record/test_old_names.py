"""Names of earlier versions are translated once, and those of today are left alone."""

import pytest

from parallax.harness.record.old_names import translate_record, translate_spec, translate_variant

OLD = {
    "schema": 2,
    "spec": {
        "keep": "best",
        "alignment": "full",
        "env": "envs.scripted:ParallaxScripted-v0",
        "intervention": "half-value-loss+reward-times-10",
        "hyperparameters": {"env_steps_per_round": 2},
        "overridden": ["env_steps_per_round"],
    },
    "adapter": "adapters.sb3:SB3Adapter",
    "cadence": {"gradient_steps": 3},
    "kept": 1,
    "alignment": [{"field": "gradient_steps_per_round"}],
}


def test_old_record_is_translated_to_current_names():
    new = translate_record(OLD)
    assert new["spec"] == {
        "save_policy": "best",
        "alignment": "exact",
        "env": "parallax.envs.scripted:ParallaxScripted-v0",
        "intervention": "value-loss-x0.5+reward-times-10",
        "hyperparameters": {"train_freq": 2},
        "overridden": ["train_freq"],
    }
    assert new["adapter"] == "parallax.adapters.sb3:SB3Adapter"
    assert new["update_schedule"] == {"total_gradient_steps": 3} and new["saved_evaluation"] == 1
    assert new["alignment"] == [{"field": "gradient_steps"}]
    assert translate_record(new | {"schema": 3}) == new | {"schema": 3}


def test_variants_are_translated_part_by_part():
    old = "steps=5,alignment=full,keep=best,intervention=bent-loss,hidden_sizes=[16,16]"
    new = "steps=5,alignment=exact,save_policy=best,intervention=huber-loss,hidden_sizes=[16,16]"
    assert translate_variant(old) == new == translate_variant(new)


def test_interventions_are_translated_with_their_changes():
    old = {
        "bent-loss": {
            "set": {"gradient_steps_per_round": 2, "tau": 0.1},
            "wrap": [{"layer": "adapters.sb3.wrap:Layer", "n": 1}, {"layer": 3}, "text"],
            "source": [{"module": "adapters.sb3.train"}, {"module": "stable_baselines3.td3"}],
            "note": "x",
        },
        "other": "text",
    }
    new = translate_record(OLD | {"interventions": old})["interventions"]
    assert new == {
        "huber-loss": {
            "set": {"gradient_steps": 2, "tau": 0.1},
            "wrap": [{"layer": "parallax.adapters.sb3.wrap:Layer", "n": 1}, {"layer": 3}, "text"],
            "source": [
                {"module": "parallax.adapters.sb3.train"},
                {"module": "stable_baselines3.td3"},
            ],
            "note": "x",
        },
        "other": "text",
    }
    assert "gradient_steps_per_round" in old["bent-loss"]["set"]  # not changed in place
    for odd in ([], "text", {"bent-loss": {"set": [1], "wrap": {"layer": "adapters.a"}}}):
        found = translate_record(OLD | {"interventions": odd})["interventions"]
        assert found == ({"huber-loss": odd["bent-loss"]} if isinstance(odd, dict) else odd)


@pytest.mark.parametrize("spec", [None, 3, "text", ["keep"]])
def test_invalid_specifications_are_left_to_validation(spec):
    assert translate_spec(spec) is spec
    assert translate_record(OLD | {"spec": spec})["spec"] == spec


def test_thresholds_of_checks_have_current_ids():
    spec = {"diagnosis": {"mode": "on", "thresholds": {"AGT_d1": 1, "own": 2}}}
    assert translate_spec(spec) == {
        "diagnosis": {"mode": "on", "thresholds": {"target-not-updated": 1, "own": 2}}
    }
