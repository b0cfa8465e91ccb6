"""Unknown options are refused with the name that was meant."""

import dataclasses
import subprocess
import sys

import pytest

from parallax.envs.tasks import load_task
from parallax.harness.cli import main
from parallax.harness.cli.config_groups import explain_unknown_option, find_synonym
from parallax.harness.cli.hydra_app import check_known_keys, find_references
from parallax.harness.cli.train import defer_hyperparameters
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.contract.run_spec import ALIGNMENTS
from parallax.harness.probes.experiments import AlignmentLevel, ExperimentCache
from parallax.harness.train.prepare import resolve_hyperparameters


@pytest.mark.parametrize(
    ("name", "algorithm", "option"),
    [
        ("gamma", "ppo", "hyperparameters.gamma"),
        ("n_steps", "ppo", "hyperparameters.rollout_steps"),
        ("num-steps", "ppo", "hyperparameters.rollout_steps"),
        ("Collector.frames_per_batch", "ppo", "hyperparameters.rollout_steps"),
        ("frames_per_batch", "td3", "hyperparameters.train_freq"),
        ("batch_size", "ppo", "hyperparameters.minibatch_size"),
        ("batch_size", "sac", "hyperparameters.batch_size"),
        ("hyperparameters.n_epochs", "ppo", "hyperparameters.epochs"),
        ("policy-frequency", "td3", "hyperparameters.policy_delay"),
        ("clip_coef", "ppo", "hyperparameters.clip_range"),
        ("tau", "td3", "hyperparameters.tau"),
        ("tau", "ppo", "hyperparameters.tau (of algorithm=td3)"),
        ("lr", "ppo", "hyperparameters.learning_rate"),
        ("lr", "sac", "hyperparameters.policy_learning_rate"),
        ("alpha", "sac", "hyperparameters.initial_temperature"),
        ("alpha", "ppo", "hyperparameters.learning_rate"),
        ("autotune", "sac", "hyperparameters.temperature_learning_rate"),
        ("eps_start", "dqn", "hyperparameters.exploration_initial"),
        ("optim_steps", "td3", "hyperparameters.gradient_steps"),
        ("total_timesteps", "ppo", "steps"),
        ("num_envs", "ppo", "n_envs"),
        ("eval-freq", "dqn", "eval_every"),
        ("surely_nothing", "ppo", ""),
    ],
)
def test_option_names_of_other_tools_are_suggested(name, algorithm, option):
    assert find_synonym(name, algorithm) == option


def test_messages_name_the_option_for_task_arguments():
    assert "env.kwargs.goal" in explain_unknown_option("env.goal", "ppo")
    assert "Did you mean eval_every?" in explain_unknown_option("evl_every", "ppo")
    assert "study has study.name" in explain_unknown_option("study.x", "ppo")


def test_unused_keys_are_refused_except_referenced_ones():
    study = {
        "study": {"name": "mine", "lengths": {"ppo": 5}},
        "algorithm": {"name": "ppo"},
        "steps": "${my_steps.${algorithm.name}}",
        "eval_every": "${study.lengths.ppo}",
        "my_steps": {"ppo": 10},
    }
    check_known_keys(study, find_references(study))
    for extra in ({"foo": 1}, {"env": {"name": "A", "goal": 1}}, {"overridden": []}):
        with pytest.raises(SpecError, match="is not known"):
            check_known_keys(study | extra, find_references(study))


@pytest.mark.parametrize(
    ("words", "deferred"),
    [
        (
            ["-m", "hydra.sweeper.parts=[{algorithm:ddpg}]", "hyperparameters.tau=0.1"],
            ["-m", "hydra.sweeper.parts=[{algorithm:ddpg}]", "hyperparameters.tau=choice(0.1)"],
        ),
        (
            ["-m", "algorithm=td3,ddpg", "hyperparameters.hidden_sizes=[8,8]", "seed=1"],
            ["-m", "algorithm=td3,ddpg", "hyperparameters.hidden_sizes=choice([8,8])", "seed=1"],
        ),
        (
            ["-m", "algorithm=td3,ddpg", "hyperparameters.tau=0.1,0.2"],
            ["-m", "algorithm=td3,ddpg", "hyperparameters.tau=0.1,0.2"],
        ),
        (
            ["algorithm=td3", "hyperparameters.tau=0.1"],
            ["algorithm=td3", "hyperparameters.tau=0.1"],
        ),
        (["-m", "algorithm=td3,ddpg", "hyperparameters.=("], None),
    ],
)
def test_hyperparameters_of_a_sweep_are_set_in_its_runs(words, deferred):
    assert defer_hyperparameters(words) == (deferred or words)


@pytest.mark.parametrize("command", ["alignment", "lockstep", "probe", "why"])
def test_commands_have_the_levels_that_trainings_have(command, capsys):
    with pytest.raises(SystemExit):
        main.main([command, "--help"])
    assert f"{','.join(ALIGNMENTS)}}}" in capsys.readouterr().out  # after `probe`'s `upstream`


@pytest.mark.parametrize("level", ALIGNMENTS)
def test_probes_have_the_hyperparameters_of_trainings_at_each_level(level):
    adapter, recipe = load_adapter("sb3"), load_recipe("dqn", "zoo")
    context = RunContext(load_task("CartPole-v1"), 1000, 0)
    trained = resolve_hyperparameters(adapter, "dqn", recipe, level, context)
    cache = ExperimentCache(adapter, level=AlignmentLevel(level, "zoo"))
    changes = {"learning_starts": trained.learning_starts}  # of the protocol, at each level
    probed, _ = cache._translate_settings("dqn", context, changes)
    sizes = probed.hidden_sizes  # at `exact` and `lockstep` those of the scripted weights
    assert probed == dataclasses.replace(trained, hidden_sizes=sizes)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "train --algorithm ppo",
            "--algorithm is not an option. Settings are written as algorithm=",
        ),
        ("train +hydra.swep.dir=x", "hydra.swep is not known. Did you mean hydra.sweep?"),
        ("train recipe.gamma=0.5", "recipe.gamma=0.5 would change the name but not"),
        ("train +hps.name=zoo", "with algorithm=NAME hps=NAME, and change values with hyperparam"),
        ("train hyperparameters@recipe=ppo/zoo", "would change the name but not the values"),
        ("train ~patches", "~patches would remove a setting that runs need: use patches=VALUE."),
        ("why sb3 cleanrl --algoritms ppo", "--algoritms ppo. Did you mean --algorithms?"),
        ("probe --alignement exact", "Did you mean --alignment?"),
        ("why sb3 cleanrl --algorithm pppo", "Did you mean ppo?"),
    ],
)
def test_wrong_option_errors_name_the_right_ones(words, message, capsys):
    assert main.main(words.split()) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [["bugs", "--bug="], ["versions", "sb3", "--releases", ","], ["probe", "--algorithms", " "]],
)
def test_empty_list_is_refused_and_does_not_mean_all(words, capsys):
    assert main.main(words) == 2
    assert "names nothing: leave it out, or name at least one" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--dry-run"], ["--dry-run", "--multirun", "seed=0,1"]])
def test_dry_run_lists_runs_and_trains_nothing(tmp_path, words):
    where = f"results_dir={tmp_path / 'results'}"
    command = [sys.executable, "-m", "parallax", "train", *words, "framework=sb3", where]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    number = len(shown.stdout.splitlines()) - 1
    assert number == len(words[-1].split(",")) and f"{number} new." in shown.stdout
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    "words",
    [
        *(["policy", "evaluate", ""], ["policy", "export", "x", ""], ["probe", "--drift", ""]),
        *(["alignment", "--env", " "], ["why", "sb3", "cleanrl", "--hps", ""]),
        *(["import", "x", "--columns", ""], ["probe", "--environments", ""]),
    ],
)
def test_an_empty_text_is_refused_and_does_not_mean_the_default(words, capsys):
    assert main.main(words) == 2
    assert "is empty: leave it out, or give a value" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "dropped"),
    [
        ("versions sb3 --page x", "sb3"),
        ("versions --page x --json y", "--json"),
        ("versions sb3 --bisect td3.critic_loss 2.0.0..2.1.0 --probe y", "--probe"),
        ("bugs --list --json y", "--json"),
        ("triage sb3 skrl --algorithms ppo --no-training --env y", "--env"),
        ("intervention list --operators y", "--operators"),
        ("intervention list --kind mutants --seed 1", "--seed"),
        ("intervention list --kind user-faults --values 1", "--values"),
        ("intervention list --kind user-faults --algorithms dqn --all", "--all"),
        ("run watch x --findings --once", "--once"),
        ("status . --json --list 1", "--list"),
        ("status . --files --list 1", "--list"),
    ],
)
def test_options_that_would_have_no_effect_are_refused(words, dropped, capsys):
    assert main.main(words.split()) == 2
    assert f"drop {dropped}." in capsys.readouterr().err


@pytest.mark.parametrize("words", ["--json --watch", "--json --files", "--watch --files"])
def test_status_has_one_mode(words, capsys):
    assert main.main(["status", ".", *words.split()]) == 2
    assert "not allowed with argument" in capsys.readouterr().err
