"""Settings in which runs of one name differ: how they are compared and named in labels."""

import dataclasses
from pathlib import Path

import pytest
from score_groups import make_curve_run

from parallax.analysis.data.load import combine_runs, separate_conflicting_runs
from parallax.analysis.data.runs import ExcludedRun, RunCollection, RunId, StudyCell
from parallax.analysis.data.settings import (
    get_requested_hyperparameters,
    get_requested_settings,
    setting_to_text,
)
from parallax.harness.record.run_json import ImportSource, RunProvenance

CELL = StudyCell("s", "A-v1", "ppo", "original", "steps=9")
NAMES = ("device", "n_envs", "steps", "threads")


def make_run(seed=0, cell=CELL, episodes=2, **spec):
    return make_curve_run(cell, "sb3", seed, [100], [[1.0] * episodes], spec=spec)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("none", "none"),
        (1.0, "1"),
        (1, "1"),
        (0.5, "0.5"),
        (True, "true"),
        (None, "null"),
        ({"b": 1, "a": [2]}, '{"a": [2], "b": 1}'),
        (float(2**53), "9007199254740992.0"),
        (float(2**53 - 1), "9007199254740991"),
        (float(-(2**53)), "-9007199254740992.0"),
        (float("inf"), "Infinity"),
    ],
)
def test_equal_values_have_one_text(value, text):
    assert setting_to_text(value) == text


def test_long_values_are_cut_and_stay_different():
    first, second = (setting_to_text("x" * 10_000 + end) for end in "ab")
    assert first != second and len(first) < 1100
    assert setting_to_text({"a": "\x1b[31m\n"}).isprintable()
    assert setting_to_text("a\nb") == "a\\nb"


def test_a_sentence_on_conflicts_has_a_largest_size():
    keys = {str(number) + "\u202e" * 5000: 1 for number in range(2000)}
    runs = [make_run(seed=1, hyperparameters=keys | {"a": one}) for one in (1, "x" * 10**6)]
    more = make_run(seed=2, hyperparameters=dict.fromkeys(keys, 2))
    _, (sentence,) = separate_conflicting_runs([*runs, more])
    assert "; 1981 more (runs in brackets)" in sentence and sentence.isprintable()
    assert len(sentence) < 50_000
    found = combine_runs(RunCollection(Path(), (make_run(alignment="x\n" * 10**6),), ()))
    assert len(found.runs[0].id.cell.variant) < 1100


def test_settings_of_a_run_are_those_that_it_records_and_its_episodes():
    run = make_run(steps=1000.0, wrappers="none", seed=3, eval_episodes=7)
    assert get_requested_settings(run) == {
        "steps": "1000",
        "wrappers": "none",
        "eval_episodes": "2",
    }
    for are_means, stated, expected in (
        (True, 7, {}),
        (False, 7, {"eval_episodes": "7"}),
        (False, None, {"eval_episodes": "2"}),
    ):
        source = ImportSource("file", are_means=are_means)
        spec = {"eval_episodes": stated} if stated else {}
        imported = dataclasses.replace(make_run(**spec), imported=source)
        assert get_requested_settings(imported) == expected


def test_each_framework_has_its_own_hyperparameters_under_its_defaults():
    values = {"hyperparameters": {"gamma": 0.99, "tau": 1.0}}
    assert get_requested_hyperparameters(make_run(**values)) == {"gamma": "0.99", "tau": "1"}
    assert get_requested_hyperparameters(make_run(alignment="defaults", **values)) == {}
    assert get_requested_hyperparameters(make_run(hyperparameters=None)) == {}
    assert get_requested_hyperparameters(make_run()) == {}


def test_variant_names_up_to_three_settings_and_hashes_more():
    def separate(count):
        runs = [make_run(k, **dict.fromkeys(NAMES[:count], k)) for k in range(2)]
        return separate_conflicting_runs(runs)

    runs, sentences = separate(3)
    assert [run.id.cell.variant for run in runs] == [
        f"steps=9,device={k},n_envs={k},steps={k}" for k in range(2)
    ]
    assert all(run.has_conflicting_settings for run in runs)
    assert sentences == (
        "s, steps=9: runs of one name have different settings and are judged separately: "
        "device 0 (1), 1 (1); n_envs 0 (1), 1 (1); steps 0 (1), 1 (1) (runs in brackets)",
    )
    runs, _ = separate(4)
    parts = [run.id.cell.variant.split(",settings=") for run in runs]
    assert {len(digest) for _, digest in parts} == {8} and parts[0][1] != parts[1][1]
    assert {start for start, _ in parts} == {"steps=9"}


def test_a_setting_that_the_variant_names_already_is_not_repeated():
    named = dataclasses.replace(CELL, variant="steps=7")
    runs, _ = separate_conflicting_runs(
        [make_run(0, named, steps=7), make_run(1, named, steps=8), make_run(2, named)]
    )
    assert [run.id.cell.variant for run in runs] == [
        *("steps=7", "steps=7,steps=8", "steps=7,steps=unknown")
    ]


def test_hyperparameters_are_compared_in_a_setting_and_settings_in_a_study():
    other = dataclasses.replace(CELL, env="B-v1", variant="")
    runs = [
        make_run(0, other, hyperparameters={"g": 1}),
        make_run(1, other, hyperparameters={"g": 2}),
    ]
    found, (sentence,) = separate_conflicting_runs([make_run(hyperparameters={"g": 3}), *runs])
    assert (
        sentence.startswith("s/B-v1/ppo/original: runs of one name")
        and "g 1 (1), 2 (1)" in sentence
    )
    assert [run.id.cell.variant for run in found] == ["steps=9", "g=1", "g=2"]
    assert not found[0].has_conflicting_settings
    apart = [make_run(0, threads=1), make_run(1, dataclasses.replace(CELL, study="t"), threads=2)]
    assert separate_conflicting_runs(apart) == (tuple(apart), ())
    three = [make_run(k, threads=t) for k, t in enumerate((2, 1, 1))] + [make_run(3)]
    (_, (sentence,)) = separate_conflicting_runs(three)
    assert "threads 1 (2), 2 (1), unknown (1) (runs in brackets)" in sentence


def combine(*items):
    runs = tuple(item for item in items if not isinstance(item, ExcludedRun))
    gone = tuple(item for item in items if isinstance(item, ExcludedRun))
    return combine_runs(RunCollection(Path(), runs, gone, (Path("link"),)))


@pytest.mark.parametrize(
    ("variant", "levels", "expected"),
    [
        ("steps=9", ("exact", "exact"), "steps=9,alignment=exact"),
        ("steps=9,x=1", ("exact", "exact"), "steps=9,alignment=exact,x=1"),
        ("steps=9,alignment=exact", ("exact", "exact"), "steps=9,alignment=exact"),
        ("steps=9", (None, None), "steps=9"),
        ("steps=9", ("exact", None), "steps=9"),
    ],
)
def test_variants_have_the_level_that_all_of_their_runs_have(variant, levels, expected):
    cell = dataclasses.replace(CELL, variant=variant)
    spec = [{"alignment": level} if level else {"steps": 9} for level in levels]
    gone = ExcludedRun(RunId(cell, "sb3", 5), Path("gone"), "broke", spec=spec[1])
    unread = ExcludedRun(RunId(cell, "sb3", 6), Path("unread"), "no record")
    loaded = combine(make_run(0, cell, **spec[0]), gone, unread)
    assert [item.id.cell.variant for item in loaded.folders] == [expected] * 3
    assert loaded.links == (Path("link"),) and loaded.conflicts == ()


def test_runs_that_continue_a_checkpoint_of_another_user_are_named():
    first, second, own = (make_run(seed) for seed in range(3))
    changed = [dataclasses.replace(run, has_foreign_checkpoint=True) for run in (first, second)]
    (sentence,) = combine(*changed, own).conflicts
    assert "seed=0, seed=1 of sb3 resumed from a checkpoint that was not written" in sentence
    assert combine(first, second, own).conflicts == ()


def test_a_second_copy_of_a_run_is_not_used():
    made = RunProvenance()
    runs = [
        dataclasses.replace(make_run(seed), path=Path(name), provenance=source)
        for seed, name, source in (
            (0, "a", made),
            (0, "b", made),
            (1, "c", made),
            (2, "d", None),
            (2, "e", None),  # runs of other tools are compared by their evaluations
            (None, "f", made),
            (None, "g", made),
        )
    ]
    loaded = combine(*runs)
    assert [run.path.name for run in loaded.runs] == ["a", "c", "d", "e", "f", "g"]
    (copy,) = loaded.excluded
    assert (copy.path, copy.reason) == (Path("b"), "same run as a, which is used")
    assert copy.completed and not copy.failed
    assert (loaded.requested, loaded.completed, loaded.used) == (7, 7, 6)
