import dataclasses
import itertools
import json

import numpy as np
import pytest
from loops import iterate_some

from parallax.analysis.data.load import load_runs
from parallax.analysis.labels import describe_recipe, get_recipe_label
from parallax.analysis.plan.planning import format_costs, plan_seeds
from parallax.analysis.plan.suite_needs import estimate_suite_needs, format_suite_needs
from parallax.analysis.report.sections.consistency import answer_consistency
from parallax.analysis.report.sections.learning import make_learning_table, make_vs_random_table
from parallax.analysis.report.sections.overall import (
    answer_paired,
    answer_pooled,
    describe_omnibus,
    make_paired_table,
    make_pooled_table,
    make_pooled_tasks_table,
)
from parallax.analysis.report.sections.pairs_by_setting import make_setting_summary
from parallax.analysis.report.sections.ranking import answer_ranking, make_ranking_sections
from parallax.analysis.report.sections.reproduction import answer_reproduction, describe_published
from parallax.analysis.report.sections.runs import make_study_grid, summarize_provenance
from parallax.analysis.report.sections.suite import describe_suites
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.study import judge_runs


@pytest.fixture(scope="session")
def answers(study):
    return judge_runs(load_runs(study), VerdictOptions(resamples=500))


def test_every_statement_names_its_groups(answers):
    for word in (answer_reproduction, answer_consistency, answer_ranking):
        answer = word(answers)
        for statement in (answer.headline, *answer.parts, *answer.findings):
            assert statement.groups, statement.text


def test_planted_differences_are_described(answers):
    answer = answer_consistency(answers)
    counts = [item.verdict for item in answers.consistency if item.cell in answers.main_cells]
    assert len(counts) < len(answers.consistency)
    assert f"{counts.count('different')} different" in answer.headline.text
    assert sum("Apart from these" in part.text for part in answer.parts) == 2
    texts = " ".join(statement.text for statement in answer.findings)
    assert "Walker2d-v4, SAC: TorchRL scores lower than CleanRL and SB3, by" in texts
    assert texts.count("Walker2d-v4, SAC") == 1  # one cause, one finding


def test_questions_without_data_are_answered_with_the_reason(results, make_run):
    make_run(env="Nowhere-v0")
    answers = judge_runs(load_runs(results), VerdictOptions())
    assert "No run can be compared with" in answer_reproduction(answers).headline.text
    assert "No two frameworks" in answer_consistency(answers).headline.text
    assert "No two frameworks" in answer_ranking(answers).headline.text


def test_lines_on_two_studies_differ_by_their_study(results, make_run):
    for place, shift, seed in itertools.product(("s", "t"), range(2), range(3)):
        for env, algorithm in itertools.product(("Hopper-v4", "Walker2d-v4"), ("sac", "td3")):
            name, score = ("sb3", "cleanrl")[shift], 100.0 * shift + seed
            setting = {"study": place, "env": env, "algorithm": algorithm}
            make_run(**setting, framework=name, seed=seed, score=score)
    loaded = load_runs(results)
    found = judge_runs(loaded, VerdictOptions(resamples=200))
    needs = estimate_suite_needs(found.groups, found.suites, found.options)
    plan = plan_seeds(found.consistency, loaded, 10_000, 5, False, found.options)
    of_one_kind = [dataclasses.replace(item, caveats=()) for item in found.reproduction]
    comparable = dataclasses.replace(found, reproduction=tuple(of_one_kind))
    lines = {
        "suites": describe_suites(found),
        "omnibus": describe_omnibus(found).items,
        "suite needs": format_suite_needs(needs, found.options)[1:],
        "needs": [one for one in format_costs(plan, 10_000) if one.startswith("  ")],
        "settings": make_setting_summary(found, found.consistency).rows,
        "rankings": [section.heading for section in make_ranking_sections(found)],
        "published": describe_published(comparable)[0].items,
    }
    assert all(len(own) > 1 for own in lines.values())
    assert [name for name, own in lines.items() if len(set(own)) < len(own)] == []


def test_tables_of_final_returns_say_so_whatever_the_endpoint_is(study):
    found = judge_runs(load_runs(study), VerdictOptions(resamples=200, endpoint="auc"))
    finals = {group.key: np.mean([run.final_score for run in group.runs]) for group in found.groups}
    tables = make_vs_random_table(found.vs_random), make_learning_table(found)
    for table in tables:
        assert table.title.startswith("Final returns of every framework")
        for item in table.items:
            assert float(item.group.moments.mean) == pytest.approx(finals[item.group.key])


def test_grid_counts_requested_completed_and_used_runs(results, make_run):
    make_run(seed=0)
    make_run(seed=1)
    make_run(seed=3, status="failed")
    grid = make_study_grid(load_runs(results))
    (row,) = grid.rows
    part = dict(zip(grid.heads, row, strict=True))
    assert [part[name] for name in ("requested", "completed", "used")] == ["3", "2", "2"]
    assert part["seeds"] == "0 to 1, 3"
    assert part["evaluations (episodes)"] == "12 (4)"


def test_provenance_counts_runs_and_handles_missing_records(results, make_run):
    folder = make_run(seed=0)
    text = (folder / "run.json").read_text()
    recorded = '"provenance": {"packages": {"torch": "2.13.0"}, "python": "3.11.7"}'
    text = text.replace('"provenance": {}', recorded).replace(
        '"timings": {}', '"timings": {"seconds": 7200}'
    )
    (folder / "run.json").write_text(text)
    make_run(seed=1)
    found = summarize_provenance(load_runs(results).runs)
    assert found.rows == (("torch", "2.13.0", 1), ("Python", "3.11.7", 1))
    assert (found.hours, found.n_timed, found.n_without_record) == (2.0, 1, 1)


def test_a_ranking_that_is_not_preserved_names_pairs_and_ranks(results, make_run):
    scores = {
        ("sb3", "ppo"): 100,
        ("sb3", "sac"): 10,
        ("cleanrl", "ppo"): 10,
        ("cleanrl", "sac"): 90,
    }
    for (framework, algorithm), score in scores.items():
        for seed in range(4):
            make_run(framework=framework, algorithm=algorithm, seed=seed, score=score + seed)
    answers = judge_runs(load_runs(results), VerdictOptions(resamples=100))
    (finding,) = answer_ranking(answers).findings
    assert "In opposite order: PPO and SAC between CleanRL and SB3." in finding.text
    assert "Ranks: CleanRL: SAC 1, PPO 2; SB3: PPO 1, SAC 2." in finding.text
    assert finding.text.endswith("n = 4 runs used per mean.")


def test_one_task_under_several_configurations_is_one_finding(study_results):
    found = answer_ranking(study_results.verdicts).findings
    broken = [item for item in study_results.verdicts.rankings if item.verdict == "not preserved"]
    tasks = {(item.study, item.variant, item.env) for item in broken}
    assert len(found) == len(tasks) < len(broken)
    for env, finding in iterate_some(
        (env, one) for _, _, env in tasks for one in found if env in one.text
    ):
        own = [item for item in broken if item.env == env]
        assert f"not preserved under {len(own)} configurations" in finding.text
        assert "of " + str(len(own)) + ")" in finding.text
        runs = sum(len(ranked.groups) for item in own for ranked in item.rankings)
        assert 0 < len(finding.groups) <= runs


def test_an_equivalence_states_its_margin(results, make_run):
    for framework in ("sb3", "cleanrl"):
        for seed in range(4):
            make_run(framework=framework, env="Hopper-v4", seed=seed, score=3600 + seed)
    # Runs that were not observed matter little where much is within the margin.
    answers = judge_runs(load_runs(results), VerdictOptions(margin_share=0.9))
    (finding,) = answer_consistency(answers).findings
    assert "are equivalent" in finding.text
    assert "The margin is 1991, a share of 17.89 to 2230 (" in finding.text
    assert "runs are taken to end between 17.89 and" in finding.text


def test_provenance_lists_what_an_adapter_of_its_own_package_requires(results, make_run):
    folder = make_run(seed=0)
    code = {"distribution": "my-adapter", "version": "0.3", "requires": ["some-rl", "torch"]}
    recorded = {
        "packages": {"some_rl": "1.2", "torch": "2.13.0", "unrelated": "9"},
        "adapter": {**code, "files": {"__init__.py": "ab"}},
    }
    text = (folder / "run.json").read_text()
    (folder / "run.json").write_text(
        text.replace('"provenance": {}', f'"provenance": {json.dumps(recorded)}')
    )
    first, *others = summarize_provenance(load_runs(results).runs).rows
    assert first[0].startswith("adapter of ") and first[1].startswith("my-adapter 0.3, files ")
    assert others == [("some_rl", "1.2", 1), ("torch", "2.13.0", 1)]


def test_pooled_and_paired_answers_have_sizes_and_rest_on_runs(results, make_run):
    for env in ("InvertedPendulum-v4", "HalfCheetah-v4", "Hopper-v4", "Walker2d-v4"):
        for seed in range(4):
            luck = (7 * seed) % 4
            make_run(env=env, framework="sb3", seed=seed, score=1500 + 40 * seed)
            make_run(env=env, framework="cleanrl", seed=seed, score=500 + 40 * seed + luck)
    answers = judge_runs(load_runs(results), VerdictOptions(resamples=50))
    for word, items, tables in (
        (answer_pooled, answers.pooled, (make_pooled_table, make_pooled_tasks_table)),
        (answer_paired, answers.paired, (make_paired_table,)),
    ):
        answer = word(answers)
        for statement in (answer.headline, *answer.parts, *answer.findings):
            assert statement.groups, statement.text
        assert [len(make(items).items) for make in tables][-1] == 4
    over, seeds = answer_pooled(answers), answer_paired(answers)
    assert "each pooled over 4 tasks: at 5%, the mean" in over.headline.text
    assert "other than 0 in 1 of 1" in over.headline.text
    assert "SB3 scores higher than CleanRL by" in over.findings[0].text
    assert "n = 4 runs used per mean." in over.findings[0].text
    assert "(n = 4 seeds each): at 5%, 4 of 4 differ by the paired test" in seeds.headline.text
    assert "is 1.00 in the middle" in seeds.headline.text
    assert "on the same seeds (n = 4)" in seeds.findings[0].text
    assert all(one.text.count(" p ") == 1 for one in seeds.findings)  # the other is in the table
    assert "verdicts' intervals of the same gaps are Welch's" in seeds.headline.text


def test_missing_pools_and_pairs_are_named(results, make_run):
    make_run()
    answers = judge_runs(load_runs(results), VerdictOptions())
    assert "No two frameworks share 4 tasks" in answer_pooled(answers).headline.text
    assert "No two frameworks have 2 equal seeds" in answer_paired(answers).headline.text
    assert not answers.pooled and not answers.paired


def test_only_recipes_of_frameworks_are_called_their_defaults():
    names = ("sb3", "zoo", "defaults", "library defaults", "unknown", "tuned")
    labels = ["SB3 defaults", "RL Baselines3 Zoo", "own values", "library defaults", "unknown"]
    assert [get_recipe_label(name) for name in names] == [*labels, "tuned"]
    assert describe_recipe("tuned") == "the recipe tuned" and "SB3's" in describe_recipe("sb3")
    assert describe_recipe("library defaults") == "library defaults"
