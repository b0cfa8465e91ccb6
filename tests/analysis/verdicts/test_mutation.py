"""Verdicts on mutants, and the file that they are read from."""

import json
import math

import msgspec
import pytest

from parallax.analysis.data.mutation_outcomes import (
    GeneratorResults,
    MutantResults,
    MutationSetting,
    OutcomesError,
    read_outcomes,
)
from parallax.analysis.verdicts.mutation import REPLAY, STRONG, WEAK, judge_mutation

GOOD, BAD = [True] * 10, [False] * 10


def make_results(killed, pairs=2):
    """Tests of a generator by which the first `killed` mutants fail."""
    return GeneratorResults([GOOD] * pairs, [BAD] * killed + [GOOD] * (pairs - killed))


def make_mutant(value, replay, weak=None, strong=None, operator="lr", pairs=2):
    tests = {REPLAY: replay, WEAK: weak, STRONG: strong}
    made = {
        name: make_results(killed, pairs) for name, killed in tests.items() if killed is not None
    }
    seeds = list(range(pairs))
    return MutantResults(operator, value, 1.0, seeds, seeds, made)


def judge(*mutants, **options):
    return judge_mutation(
        MutationSetting("A-v0", "ppo", "own", "sb3", [0, 1], 100, list(mutants)), **options
    )


def test_scores_are_mean_rates_of_the_mutants_that_the_replay_kills():
    verdict = judge(
        make_mutant(0.5, replay=4, weak=1, strong=2, pairs=8),
        make_mutant(0.2, replay=4, weak=2, strong=4, pairs=8),
        make_mutant(3.0, replay=3, weak=8, strong=8, pairs=8),  # not killed by the replay
    )
    (operator,) = verdict.operators
    assert [item.mutant.value for item in operator.configurations] == [0.2, 0.5, 3.0]
    assert [item.is_killable for item in operator.configurations] == [True, True, False]
    assert (operator.killable, operator.name) == (2, "lr")
    counting = [item.counts for item in operator.configurations]
    assert counting == [
        not item.is_trivial and item.is_killable for item in operator.configurations
    ]


def test_trivial_mutants_do_not_count():
    verdict = judge(make_mutant(0.5, replay=2, weak=1, strong=2))
    (operator,) = verdict.operators
    (item,) = operator.configurations
    assert item.is_killable and item.is_trivial and not item.counts
    assert operator.trivial == 1 and operator.closest_to_original is None
    assert math.isnan(operator.weak.value) and math.isnan(operator.sensitivity)


def make_subtle(value, weak=None, strong=None, operator="lr"):
    """A mutant of four that fails half of the tests of the replay in two pairs."""
    seeds = list(range(4))
    half = [[i < 4 for i in range(10)]] * 2 + [GOOD] * 2
    tests = {REPLAY: GeneratorResults([GOOD] * 4, half)}
    for name, killed in ((WEAK, weak), (STRONG, strong)):
        if killed is not None:
            tests[name] = make_results(killed, 4)
    return MutantResults(operator, value, 1.0, seeds, seeds, tests)


def test_generators_are_compared_by_their_scores_on_counting_mutants():
    verdict = judge(
        make_subtle(0.5, weak=1, strong=2),
        make_subtle(0.8, weak=0, strong=2),
        make_subtle(4.0, strong=4),
    )
    (operator,) = verdict.operators
    assert [item.counts for item in operator.configurations] == [True] * 3
    assert operator.weak.value == pytest.approx(0.125)
    assert operator.strong.value == pytest.approx((0.5 + 0.5 + 1) / 3)
    assert operator.sensitivity == pytest.approx(1 - 0.125 / (2 / 3))
    assert operator.paired == pytest.approx(1 - 0.125 / 0.5)  # of the first two alone
    assert operator.closest_to_original.mutant.value == 0.8


def test_settings_have_the_means_over_operators():
    verdict = judge(
        make_subtle(0.5, weak=1, strong=2, operator="a"),
        make_subtle(0.5, weak=2, strong=4, operator="b"),
    )
    assert [item.name for item in verdict.operators] == ["a", "b"]
    assert verdict.weak.value == pytest.approx(0.375)
    assert verdict.strong.value == pytest.approx(0.75)
    assert verdict.sensitivity.value == pytest.approx(0.5)
    assert not verdict.published
    assert judge(make_subtle(0.5), as_published_code=True).published


def test_untested_mutants_are_not_judged_and_valueless_ones_come_first():
    verdict = judge(make_subtle(0.5, weak=1, strong=1), make_subtle(None), make_mutant(2.0, None))
    (operator,) = verdict.operators
    assert [item.mutant.value for item in operator.configurations] == [None, 0.5, 2.0]
    untested = operator.configurations[2]
    assert (untested.replay, untested.trivial, untested.weak) == (None, None, None)
    assert untested.is_killable is False and untested.is_trivial is False
    assert operator.closest_to_original.mutant.value == 0.5


def make_content(**changes):
    tests = {"original": [[1], [1]], "mutant": [[0], [1]], "why_not": "", "predictor_accuracy": 1.0}
    mutant = {
        "operator": "lr",
        "value": 0.5,
        "original_value": 1.0,
        "trained": [0, 1],
        "seeds": [0, 1],
        "tests": {WEAK: tests | changes.pop("tests", {})},
    }
    setting = {
        **{"env": "A-v0", "algorithm": "ppo", "hps": "own", "framework": "sb3"},
        **{"originals": [0, 1], "steps": 100, "mutants": [mutant]},
    }
    return {"schema": 1, "settings": [setting]} | changes


def read(tmp_path, **changes):
    (tmp_path / "outcomes.json").write_text(json.dumps(make_content(**changes)))
    return read_outcomes(tmp_path / "outcomes.json")


def test_outcomes_are_pairs_of_tests(tmp_path):
    (setting,) = read(tmp_path)
    original, mutant = setting.mutants[0].tests[WEAK].pairs
    assert [row.tolist() for row in original] == [[True], [True]]
    assert [row.tolist() for row in mutant] == [[False], [True]]
    nothing = {"original": [], "mutant": [], "why_not": "no data"}
    assert read(tmp_path, tests=nothing)[0].mutants[0].tests[WEAK].reason == "no data"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": 2}, "has schema 2; this version reads 1"),
        ({"settings": 5}, "is not what parallax mutation test writes"),
        ({"tests": {"mutant": [[0]]}}, "2 originals and 1 mutants of 2 pairs"),
        ({"tests": {"original": [[1]]}}, "1 originals and 2 mutants of 2 pairs"),
        ({"tests": {"original": [[1]], "mutant": [[1]]}}, "1 originals and 1 mutants of 2 pairs"),
        ({"tests": {"why_not": "no"}}, "2 originals and 2 mutants of 2 pairs"),
        ({"tests": {"mutant": [[0], []]}}, "has no tests"),
        ({"tests": {"original": [[], [1]]}}, "has no tests"),
        ({"tests": {"mutant": [[2], [0]]}}, "is not what parallax mutation test writes"),
    ],
)
def test_outcomes_that_are_not_pairs_are_refused(tmp_path, changes, message):
    with pytest.raises(OutcomesError, match=message):
        read(tmp_path, **changes)


def change_mutant(**fields):
    return lambda setting: setting["mutants"][0].update(fields)


def add_mutant(**fields):
    return lambda setting: setting["mutants"].append(setting["mutants"][0] | fields)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_mutant(seeds=[0, 0]), "lr 0.5: seeds: seed 0 occurs twice"),
        (change_mutant(trained=[0, 0, 1]), "lr 0.5: trained: seed 0 occurs twice"),
        (change_mutant(trained=[0]), "lr 0.5: seeds has 1, which is not in trained"),
        (lambda s: s.update(originals=[1]), "lr 0.5: seeds has 0, which is not in originals"),
        (lambda s: s.update(originals=[0, 1, 1]), "ppo A-v0 own: originals: seed 1 occurs twice"),
        (add_mutant(), "the mutant lr 0.5 occurs twice"),
        (add_mutant(value=2, original_value=3), "lr 2.0: original_value=3.0, not 1.0"),
        (change_mutant(trained=[-1, 0, 1]), r"Expected `int` >= 0 - at .*\.trained"),
        (lambda s: s.update(originals=[-1, 0, 1]), r"Expected `int` >= 0 - at .*\.originals"),
        (change_mutant(tests={WEAK: {"predictor_accuracy": 1.5}}), "Expected `float` <= 1"),
        (lambda s: s.update(steps=-5), r"Expected `int` >= 1 - at `\$.settings\[0\].steps`"),
        (
            change_mutant(tests={"bogus": {}}),
            r"Invalid enum value 'bogus' - at `key` in `\$.settings\[0\].mutants\[0\].tests`",
        ),
        (
            change_mutant(tests={"replay": {"original": [[1], [1]], "mutant": [[0], [1, 1]]}}),
            "a pair has unequally many tests of replay",
        ),
        (
            lambda s: s.update(mutants=s["mutants"] * 1001),
            "1 settings, 1,001 mutants and 2,002 pairs, but 1,000, 1,000 and 4,000 are",
        ),
        (
            change_mutant(tests={WEAK: {"original": [[1]] * 4001}}),
            "1 settings, 1 mutants and 4,001 pairs",
        ),
        (lambda s: s.update(env="A" * 501), r"Expected `str` of length <= 500"),
    ],
)
def test_contradictory_outcomes_are_refused(tmp_path, change, message):
    content = make_content()
    change(content["settings"][0])
    (tmp_path / "mutation.json").write_text(json.dumps(content))
    with pytest.raises(OutcomesError, match=f"mutation.json.*{message}"):
        read_outcomes(tmp_path)


def test_a_setting_that_is_there_twice_is_refused(tmp_path):
    with pytest.raises(OutcomesError, match="the setting sb3 ppo A-v0 own occurs twice"):
        read(tmp_path, settings=make_content()["settings"] * 2)


def test_a_file_of_outcomes_has_a_size_limit(tmp_path):
    with (tmp_path / "mutation.json").open("wb") as file:
        file.truncate(2**23 + 1)
    with pytest.raises(OutcomesError, match="is too large: 8,388,609 bytes"):
        read_outcomes(tmp_path)


def test_outcomes_that_are_missing_name_the_command_that_writes_them(tmp_path):
    with pytest.raises(
        OutcomesError, match=r"does not exist\. Create it with: parallax mutation test"
    ):
        read_outcomes(tmp_path)


def test_outcomes_are_read_from_a_file_or_the_folder_that_has_it(tmp_path):
    in_folder = read(tmp_path)
    (tmp_path / "outcomes.json").rename(tmp_path / "mutation.json")
    assert read_outcomes(tmp_path) == read_outcomes(tmp_path / "mutation.json") == in_folder
    (setting,) = in_folder
    (mutant,) = setting.mutants
    assert (setting.env, setting.steps, setting.originals) == ("A-v0", 100, [0, 1])
    assert (mutant.operator, mutant.mutant_seeds, mutant.seeds) == ("lr", [0, 1], [0, 1])
    empty = GeneratorResults()
    assert (empty.original, empty.mutant, empty.reason) == ([], [], "")
    assert math.isnan(empty.predictor_accuracy) and empty.pairs == ([], [])


def test_messages_name_mutant_and_generator(tmp_path):
    with pytest.raises(OutcomesError) as raised:
        read(tmp_path, tests={"mutant": [[0]]})
    start = f"{tmp_path / 'outcomes.json'}: sb3 ppo A-v0 own: lr 0.5: weak has "
    end = "Run parallax mutation test again."
    assert str(raised.value) == f"{start}2 originals and 1 mutants of 2 pairs. {end}"
    with pytest.raises(OutcomesError) as raised:
        read(tmp_path, tests={"mutant": [[0], []]})
    assert str(raised.value) == f"{start}no tests. {end}"
    with pytest.raises(OutcomesError) as raised:
        read_outcomes(tmp_path)
    text = f"{tmp_path / 'mutation.json'} does not exist. Create it with: parallax mutation test"
    assert str(raised.value) == f"{text} {tmp_path}"


def test_the_closest_mutant_is_the_first_where_originals_have_no_number():
    def judge_without(*values):
        mutants = [
            msgspec.structs.replace(make_subtle(v, 1, 1), original_value=None) for v in values
        ]
        return judge(*mutants).operators[0].closest_to_original

    assert judge_without(4.0, 0.5, 0.9).mutant.value == 0.5  # in the order of their values
    assert judge(make_subtle(None, 1, 1)).operators[0].closest_to_original.mutant.value is None
    untested = msgspec.structs.replace(make_mutant(2.0, None), original_value=None)
    assert judge(untested).operators[0].closest_to_original is None
