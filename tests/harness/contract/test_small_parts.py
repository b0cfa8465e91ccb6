"""Scripted episodes, accelerations, and files of users."""

import json
import types

import gymnasium
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from parallax.harness.contract import acceleration, data_files
from parallax.harness.contract.acceleration import (
    check_acceleration,
    check_observable_acceleration,
    explain_missing_acceleration,
    explain_missing_compiler,
    split_device,
)
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.probing.environments import (
    BOTH,
    TERMINATED,
    TRUNCATED,
    EnvironmentDriver,
    EnvMaker,
    EpisodeScript,
    SingleEnvDriver,
    make_env_makers,
    make_missing_implementation,
    make_single_env,
    read_episode,
)

SCRIPT = EpisodeScript(copy=2, ends=((2, TERMINATED), (1, TRUNCATED), (3, BOTH)), low=-2, high=3)


def test_episodes_have_their_ends_in_order_and_repeat_the_last():
    assert [SCRIPT.get_end(episode)[0] for episode in range(5)] == [2, 1, 3, 3, 3]
    flags = [SCRIPT.compute_flags(0, step) for step in (1, 2, 3)]
    assert flags == [(False, False), (True, False), (True, False)]
    assert SCRIPT.compute_flags(1, 1) == (False, True)
    assert [SCRIPT.compute_flags(2, step) for step in (2, 3)] == [(False, False), (True, True)]


def test_an_observation_says_where_it_comes_from():
    found = SCRIPT.compute_observation(3, 4, received=0.5, draw=0.25)
    wave = 3 + 2 * np.sin(1.3 * 4 + 0.9 * 3 + 0.7 * 2)
    np.testing.assert_allclose(found, [2, 3, 4, wave, 0.5, 0.25])
    assert SCRIPT.compute_reward(3, 4) == pytest.approx(1 + np.cos(0.8 * 4 + 0.5 * 3 + 0.3 * 2))


def test_the_scripted_task_follows_its_script_and_receives_actions():
    env = make_single_env(SCRIPT)
    assert (env.action_space.low, env.action_space.high) == (-2, 3)
    assert env.observation_space.shape == (6,) and env.observation_space.dtype == np.float32
    first, info = env.reset(seed=1)
    assert_array_equal(first[[0, 1, 2, 4, 5]], [2, 0, 0, 0, 0])
    assert info == {} and first.dtype == np.float32
    observation, reward, terminated, truncated, info = env.step(np.array([0.5]))
    assert_array_equal(observation[[0, 1, 2, 4, 5]], [2, 0, 1, 0.5, 0])
    assert reward == SCRIPT.compute_reward(0, 1) and info == {}
    assert (terminated, truncated) == (False, False)
    assert env.step([0.0])[2:4] == (True, False)
    assert env.reset()[0][[1, 2]].tolist() == [1, 0]
    assert env.step([0.0])[2:4] == (False, True)


def test_resets_draw_a_number_by_their_seed_where_the_script_says_so():
    env = EnvMaker(EpisodeScript(draws=True))()
    draws = [float(env.reset(seed=seed)[0][5]) for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2] and draws[0] != 0
    later = float(env.reset()[0][5])
    assert later != draws[2]
    assert float(env.step([0.0])[0][5]) == pytest.approx(later)
    assert [maker().script.copy for maker in make_env_makers([SCRIPT, EpisodeScript()])] == [2, 0]


def test_the_driver_of_one_environment_resets_at_the_end_of_an_episode():
    env = gymnasium.wrappers.RecordEpisodeStatistics(make_single_env(SCRIPT))
    frozen = []
    driver = SingleEnvDriver(env, lambda: frozen.append(True))
    assert (driver.n_envs, driver.autoreset, driver.observation_space.shape) == (1, "caller", (6,))
    assert driver.reset(seed=3).shape == (1, 6)
    step = driver.step(np.zeros((1, 1), np.float32))
    assert step.final_observations == (None,) and step.episodes == (None,)
    assert step.rewards.tolist() == [SCRIPT.compute_reward(0, 1)]
    assert (step.terminated.tolist(), step.truncated.tolist()) == ([False], [False])
    assert step.observations[0, 2] == 1
    step = driver.step(np.zeros((1, 1), np.float32))
    assert (step.terminated.tolist(), step.truncated.tolist()) == ([True], [False])
    assert step.final_observations[0][:3].tolist() == [2, 0, 2]
    assert step.observations[0, :3].tolist() == [2, 1, 0]
    total = SCRIPT.compute_reward(0, 1) + SCRIPT.compute_reward(0, 2)
    assert step.episodes == ((pytest.approx(total), 2.0),)
    assert driver.step(np.zeros((1, 1))).truncated.tolist() == [True]
    driver.freeze()
    assert frozen == [True]
    closed = []
    env.close = lambda: closed.append(True)
    driver.close()
    assert closed == [True]


def test_what_an_implementation_lacks_is_an_error():
    with pytest.raises(NotImplementedError, match="no switch"):
        SingleEnvDriver(make_single_env(SCRIPT)).freeze()
    missing = make_missing_implementation("a", ["b"], "it is not installed")
    assert (missing.name, missing.roles, missing.missing) == ("a", ("b",), "it is not installed")
    with pytest.raises(NotImplementedError, match="it is not installed"):
        missing.make([SCRIPT])
    for call in ("reset", "freeze"):
        with pytest.raises(NotImplementedError):
            getattr(EnvironmentDriver(), call)()


def test_recorded_episodes_are_return_and_length():
    assert read_episode(None) is None
    assert read_episode({"r": np.array([1.5, 9]), "l": 7}) == (1.5, 7.0)


@pytest.mark.parametrize(
    ("text", "device", "name"),
    [
        ("cuda", "cuda", "none"),
        ("compile", "cpu", "compile"),
        ("cuda+compile", "cuda", "compile"),
        ("none", "cpu", "none"),
    ],
)
def test_what_probes_compare_is_a_device_and_an_acceleration(text, device, name):
    assert split_device(text) == (device, name)


def test_reasons_for_a_missing_acceleration_depend_on_library_and_device():
    explain = explain_missing_acceleration
    assert explain("compile", "cpu", "jax") == "JAX compiles its updates in any case"
    assert explain("fused-adam", "cpu", "jax").startswith("it is an option of PyTorch")
    assert explain("cuda-graphs", "cpu") == "it replays kernels of a GPU, and device=cpu has none"
    assert "overwrites the outputs" in explain("cuda-graphs", "cuda")
    assert "operation by operation" in explain("eager", "cpu")
    assert "TorchRL" in explain("no-vmap", "cpu")
    assert explain("compile", "cpu") == "its adapter does not carry it"


@pytest.mark.parametrize(("found", "is_missing"), [("g++", False), ("clang++", False), ("", True)])
def test_a_compiler_is_missing_where_none_of_its_names_is_found(monkeypatch, found, is_missing):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(acceleration.shutil, "which", lambda name: name == found and name)
    assert bool(explain_missing_compiler()) == is_missing
    assert explain_missing_compiler() is not None
    monkeypatch.setenv("CXX", "own-compiler")
    monkeypatch.setattr(acceleration.shutil, "which", lambda name: name == "own-compiler" and name)
    assert explain_missing_compiler() == ""


def make_adapter(unsupported=(), devices=("cpu", "cuda"), unobservable=()):
    return types.SimpleNamespace(
        name="own",
        accelerations=("compile", "bfloat16"),
        why_unsupported_acceleration=lambda algorithm, name, device, here: (
            "it cannot" if name in unsupported else ""
        ),
        why_unsupported_device=lambda algorithm, device, here: (
            "" if device in devices else "no GPU"
        ),
        why_unobservable_acceleration=lambda name: "nobody sees it" if name in unobservable else "",
    )


def test_an_acceleration_that_is_not_available_is_refused_with_those_that_are():
    check_acceleration("ppo", "none", make_adapter(unsupported=["none"]))
    check_acceleration("ppo", "compile", make_adapter())
    message = (
        "acceleration=compile is not available for algorithm=ppo of framework=own: it cannot. "
        "Use acceleration=none or bfloat16."
    )
    with pytest.raises(SpecError, match=message):
        check_acceleration("ppo", "compile", make_adapter(unsupported=["compile"]))


def test_an_acceleration_that_probes_cannot_see_is_refused():
    check_observable_acceleration("ppo", "cuda+compile", make_adapter())
    check_observable_acceleration("ppo", "compile", make_adapter(devices=["cpu"]))
    with pytest.raises(SpecError, match=r"cuda\+compile needs device=cuda: no GPU"):
        check_observable_acceleration("ppo", "cuda+compile", make_adapter(devices=["cpu"]))
    with pytest.raises(SpecError, match=r"compile cannot be compared .*: nobody sees it"):
        check_observable_acceleration("ppo", "compile", make_adapter(unobservable=["compile"]))
    with pytest.raises(SpecError, match="acceleration=compile is not available"):
        check_observable_acceleration("ppo", "cuda+compile", make_adapter(unsupported=["compile"]))


def test_files_of_users_have_a_size_and_a_number_of_values(tmp_path, monkeypatch):
    file = tmp_path / "a.yaml"
    monkeypatch.setattr(data_files, "_MAX_BYTES", 10)
    file.write_text("a: 1".ljust(10))
    assert data_files.load_yaml(file, "recipe") == {"a": 1}
    file.write_text("a: 1".ljust(11))
    with pytest.raises(SpecError, match="the recipe has more than 10 bytes"):
        data_files.load_yaml(file, "recipe")
    monkeypatch.setattr(data_files, "_MAX_BYTES", 1000)
    monkeypatch.setattr(data_files, "_MAX_VALUES", 4)
    file.write_text("[1, 2, 3]")  # with the list itself
    assert data_files.load_yaml(file, "recipe") == [1, 2, 3]
    for text in ("[1, 2, 3, 4]", "{a: &x [1], b: *x}", "&x [*x]"):
        file.write_text(text)
        with pytest.raises(SpecError, match="stands for more than 4 values by its aliases"):
            data_files.load_yaml(file, "recipe")


def test_damaged_yaml_is_named_with_its_line(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("a: 1\nb: [\n")
    with pytest.raises(SpecError, match=r"a\.yaml:3: the recipe is no YAML"):
        data_files.load_yaml(file, "recipe")
    file.write_text("a: 2000-99-99\n")
    with pytest.raises(SpecError, match=r"a\.yaml:1: the recipe cannot be read"):
        data_files.load_yaml(file, "recipe")
    with pytest.raises(SpecError, match=r"cannot be read .No such file"):
        data_files.load_yaml(tmp_path / "missing.yaml", "recipe")


def test_json_of_users_is_read_up_to_a_size(tmp_path, monkeypatch):
    file = tmp_path / "a.json"
    content = json.dumps([1, 2])
    file.write_text(content)
    monkeypatch.setattr(data_files, "_MAX_JSON_BYTES", len(content))
    assert data_files.load_json(file, list[int], "numbers") == [1, 2]
    monkeypatch.setattr(data_files, "_MAX_JSON_BYTES", len(content) - 1)
    with pytest.raises(SpecError, match=r"a\.json .over 5 bytes. holds no numbers"):
        data_files.load_json(file, list[int], "numbers")
    with pytest.raises(SpecError, match=r"no file. holds no numbers"):
        data_files.load_json(tmp_path / "b.json", list[int], "numbers")
    with pytest.raises(SpecError, match=r"no regular file. holds no numbers"):
        data_files.load_json(tmp_path, list[int], "numbers")


def test_lines_of_json_are_read_one_by_one_and_a_wrong_one_is_numbered(tmp_path):
    file = tmp_path / "a.jsonl"
    assert data_files.load_json_lines(file, int, "numbers") == []
    file.write_text("1\n\n2\n")
    assert data_files.load_json_lines(file, int, "numbers") == [1, 2]
    file.write_text("NaN\n")
    assert np.isnan(data_files.load_json_lines(file, float, "numbers")).tolist() == [True]
    file.write_text('1\n"b"\n')
    with pytest.raises(SpecError, match=r"value 2: .* holds no numbers"):
        data_files.load_json_lines(file, int, "numbers")
    assert data_files._describe(OSError(2, "No such file")) == "No such file"
    assert data_files._describe(ValueError("a\nb" + "c" * 300)) == "ab" + "c" * 198
    assert data_files._describe(ValueError()) == "ValueError"
