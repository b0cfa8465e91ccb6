"""Bugs of released versions: the entries fit what is installed, and outcomes are judged."""

import dataclasses
import json

import gymnasium
import numpy as np
import pytest
from loops import iterate_some

from parallax.harness.cli import bugs as command
from parallax.harness.cli.bugs import (
    count_outcomes,
    judge_bug,
    list_bug_cases,
    select_bug_probes,
    sort_outcomes,
)
from parallax.harness.cli.main import main
from parallax.harness.contract.adapter_discovery import find_adapter_entry_points, load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.interventions.catalogue import (
    find_intervention,
    list_interventions,
    list_released_bugs,
    make_replacement,
)
from parallax.harness.probes.catalogue import PROBES
from parallax.harness.probes.results import (
    AnswerComparison,
    ProbeAnswer,
    ProbeReport,
    ProbeResult,
    make_missing_answer,
)
from parallax.harness.probes.runner import ProbeTargets, make_probe_target, run_probes

FRAMEWORKS = ("sb3", "cleanrl", "torchrl", "tianshou", "skrl", "sbx")
CASES = list_bug_cases(FRAMEWORKS)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_transplants_fit_the_installed_version(framework):
    bugs = [bug for bug in list_released_bugs(load_adapter(framework)) if bug.source]
    for bug in iterate_some(bugs):
        with make_replacement([bug]).apply_replacement():
            pass


def test_every_bug_names_existing_probes_or_a_reason():
    known = {probe.name for probe in PROBES}
    for case in CASES:
        assert set(case.release.seen_by) <= known, case
        assert case.expected_probes or case.release.blind, case


def test_settings_of_a_loaded_model_show_an_interval_that_is_divided_again():
    from stable_baselines3 import DQN
    from stable_baselines3.common.vec_env import DummyVecEnv

    from parallax.adapters.sb3_common.model import reload_settings

    def reload_model():
        envs = DummyVecEnv([lambda: gymnasium.make("CartPole-v1")] * 4)
        return reload_settings(DQN("MlpPolicy", envs, target_update_interval=1000, buffer_size=8))

    settings = reload_model()
    assert settings["target_update_interval"] == (1000, 1000)
    assert all(before == after for before, after in settings.values())
    bug = find_case("bug.interval-divided-at-load", "dqn").bug
    with make_replacement([bug]).apply_replacement():
        assert reload_model()["target_update_interval"] == (250, 62)


def test_a_loaded_temperature_that_no_optimizer_has_is_a_changed_setting():
    from stable_baselines3 import SAC

    from parallax.adapters.sb3_common.model import reload_settings

    def reload_model():
        return reload_settings(SAC("MlpPolicy", "Pendulum-v1", buffer_size=8))

    settings = reload_model()
    assert settings["optimizers of log_ent_coef"] == (1, 1)
    assert all(before == after for before, after in settings.values())
    bug = find_case("bug.temperature-not-optimized-after-load", "sac").bug
    with make_replacement([bug]).apply_replacement():
        assert reload_model()["optimizers of log_ent_coef"] == (1, 0)


@pytest.mark.parametrize(
    ("name", "algorithm", "words"),
    [
        ("bug.noise-made-in-each-rollout", "ddpg", "parallel environments forget their noise"),
        ("bug.deviation-without-constant", "ppo", "not a number where all are equal"),
    ],
)
def test_probes_written_for_a_bug_name_it(name, algorithm, words):
    case = find_case(name, algorithm)
    plain, faulty = (f"{case.framework}{suffix}" for suffix in ("", f"+{name}"))
    probes = select_bug_probes(algorithm, [case], expected_only=True)
    changed = make_probe_target(case.framework, label=faulty, intervention=name)
    targets = ProbeTargets((make_probe_target(case.framework), changed))
    (result,) = run_probes(probes, targets, lambda _: None).results
    assert words in result.answers[faulty].meaning
    assert words not in result.answers[plain].meaning


def test_bugs_are_found_by_name_and_are_not_interventions():
    adapter = load_adapter("sb3")
    assert find_intervention("bug.signed-kl", adapter, ["ppo"]).released
    assert not any(item.name.startswith("bug.") for item in list_interventions(adapter))
    with pytest.raises(SpecError, match="unknown-bug"):
        list_bug_cases(["sb3"], ["bug.unknown-bug"])


def find_case(name, algorithm="ppo"):
    return next(c for c in CASES if c.bug.name == name and c.algorithm == algorithm)


def judge(case, before, after, probe="ppo.approximate_kl"):
    answers = {"sb3": before, f"sb3+{case.bug.name}": after}
    result = ProbeResult(probe, "ppo", "?", "paper", "units", None, answers, ())
    return judge_bug(case, ProbeReport((result,), {}, {}, 1.0))


def answer(number):
    value = np.array([float(number)])
    return ProbeAnswer(value, value, AnswerComparison("number", 0.5), "a number")


def test_outcomes():
    case = find_case("bug.signed-kl")
    assert judge(case, answer(1), answer(2)).outcome == "named"
    assert judge(case, answer(1), answer(2), "ppo.gae").outcome == "found"
    assert judge(case, answer(1), answer(1)).outcome == "missed"
    assert judge(case, answer(1), make_missing_answer("broke", failed=True)).outcome == "failed"
    control = find_case("bug.optimizer-holds-target", "dqn")
    assert judge(control, answer(1), answer(1)).outcome == "silent"
    assert judge(control, answer(1), answer(2)).outcome == "false alarm"


def test_only_expected_probes_are_selected():
    cases = [find_case("bug.signed-kl")]
    names = [probe.name for probe in select_bug_probes("ppo", cases, expected_only=True)]
    assert sorted(names) == ["ppo.approximate_kl", "ppo.early_stopping"]
    assert len(select_bug_probes("ppo", cases, expected_only=False)) > 20


def test_outcomes_are_stored_and_printed_with_misses_first(tmp_path, capsys):
    case = find_case("bug.signed-kl")
    named = judge(case, answer(1), answer(2))
    missed = judge(find_case("bug.no-timeout-bootstrap"), answer(1), answer(1))
    file = tmp_path / "bugs.json"
    file.write_text(command.outcomes_to_text([named, missed]))
    assert command.load_outcomes(file) == [missed, named] == sort_outcomes([named, missed])
    assert count_outcomes([named, missed]) == {"missed": 1, "named": 1}
    text = command.render_table([named, missed])
    assert text.startswith("1 of 2 driven bugs are found, 1 named")
    assert text.index("no-timeout-bootstrap") < text.index("signed-kl")
    odd = dataclasses.replace(missed, reason="a | b\n# c")
    assert command.render_table([odd]).splitlines()[-1].endswith(r"| a \| b\n# c |")
    json.loads(file.read_text())
    file.write_text('[{"bug": "x"}]')
    with pytest.raises(SpecError, match="no outcome"):
        command.load_outcomes(file)
    file.write_text(
        command.outcomes_to_text([dataclasses.replace(missed, bug="of another version")])
    )
    main(["bugs", "--answers", str(file), "--bug", "bug.signed-kl"])
    assert "Outcomes of other bugs or frameworks, not shown: 1." in capsys.readouterr().out
    file.write_text(json.dumps([dataclasses.asdict(named) | {"changed": []}]))
    with pytest.raises(SpecError, match="'named' needs `changed`"):
        command.load_outcomes(file)
    file.write_text(json.dumps([dataclasses.asdict(named) | {"outcome": "missed"}]))
    with pytest.raises(SpecError, match="'missed' cannot have `changed`"):
        command.load_outcomes(file)


def test_bugs_without_a_stored_outcome_are_not_found(tmp_path, capsys):
    named = judge(find_case("bug.signed-kl"), answer(1), answer(2))
    file, page = tmp_path / "bugs.json", tmp_path / "bugs.md"
    file.write_text(command.outcomes_to_text([named]))
    words = ["bugs", "--answers", str(file), "--markdown", str(page), "--frameworks", "sb3"]
    assert main([*words, "--bug", "bug.signed-kl"]) == 0 and "no outcome" not in page.read_text()
    assert main([*words, "--bug", "bug.signed-kl,bug.no-timeout-bootstrap"]) == 1
    assert "cases have no outcome." in page.read_text()
    assert "cases have no outcome." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"outcome": "silent", "changed": []}, "outcome=silent"),
        ({"outcome": "not driven", "changed": []}, "outcome=not driven"),
        ({"outcome": "found"}, "changed="),
        ({"changed": ["ppo.approximate_kl"] * 2}, "changed="),
        ({"changed": ["ppo.approximate_kl", "td3.target_update"]}, "changed="),
        ({"changed": ["ppo.gae"]}, "changed="),
        ({"outcome": "found", "changed": ["a"]}, "changed="),
        ({"last_bad": "9.9"}, "last_bad=9.9"),
    ],
)
def test_stored_outcomes_that_a_bug_cannot_have_are_refused(change, words, tmp_path, capsys):
    named = judge(find_case("bug.signed-kl"), answer(1), answer(2))
    file = tmp_path / "bugs.json"
    file.write_text(json.dumps([dataclasses.asdict(named) | change]))
    assert main(["bugs", "--answers", str(file)]) == 2
    error = capsys.readouterr().err
    assert f"sb3 ppo bug.signed-kl: {words}" in error and "does not fit the bug" in error


def test_the_command_lists_bugs_of_every_framework():
    assert set(FRAMEWORKS) <= set(find_adapter_entry_points())
    lines = [command.format_case(case) for case in CASES]
    assert any("not driven: The schema has no setting" in line for line in lines)


@pytest.mark.parametrize("words", [["--json", "y.json"], ["--expected-only"]])
def test_options_that_stored_outcomes_do_not_use_are_refused(words, capsys):
    assert main(["bugs", "--answers", "x.json", *words]) == 2
    assert f"--answers FILE runs no probe: drop {words[0]}." in capsys.readouterr().err
