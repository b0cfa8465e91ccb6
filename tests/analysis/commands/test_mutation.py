"""`parallax mutation` on outcomes written by hand."""

import csv
import json
import math

import pytest

from parallax.analysis.data.mutation_outcomes import OutcomesError, read_outcomes
from parallax.analysis.data.paper_tables import MUPRL_RESULTS, find_muprl_results
from parallax.analysis.verdicts.mutation import judge_mutation
from parallax.harness.cli.main import main

ALL, NONE, HALF = [1] * 20, [0] * 20, [1] * 10 + [0] * 10
MOST = [1] * 4 + [0] * 16  # fails in 80%: not trivial


def mutant(operator, value, replay, weak, strong, original=(ALL, ALL)):
    def tests(pairs):
        return {"original": list(original), "mutant": pairs} if pairs else {"why_not": "nothing"}

    named = {"replay": tests(replay), "weak": tests(weak), "strong": tests(strong)}
    return {
        **{"operator": operator, "value": value, "original_value": 0.99},
        **{"trained": [0, 1], "seeds": [0, 1], "tests": named},
    }


CONTENT = {
    "schema": 1,
    "settings": [
        {
            **{"env": "CartPole-v1", "algorithm": "dqn", "hps": "zoo", "framework": "sb3"},
            **{"originals": [0, 1], "steps": 50000},
            "mutants": [
                mutant("sdf", 0.9, [MOST, MOST], [ALL, MOST], [MOST, MOST]),
                mutant("sdf", 0.5, [MOST, ALL], [ALL, ALL], [MOST, ALL]),
                mutant("sdf", 0.45, [NONE, NONE], [NONE, NONE], []),  # trivial
                mutant("sls", 5000.0, [ALL, ALL], [ALL, ALL], []),  # not killable
                mutant("nrs", None, [ALL, ALL], [ALL, ALL], [], original=(NONE, NONE)),
            ],
        }
    ],
}


@pytest.fixture
def study(tmp_path):
    (tmp_path / "mutation.json").write_text(json.dumps(CONTENT))
    return tmp_path


def test_operators_are_judged_by_killable_non_trivial_mutants(study):
    (setting,) = read_outcomes(study)
    found = judge_mutation(setting)
    sdf, sls, nrs = found.operators
    assert [c.mutant.value for c in sdf.configurations] == [0.45, 0.5, 0.9]
    assert (sdf.killable, sdf.trivial) == (3, 1)
    # Weak: mean of 1/2 and 0; strong: mean of 1 and 1/2, over the two that count.
    assert (sdf.weak.value, sdf.strong.value) == (0.25, 0.75)
    assert sdf.sensitivity == pytest.approx(2 / 3)
    assert sdf.closest_to_original.mutant.value == 0.9
    assert sls.killable == 0 and math.isnan(sls.weak.value) and sls.closest_to_original is None
    assert nrs.configurations[0].replay.weaker == 2 and math.isnan(nrs.sensitivity)
    assert (found.weak.value, found.weak.n, found.weak.n_requested) == (0.25, 1, 3)
    assert found.sensitivity.n == 1


def test_scores_are_compared_on_the_values_that_both_have(tmp_path, capsys):
    mutants = [
        mutant("sdf", 0.9, [MOST, MOST], [ALL, MOST], [MOST, MOST]),
        mutant("sdf", 0.5, [MOST, ALL], [ALL, ALL], []),
    ]
    content = {**CONTENT, "settings": [{**CONTENT["settings"][0], "mutants": mutants}]}
    (tmp_path / "mutation.json").write_text(json.dumps(content))
    (sdf,) = judge_mutation(read_outcomes(tmp_path)[0]).operators
    assert (sdf.sensitivity, sdf.paired) == (0.75, 0.5)
    assert main(["mutation", "score", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "weak score is of 2 values, the strong one of 1 of them, over which" in said


def test_the_command_prints_a_table_and_writes_every_configuration(study, capsys):
    assert main(["mutation", "score", str(study)]) == 0
    text = capsys.readouterr().out
    assert "0.25 (2)" in text and "0.75 (2)" in text and "0.67" in text
    assert "all 2 originals are weaker" in text and "no tests of the strong generator" in text
    with (study / "analysis" / "mutation.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert (
        len(rows) == 5 and rows[2]["is_closest_to_original"] == "True" and rows[2]["pairs"] == "2"
    )
    assert main(["mutation", "score", str(study), "--as-published-code"]) == 0
    assert "as the published code counts" in capsys.readouterr().out


def test_table_has_the_papers_numbers_and_the_number_of_mutants(study, capsys):
    main(["mutation", "score", str(study)])
    text = capsys.readouterr().out
    row = next(line for line in text.splitlines() if line.split()[:1] == ["sdf"])
    assert row.partition("|")[2].split() == ["0.00", "0.80", "0.40", "0.44", "0.09"]
    row = next(line for line in text.splitlines() if line.split()[:1] == ["snu"])
    assert row.split() == ["snu", *"-------", "|", "0.20", "0.80", "0.90", "0.80", "0.00"]
    assert "2 of 5 operators (values: sdf 3 of 5, sls 1 of 5), 2 of 10 originals, 50000 of" in text
    assert "Not in its table: nrs." in text
    with (study / "analysis" / "mutation.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["paper_sensitivity"] for row in rows] == ["0.09"] * 3 + ["0.33", ""]


def test_the_papers_means_follow_from_its_cells():
    for (env, algorithm), column in MUPRL_RESULTS.items():
        rows = [c.sensitivity for c in column.operators.values() if not math.isnan(c.sensitivity)]
        # Cells are rounded to 0.01.
        assert sum(rows) / len(rows) == pytest.approx(column.sensitivity, abs=0.011), (
            env,
            algorithm,
        )
    assert find_muprl_results("LunarLander-v3", "dqn") is MUPRL_RESULTS["LunarLander", "dqn"]
    assert find_muprl_results("Pendulum-v1", "sac") is None


def test_cells_of_the_paper_are_consistent():
    """Sensitivities follow from the two scores beside them; of the rest the sums are known."""
    cells = [c for column in MUPRL_RESULTS.values() for c in column.operators.values()]
    scored = [c for c in cells if c.strong > 0]
    assert len(cells) == 34 and len(scored) == 28
    for cell in scored:
        gain = max(cell.strong - cell.weak, 0) / cell.strong  # equation 2
        assert cell.sensitivity == pytest.approx(gain, abs=0.011), cell
    assert all(math.isnan(c.sensitivity) for c in cells if not c.strong > 0)
    assert sum(c.trivial for c in cells) == pytest.approx(3.4)
    assert sum(c.killable for c in cells) == pytest.approx(22.27)
    assert [column.steps for column in MUPRL_RESULTS.values()] == [
        *(50_000, 100_000, 1_000_000, 100_000, 100_000, 100_000, 700_000, 2_000_000)
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(schema=9), "has schema 9"),
        (lambda c: c.update(settings=[]), "it has no settings. Run parallax mutation test again"),
        (lambda c: c["settings"][0]["mutants"][0]["seeds"].append(2), "of 3 pairs"),
        (lambda c: c["settings"][0].pop("env"), "not what parallax mutation test writes"),
    ],
)
def test_files_of_another_format_are_refused(study, change, message):
    content = json.loads(json.dumps(CONTENT))
    change(content)
    (study / "mutation.json").write_text(json.dumps(content))
    with pytest.raises(OutcomesError, match=message):
        read_outcomes(study)


def test_control_characters_of_a_file_are_escaped(tmp_path, capsys):
    content = json.loads(json.dumps(CONTENT))
    content["settings"][0]["mutants"][0]["operator"] = "a\x1b[31mb"
    (tmp_path / "mutation.json").write_text(json.dumps(content))
    assert main(["mutation", "score", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text and r"a\x1b[31mb" in text


def test_missing_file_error_names_the_command_that_writes_it(tmp_path, capsys):
    assert main(["mutation", "score", str(tmp_path)]) == 2
    assert "parallax mutation test" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["analysis", "analysis/figures"])
def test_nothing_is_written_through_a_link_in_the_study(study, name, tmp_path_factory, capsys):
    elsewhere, place = tmp_path_factory.mktemp("elsewhere"), study / name
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(elsewhere)
    for results in (study, study / "mutation.json"):
        assert main(["mutation", "score", str(results)]) == 2
        assert f"{place} is a link: name a folder with --output." in capsys.readouterr().err
    assert not list(elsewhere.iterdir())
