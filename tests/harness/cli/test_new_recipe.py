"""Recipes from RL Baselines3 Zoo's hyperparameter files."""

import pytest
import yaml

from parallax.harness.cli.main import main
from parallax.harness.cli.new_recipe import translate_zoo_entry
from parallax.harness.contract.data_files import load_yaml
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import read_recipe

ZOO = """
CartPole-v1:
  n_envs: 8
  n_timesteps: !!float 1e5
  policy: 'MlpPolicy'
  n_steps: 32
  batch_size: 256
  gae_lambda: 0.8
  gamma: 0.98
  n_epochs: 20
  ent_coef: 0.0
  learning_rate: lin_0.001
  clip_range: lin_0.2
Hopper-v4: &hopper
  normalize: true
  n_envs: 1
  policy: 'MlpPolicy'
  n_timesteps: !!float 1e6
  n_steps: 512
  learning_rate: 9.80828e-05
  env_kwargs: {healthy_reward: 0.5}
  env_wrapper: gymnasium.wrappers.ClipAction
  policy_kwargs: "dict(
                    log_std_init=-2,
                    activation_fn=nn.ReLU,
                    net_arch=dict(pi=[256, 256], vf=[256, 256])
                  )"
Swimmer-v4:
  <<: *hopper
  gamma: 0.9999
"""
DQN_ENTRY = """
n_timesteps: !!float 5e4
policy: 'MlpPolicy'
learning_rate: !!float 2.3e-3
batch_size: 64
buffer_size: 100000
learning_starts: 1000
gamma: 0.99
target_update_interval: 10
train_freq: 256
gradient_steps: 128
exploration_fraction: 0.16
exploration_final_eps: 0.04
policy_kwargs: "dict(net_arch=[256, 256])"
"""


@pytest.fixture
def zoo(tmp_path):
    path = tmp_path / "ppo.yml"
    path.write_text(ZOO)
    return path


def test_zoo_entries_become_the_shipped_recipes():
    ppo = translate_zoo_entry("ppo", yaml.safe_load(ZOO)["CartPole-v1"])
    assert ppo.hyperparameters == read_recipe("ppo", "zoo")
    assert dict(ppo.overrides) == {"n_envs": "8", "steps": "100000"} and not ppo.untranslated
    dqn = translate_zoo_entry("dqn", yaml.safe_load(DQN_ENTRY))
    assert dqn.hyperparameters == read_recipe("dqn", "zoo")


def test_entries_without_a_counterpart_are_refused_by_name(zoo, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["new", "recipe", str(zoo), "--algorithms", "ppo", "--env", "Swimmer-v4"]
    words += ["--name", "tuned", "--output", "mine"]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "policy_kwargs.log_std_init" in error and "policy_kwargs.activation_fn" in error
    assert not (tmp_path / "mine").exists()
    assert main([*words, "--partial"]) == 0
    output = capsys.readouterr().out
    assert "wrappers=normalized" in output and "+env.kwargs.healthy_reward=0.5" in output
    assert "env.wrappers=[gymnasium.wrappers:ClipAction]" in output
    text = (tmp_path / "mine/hyperparameters/ppo/tuned.yaml").read_text()
    values = yaml.safe_load(text)
    assert (values["gamma"], values["hidden_sizes"], values["rollout_steps"]) == (
        *(0.9999, [256, 256], 512),
    )
    assert "# left out: policy_kwargs.log_std_init" in text
    assert main([*words, "--partial"]) == 2  # nothing is overwritten


WORDS = ["--algorithms", "ppo", "--env", "Swimmer-v4", "--name", "tuned", "--partial"]


def test_a_group_file_with_other_text_is_not_overwritten(zoo, tmp_path, capsys):
    group = tmp_path / "mine" / "hps" / "tuned.yaml"
    group.parent.mkdir(parents=True)
    command = ["new", "recipe", str(zoo), *WORDS, "--output", str(tmp_path / "mine")]
    for text in ("# my own\nx: 1\n", "", "name: other\n"):
        group.write_text(text)
        assert main(command) == 2
        assert f"{group} already exists" in capsys.readouterr().err
        assert group.read_text() == text
    group.write_text("name: tuned\n")  # as another algorithm's recipe of that name has
    assert main(command) == 0


def test_a_recipe_does_not_take_the_name_of_an_installed_one(zoo, tmp_path, capsys):
    words = ["sb3" if word == "tuned" else word for word in WORDS]
    assert main(["new", "recipe", str(zoo), *words, "--output", str(tmp_path / "mine")]) == 2
    assert "--name sb3 is the name of a recipe that is installed" in capsys.readouterr().err
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("name", ["hyperparameters", "hps", "hyperparameters/ppo"])
def test_a_recipe_is_not_written_through_a_link(zoo, tmp_path, capsys, name):
    place, victim = tmp_path / "mine" / name, tmp_path / "victim"
    place.parent.mkdir(parents=True)
    victim.mkdir()
    place.symlink_to(victim)
    words = ["new", "recipe", str(zoo), *WORDS, "--output", str(tmp_path / "mine")]
    assert main(words) == 2
    assert f"{place} is a link: delete it" in capsys.readouterr().err
    assert not list(victim.iterdir())


@pytest.mark.parametrize(
    ("algorithm", "entry", "expected"),
    [
        ("td3", {"noise_type": "normal", "noise_std": 0.1}, {"exploration_noise": 0.1}),
        ("td3", {"gradient_steps": -1, "train_freq": 8}, {"gradient_steps": 8}),
        ("td3", {"learning_rate": 0.01}, {"policy_learning_rate": 0.01}),
        ("sac", {"ent_coef": "auto_0.1"}, {"initial_temperature": 0.1}),
        ("sac", {"train_freq": 2, "n_envs": 4}, {"train_freq": 8}),
        (
            *("ddpg", {"noise_type": "ornstein-uhlenbeck", "noise_std": 0.5}),
            {"exploration_noise_kind": "ornstein-uhlenbeck", "exploration_noise": 0.5},
        ),
        ("ppo", {"clip_range": 0.3}, {"clip_range": 0.3, "clip_range_schedule": "constant"}),
        ("dqn", {"target_update_interval": 7}, {"target_update_interval": 7}),
    ],
)
def test_single_values(algorithm, entry, expected):
    found = translate_zoo_entry(algorithm, entry)
    assert {name: found.hyperparameters[name] for name in expected} == expected
    assert not found.untranslated


@pytest.mark.parametrize(
    ("algorithm", "entry", "reason"),
    [
        ("sac", {"ent_coef": 0.2}, "always learned"),
        ("td3", {"train_freq": [1, "episode"]}, "counts episodes"),
        ("td3", {"learning_rate": "lin_0.001"}, "constant learning rate"),
        ("td3", {"noise_type": "ornstein-uhlenbeck"}, "gaussian noise"),
        ("ppo", {"use_sde": True}, "no counterpart"),
        ("ppo", {"learning_rate": "exp_0.1"}, "not a number"),
        ("ppo", {"policy": "CnnPolicy"}, "only MlpPolicy"),
        ("ppo", {"policy_kwargs": "dict(net_arch=dict(pi=[64], vf=[32]))"}, "same layers"),
        ("ppo", {"env_wrapper": [{"a.B": {"c": 1}}]}, "class of its own"),
        ("ppo", {"normalize": "{'norm_obs': True}"}, "only true and false"),
        ("dqn", {"exploration_fraction": 0.1}, "n_timesteps"),
        ("ppo", {"n_steps": True}, "not a number"),
        ("dqn", {"train_freq": True, "n_envs": 8}, "not a number"),
        ("ppo", {"clip_range": "lin_1.2.3"}, "cannot be read"),
        ("sac", {"ent_coef": "auto_1.2.3"}, "cannot be read"),
        ("ppo", {"gamma": "{[1]: 2}"}, "cannot be read"),
        ("ppo", {"policy_kwargs": "dict(net_arch=dict(pi=[[64]]))"}, "cannot be read"),
        ("dqn", {"exploration_fraction": 1e308, "n_timesteps": 1e6}, "cannot be read"),
    ],
)
def test_reasons(algorithm, entry, reason):
    assert reason in str(translate_zoo_entry(algorithm, entry).untranslated)


def test_values_that_cannot_be_used_are_refused():
    with pytest.raises(SpecError, match="gamma"):
        translate_zoo_entry("ppo", {"gamma": 2.0})
    for value in ("many", True, float("inf"), float("nan"), 10**400):
        with pytest.raises(SpecError, match=r"n_envs=.* must be a (whole )?number"):
            translate_zoo_entry("ppo", {"n_envs": value})
    for value in (0, -1, 1e308):
        with pytest.raises(SpecError, match=r"n_envs=.* must be from 1 to 2\^53"):
            translate_zoo_entry("ppo", {"n_envs": value})


def test_errors_in_an_entry_name_file_and_task(zoo, tmp_path, capsys):
    zoo.write_text("A-v0:\n  policy: MlpPolicy\n  n_steps: -5\n")
    words = ["--algorithms", "ppo", "--env", "A-v0", "--name", "a", "--output", str(tmp_path / "a")]
    assert main(["new", "recipe", str(zoo), *words]) == 2
    assert f"{zoo}, A-v0: " in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


def test_long_entries_are_shortened():
    (name,) = translate_zoo_entry("ppo", {"a" * 9000: list(range(9000))}).untranslated
    assert len(name) < 500


def test_control_characters_of_a_file_are_escaped(tmp_path, capsys):
    """YAML ends comments at characters that are no end of a line in Python."""
    path, output = tmp_path / "ppo.yml", tmp_path / "out"
    entries = ['"\\e[2Ja": 1', '"b\\x85gamma: 0.5": 1', 'env_kwargs: {"\\e[31m": 1}']
    path.write_text("\n  ".join(["T-v0:", *entries]))
    words = ["new", "recipe", str(path), "--algorithms", "ppo", "--env", "T-v0", "--name", "a"]
    assert main([*words, "--output", str(output), "--partial"]) == 0
    assert r"\x1b[2Ja" in (text := capsys.readouterr().out) and "\x1b" not in text
    recipe = load_yaml(output / "hyperparameters/ppo/a.yaml", "recipe")
    assert recipe == read_recipe("ppo", "sb3")


def test_unknown_task_error_lists_the_known_ones(zoo, capsys):
    words = ["new", "recipe", str(zoo), "--algorithms", "ppo", "--name", "a", "--output", "b"]
    assert main([*words, "--env", "Hoper-v4"]) == 2
    assert "Hopper-v4" in capsys.readouterr().err
