"""Settings, code and versions that must be equal for a run to resume."""

import dataclasses
import importlib
import json
import platform
import types

import pytest
import support

from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.run_spec import spec_to_dict
from parallax.harness.train import run_identity
from parallax.harness.train.prepare import describe_translation, prepare_run


def test_a_package_that_is_not_installed_has_no_version():
    assert run_identity._get_package_version("pytest") == pytest.__version__
    assert run_identity._get_package_version("no-such-package-anywhere") == ""


def test_a_run_is_the_same_with_the_same_settings_code_and_versions(monkeypatch):
    spec = support.spec(study="a", checkpoint_every=5)
    adapter, code = load_adapter("sb3"), {"files": {"train.py": "ab"}, "requires": ["x"]}
    monkeypatch.setattr(
        run_identity, "_get_package_version", lambda name: "" if name == "mujoco" else f"1 {name}"
    )
    prepared = prepare_run(spec, adapter)
    found = run_identity.describe_run_identity(prepared, adapter, code)
    settings = spec_to_dict(spec)
    left_out = ("study", "python", "checkpoint_every", "diagnosis", "logger", "endpoint")
    for name in (*left_out, "evaluate_untrained", "actors"):
        del settings[name]
    names = ("numpy", "torch", "gymnasium", "ale-py", "minatar", *adapter.packages)
    packages = {name: f"1 {name}" for name in names}
    files = found.pop("code")
    task = "gymnasium.envs.mujoco.inverted_pendulum_v4:inverted_pendulum_v4.py"
    modules = {"envs:make.py", "harness.replay:replayer.py", "adapters.torch_common:state.py"}
    assert {task, *(f"parallax.{name}" for name in modules)} < files.keys()
    assert found.pop("settings") == json.loads(json.dumps(settings))
    translation = json.loads(json.dumps(describe_translation(prepared)))
    assert found.pop("translation") == translation
    assert found == {
        **{"adapter": {"train.py": "ab"}, "packages": packages},
        "python": platform.python_version(),
    }
    several = dataclasses.replace(
        prepared, spec=types.SimpleNamespace(**(vars(spec) | {"device": "cpu"}))
    )
    monkeypatch.setattr(run_identity, "spec_to_dict", lambda spec: {"actors": 2, "study": "a"})
    again = run_identity.describe_run_identity(several, adapter, code)
    assert again["settings"] == {"actors": 2}


def test_run_does_not_resume_after_edits_to_its_task_or_shared_code(monkeypatch, tmp_path):
    """Its first steps would have other rewards than the rest."""
    (tmp_path / "edited_tasks.py").write_text(
        "import gymnasium\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "class Cart(CartPoleEnv):\n    reward = 1\n"
        "gymnasium.register('Edited-v0', Cart, max_episode_steps=50)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    spec = support.spec(algorithm="dqn", env="edited_tasks:Edited-v0")
    adapter = load_adapter("sb3")
    prepared = prepare_run(spec, adapter)
    then = run_identity.describe_run_identity(prepared, adapter, {"files": {}})
    assert not run_identity.describe_identity_difference(then, then)
    path = tmp_path / "edited_tasks.py"
    path.write_text(path.read_text().replace("reward = 1", "reward = 2"))
    now = run_identity.describe_run_identity(prepared, adapter, {"files": {}})
    words = "edited_tasks:edited_tasks.py of the code is another one now"
    assert run_identity.describe_identity_difference(then, now) == words
    # Modules beside it, and files that its arguments name, are part of it.
    (tmp_path / "edited_tasks_helper.py").write_text("SCALE = 1\n")
    importlib.import_module("edited_tasks_helper")
    changed = dataclasses.replace(spec, env_kwargs={"render_mode": None, "map": [str(path)]})
    files = run_identity._hash_task_files(changed)
    helper = "edited_tasks_helper:edited_tasks_helper.py"
    assert files.keys() == {helper, "edited_tasks:edited_tasks.py", str(path)}
    assert not run_identity._hash_task_files(support.spec())
    (tmp_path / "edited_tasks_helper.py").write_text("SCALE = 2\n")
    assert run_identity._hash_task_files(changed)[helper] != files[helper]
    del then["code"]  # of an earlier version
    assert "of the code is another one" in run_identity.describe_identity_difference(then, now)


def test_a_run_does_not_resume_with_an_evaluation_more_or_less():
    """Initial states of evaluations depend on their number."""
    adapter = load_adapter("sb3")
    then, now = (
        run_identity.describe_run_identity(
            prepare_run(support.spec(evaluate_untrained=first), adapter), adapter, {"files": {}}
        )
        for first in (False, True)
    )
    for pair in ((then, now), (now, then)):
        words = run_identity.describe_identity_difference(*pair)
        assert words.startswith("settings: evaluate_untrained was ")
