"""Settings of runs that must be equal."""

import json

from parallax.analysis.data.settings import serialize_settings

SPEC = {"seed": 1, "n_envs": 2, "hyperparameters": {"gamma": 0.9, "tau": 1}}


def test_serialized_settings_leave_out_what_is_compared_and_what_changes_no_result():
    found = serialize_settings(SPEC, without=("seed", "tau"))
    assert json.loads(found) == {"n_envs": 2, "hyperparameters": {"gamma": 0.9}}
    without_effect = {"logger": "wandb", "checkpoint_every": 0, "overridden": ["gamma"]}
    assert serialize_settings({**SPEC, **without_effect}, without=("seed", "tau")) == found
    for other in ({"n_envs": 3}, {"hyperparameters": {"gamma": 1}}, {"save_policy": "best"}):
        assert serialize_settings({**SPEC, **other}, without=("seed", "tau")) != found
