"""Levels of alignment on a page: the answer, what is missing, and words."""

import dataclasses

import numpy as np
import pytest
from score_groups import install_torch, make_curve_run

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.figures.alignment_levels import (
    describe_spread,
    draw_level_figure,
    format_share,
    list_share_rows,
    name_share,
)
from parallax.analysis.report.document import Document
from parallax.analysis.report.render_markdown import render_markdown
from parallax.analysis.report.sections.alignment_levels import (
    describe_shares,
    list_level_findings,
    make_level_blocks,
)
from parallax.analysis.report.sections.crossed_design import (
    describe_recipe_dependence,
    make_crossed_section,
)
from parallax.analysis.report.sections.framework_choice import make_choice_blocks
from parallax.analysis.stats.decomposition import (
    estimate_crossed_variance,
    estimate_framework_variance,
    estimate_recipe_shares,
)
from parallax.analysis.verdicts.alignment_levels import (
    LEVELS,
    LevelResults,
    LevelSpread,
    LevelTask,
    decompose_levels,
)
from parallax.analysis.verdicts.crossed_design import (
    CrossedDesign,
    describe_other_settings,
    exchange_recipe,
)
from parallax.analysis.verdicts.endpoints import ScoreScale
from parallax.analysis.verdicts.groups import make_group

SHIFTS = {"defaults": 0.2, "exact": 0.1, "lockstep": 0.0}


def make_spread(level, frameworks=4, shift=None):
    generator = np.random.default_rng(1)
    cell = StudyCell("ladder", "Task-v0", "ppo", "original", f"alignment={level}")
    shift = SHIFTS[level] if shift is None else shift
    scores = {
        f"f{number}": 0.4 + shift * number + 0.02 * generator.normal(size=5)
        for number in range(frameworks)
    }
    groups = {name: make_group(cell, name, []) for name in scores}
    several = len(scores) > 1
    variance = estimate_framework_variance([list(scores.values())]) if several else None
    task = LevelTask("ladder", "ppo", "Task-v0", 1000)
    learned = dict.fromkeys(scores, 5)
    scale = ScoreScale(0.0, 100.0, "made up")
    return LevelSpread(task, level, cell, scale, scores, groups, learned, variance, (0.05, 0.3))


def make_results(spreads):
    shares = decompose_levels(spreads, np.random.default_rng(0), resamples=200)
    return LevelResults(tuple(spreads), shares, None, "return of a test")


def test_the_answer_names_what_is_shown():
    text = describe_shares(make_results([make_spread(level) for level in LEVELS]))
    assert text.startswith("Across these 4 frameworks, different hyperparameters explain 7")
    assert ", and other differences between frameworks" in text
    assert text.endswith("(PPO on Task-v0; 0 runs per framework at each level in the figure).")


def test_without_lockstep_code_is_not_separated():
    results = make_results([make_spread(level) for level in LEVELS[:2]])
    assert not results.decomposition.has_lockstep
    rows = list_share_rows(results.decomposition)
    assert [name for name, *_ in rows] == ["hyperparameters", "equal", "seeds"]
    assert sum(value for _, value, *_ in rows) == pytest.approx(1)
    shares = results.decomposition.shares
    assert shares.equal[0] == pytest.approx(shares.shares.code)
    assert f"{round(100 * shares.equal[0])}% [" in describe_shares(results)


@pytest.mark.parametrize(
    ("spreads", "words"),
    [
        ([make_spread("exact"), make_spread("lockstep")], "no run with own hyperparameters"),
        ([make_spread("defaults", frameworks=1), make_spread("exact")], "too few runs"),
        ([make_spread("defaults", shift=0.0), make_spread("exact", shift=0.0)], "Inconclusive"),
    ],
)
def test_missing_answer_states_the_reason(spreads, words):
    assert words in describe_shares(make_results(spreads))


def test_remaining_differences_are_shown_with_their_two_parts():
    found = make_results([make_spread(level) for level in LEVELS]).decomposition
    rows = {name_share(name): value for name, value, *_ in list_share_rows(found)}
    parts = rows["of these, known update code"] + rows["of these, the rest"]
    assert rows["other differences"] == pytest.approx(parts)
    rest = rows["hyperparameters"] + rows["seeds"]
    assert rest + rows["other differences"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("shift", "words"), [(0.05, None), (0.12, "(intervals overlap)"), (9, "(intervals do not")]
)
def test_a_spread_that_is_larger_at_equal_updates_is_named(shift, words):
    spreads = [make_spread("defaults"), make_spread("exact"), make_spread("lockstep", shift=shift)]
    if shift > 1:
        spreads[2] = dataclasses.replace(spreads[2], interval=(0.9, 1.0))
    page = render_markdown(Document("", make_level_blocks(make_results(spreads))))
    assert ("the spread is larger in PPO on Task-v0" in page) == bool(words)
    assert words is None or words in page


@pytest.mark.parametrize(("last", "rising"), [(60.0, True), (0.0, False)])
def test_curves_still_rising_at_the_end_are_named(last, rising):
    spreads = [make_spread(level) for level in LEVELS]
    cell, steps = spreads[1].cell, np.arange(1, 7)
    runs = [
        make_curve_run(cell, "f0", seed, steps, [0, 0, seed, last, last, last + seed])
        for seed in range(3)
    ]
    spreads[1] = dataclasses.replace(spreads[1], groups={"f0": make_group(cell, "f0", runs)})
    page = render_markdown(Document("", make_level_blocks(make_results(spreads))))
    sentence = "At equal hyperparameters curves still rise between the last 6 evaluations in PPO on"
    assert (sentence in page) == rising
    if rising:
        assert "PPO on Task-v0 (0.60 \\[0.60, 0.60])" in page


def test_findings_are_short_and_few():
    found = list_level_findings(make_results([make_spread(level) for level in LEVELS]))
    assert 1 <= len(found) <= 3
    assert all(len(text.split()) <= 30 for text in found)


def test_findings_state_the_conditions_of_the_shares():
    spreads = [make_spread(level) for level in LEVELS]
    tasks = [("ppo", "Task-v1"), ("td3", "Task-v0")]
    more = [
        dataclasses.replace(one, task=LevelTask("ladder", *task, 1000))
        for task in tasks
        for one in spreads
    ]
    apart = [set_equal(one, spared=["f0"]) if one.level == "exact" else one for one in more]
    results = make_results([*spreads, *apart])
    results = dataclasses.replace(results, secondary=results.decomposition)
    first, second, third = list_level_findings(results)
    code = format_share(*results.decomposition.shares.code)
    assert first.endswith(f"known differences in the code of an update explain {code}.")
    left = results.decomposition.without_framework
    most = max(
        left, key=lambda name: abs(left[name].equal[0] - results.decomposition.shares.equal[0])
    )
    assert second.startswith(
        f"Without {most}, hyperparameters explain {format_share(*left[most].own)}"
    )
    only, without = (
        format_share(*shares.equal)
        for shares in (
            results.decomposition.by_algorithm["ppo"][0],
            results.decomposition.without_most_influential["ppo"],
        )
    )
    assert (
        second.endswith(f"; in PPO, these explain {without} instead of {only}.") and without != only
    )
    assert third.startswith("If the score is the mean of the last 3 evaluations")
    assert all(len(text.split()) <= 30 for text in (first, second, third))


@pytest.mark.parametrize("names", [("f0", "f1", "f2"), ("f0", "f1", "else")])
def test_crossed_design_states_the_interaction_with_the_recipe(names):
    cells = np.array([[0.0, 0.1, 0.2], [0.4, 0.6, 0.8], [0.9, 0.9, 0.9]])
    scores = cells[..., None] + np.array([-0.02, 0, 0.02])
    components = estimate_crossed_variance(scores)
    own = "else" not in names
    shares = estimate_recipe_shares(scores, np.random.default_rng(0)) if own else None
    design = CrossedDesign(
        "ppo", "Task-v0", names, ("f0", "f1", "f2"), scores, components, *np.zeros((2, 4)), shares
    )
    results = make_results([make_spread(level, frameworks=3) for level in LEVELS])
    text = describe_recipe_dependence(design, results)
    page = render_markdown(Document("", (make_crossed_section(design),)))
    if not own:
        assert text == "" and "equal recipe" not in page
        return
    equal = design.shares.equal
    least, most = equal.argmin(), equal.argmax()
    words = [format_share(equal[i], shares.low[i], shares.high[i]) for i in (least, most)]
    assert f"{words[0]} (f{least}'s recipe) to {words[1]} (f" in text
    own, equal_before = (results.spreads[place].variance for place in (0, 1))
    totals = [
        results.decomposition.shares.equal[0]
        + (estimate_framework_variance([list(row)]).between - equal_before.between)
        / (own.between + own.within)
        for row in scores
    ]
    ends = f"; over all rows, {min(totals):.0%} to {max(totals):.0%}."
    assert text.endswith(f"(f{most}'s){ends}") and len(text.split()) <= 30
    other = make_results([make_spread(level, frameworks=2) for level in LEVELS[:1]])
    assert describe_recipe_dependence(design, other) == text.replace(ends, ".")
    curve = make_curve_run(results.spreads[1].cell, "f0", 0, [9], [[0.0]], spec={"steps": 9})
    group = make_group(curve.id.cell, "f0", [curve])
    spreads = list(results.spreads)
    spreads[1] = dataclasses.replace(spreads[1], groups={**spreads[1].groups, "f0": group})
    known = make_results(spreads)
    same, longer = (
        dataclasses.replace(design, requested={"steps": n, "device": "cpu"}) for n in ("9", "7")
    )
    assert describe_other_settings([known], same) == ""
    assert describe_other_settings([known], longer) == "steps=7, not 9"
    assert describe_recipe_dependence(same, known) == text
    assert describe_recipe_dependence(longer, known) == text.replace(ends, ".")
    assert f"Means over recipes: {design.shares.equal.mean():.0%} remain" in page


@pytest.mark.parametrize("version", ["2", "3"])
def test_versions_that_differ_between_levels_are_named(version):
    spreads = [make_spread(level) for level in LEVELS]
    curve = make_curve_run(spreads[1].cell, "f0", 0, [9], [[0.0]], spec={"steps": 9})
    group = make_group(curve.id.cell, "f0", [curve])
    for place, installed in enumerate(("2", version)):
        groups = {"f0": install_torch(group, installed)}
        spreads[place] = dataclasses.replace(spreads[place], groups=groups)
    page = render_markdown(Document("", make_level_blocks(make_results(spreads))))
    assert ("different versions of torch 2 and 3." in page) == (version == "3")


@pytest.mark.parametrize("missing", ["Task-v0", "Other-v0"])
def test_recipes_are_exchanged_among_the_frameworks_of_the_decomposition(missing):
    names, task = ("f0", "f1", "f2"), LevelTask("ladder", "ppo", "Other-v0", 1000)
    scores = np.arange(18.0).reshape(3, 3, 2) ** 2 / 200
    nothing = estimate_crossed_variance(scores), *np.zeros((2, 4))
    design = CrossedDesign("ppo", "Task-v0", names, names, scores, *nothing)
    own, equal, code = spreads = [make_spread(level, frameworks=3) for level in LEVELS]
    spreads += [dataclasses.replace(one, task=task) for one in spreads]
    place = LEVELS.index("lockstep") + 3 * (missing == "Other-v0")
    scores_left = {name: code.scores[name] for name in names[:2]}
    spreads[place] = dataclasses.replace(spreads[place], scores=scores_left)
    found = exchange_recipe(make_results(spreads), design)
    if missing == "Task-v0":
        assert found == ()
        return
    two = [[one.scores[name] for name in names[:2]] for one in (own, equal)]
    left, before = (estimate_framework_variance([one]) for one in two)
    recipes = [estimate_framework_variance([list(row)]).between for row in scores]
    total = own.variance.between + own.variance.within + left.between + left.within
    assert found == pytest.approx([(one + before.between) / total for one in recipes])


def test_missing_levels_are_named_and_not_drawn():
    some = make_spread("defaults", frameworks=2)
    results = make_results([some, make_spread("exact")])
    assert "2 of 4" in describe_spread(some, 4)
    figure = draw_level_figure(results)
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert "own hyperparameters" in titles and "equal update code too" not in titles
    page = render_markdown(Document("", make_level_blocks(results)))
    assert "| no runs " in page
    assert "not in the shares" in page


def test_causes_are_named_only_where_ablations_are_shown():
    results = make_results([make_spread(level) for level in LEVELS])
    plain, explained = (
        render_markdown(Document("Study", make_level_blocks(results, causes=causes)))
        for causes in ((), ("A change explains the gap.",))
    )
    assert "No cause is named" in plain and "Causes are named only" not in plain
    assert "Causes are named only where a difference was removed" in explained
    assert explained.index("A change explains the gap.") < explained.index("Which framework?")


def set_equal(spread, spared=()):
    """Let all runs of a task reach the same score, except those of some frameworks."""
    scores = {
        name: values if name in spared else np.ones(5) for name, values in spread.scores.items()
    }
    variance = estimate_framework_variance([list(scores.values())])
    return dataclasses.replace(spread, scores=scores, variance=variance)


def test_a_study_whose_runs_all_reach_the_same_score_has_a_page():
    results = make_results([set_equal(make_spread(level)) for level in LEVELS])
    assert results.decomposition is None
    page = render_markdown(Document("levels", make_level_blocks(results)))
    assert "Not answered yet: too few runs at both levels" in page
    assert "or all scores are equal." in page
    assert "nan" not in page


def test_shares_of_tasks_and_frameworks_without_variance_are_unknown():
    varying = [set_equal(make_spread(level), spared=("f3",)) for level in LEVELS]
    task = dataclasses.replace(varying[0].task, env="Other-v0")
    equal = [dataclasses.replace(set_equal(one), task=task) for one in varying]
    results = make_results(varying + equal)
    page = render_markdown(Document("levels", make_level_blocks(results)))
    rows = [row for row in page.splitlines() if "unknown" in row]
    assert [row.split("|")[1].strip() for row in rows] == [
        "without f3",
        "without PPO on Task-v0",
        "only PPO on Other-v0 (0% of the variance)",
    ]
    assert "nan" not in page and "Without f" in page and "Without f3" not in page


def time_runs(spread, seconds):
    """A spread whose frameworks have a run with each of these CPU times, 95 of 100 from 500 on."""
    groups = {}
    for name, values in seconds.items():
        runs = [
            make_curve_run(spread.cell, name, seed, [0, 500], [0.0, 95.0], training_cpu_seconds=one)
            for seed, one in enumerate(values)
        ]
        groups[name] = make_group(spread.cell, name, runs)
    return dataclasses.replace(spread, groups=groups)


@pytest.mark.parametrize(
    ("unknown", "shown"),
    [(["f3"], ["1.0 (1 of 2 runs)", "2.0", "1.0", "-"]), (["f2", "f3"], "-" * 4)],
)
def test_cpu_times_are_relative_to_a_median_framework_that_has_one(unknown, shown):
    seconds = {"f0": [3.0, np.nan], "f1": [6.0, 6.0], "f2": [3.0, 3.0], "f3": [1.0, 1.0]}
    seconds.update((name, [np.nan, np.nan]) for name in unknown)
    spread = time_runs(make_spread("exact"), seconds)
    (table, _) = make_choice_blocks(make_results([spread, make_spread("defaults")]))
    assert [row[3] for row in table.rows] == ["1.0"] * 4
    assert [row[4] for row in table.rows] == list(shown)


@pytest.mark.parametrize(("exact", "is_stated"), [(0.142, True), (0.05, False)])
def test_an_order_of_the_two_shares_that_is_not_shown_is_stated(exact, is_stated):
    spreads = [make_spread(level) for level in LEVELS]
    spreads[1] = make_spread("exact", shift=exact)
    results = make_results(spreads)
    _, low, high = results.decomposition.shares.excess
    assert (low <= 0 <= high) == is_stated
    assert ("Which of the two is larger is not shown" in describe_shares(results)) == is_stated


def test_values_and_changes_of_code_at_equal_hyperparameters_are_stated():
    spreads = [make_spread(level) for level in LEVELS]
    for number, (overridden, names) in enumerate(
        [(["steps_per"], {"patch.gamma"}), (["steps_per", "gamma"], {"patch.gamma", "same-clip"})]
    ):
        cell = spreads[number].cell
        spec = {"overridden": overridden, "hyperparameters": {"gamma": 0.9, "steps_per": 8}}
        run = make_curve_run(cell, "f0", 0, [0], [0], spec=spec, interventions=frozenset(names))
        group = make_group(cell, "f0", [run])
        spreads[number] = dataclasses.replace(spreads[number], groups={"f0": group})
    page = render_markdown(Document("", make_level_blocks(make_results(spreads))))
    assert "the original papers' values with gamma=0.9 for PPO on Task-v0." in page
    assert "count as effects of hyperparameters: same-clip (f0's PPO)." in page


@pytest.mark.parametrize(
    ("runs", "learned", "tasks"),
    [(7, 6, 1), (7, 5, 0), (1, 0, 0), (1, 1, 1), (2, 1, 0), (20, 18, 1)],
)
def test_a_task_is_learned_if_few_runs_did_not_learn(runs, learned, tasks):
    spread = make_spread("exact", frameworks=1)
    cell = spread.cell
    items = [make_curve_run(cell, "f0", seed, [0], [0]) for seed in range(runs)]
    groups = {"f0": make_group(cell, "f0", items)}
    spread = dataclasses.replace(spread, groups=groups, learned={"f0": learned})
    page = render_markdown(Document("", make_choice_blocks(make_results([spread]))))
    assert f"| {learned} of {runs} ({tasks} of 1 task) " in page
