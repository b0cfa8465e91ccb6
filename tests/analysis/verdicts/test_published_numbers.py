"""The published study comes out of its packed runs again: page, tables, section of the README."""

import argparse
import csv
import re
import shlex
from pathlib import Path

import pytest

from benchmarks.shares_of_frameworks import decompose_part
from parallax.analysis.commands import publish
from parallax.harness.cli.main import main

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "ladder" / "README.md"
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")


@pytest.fixture(scope="module")
def texts():
    (command,) = re.findall(r"^parallax study publish .*", PAGE.read_text(), re.M)
    parser = argparse.ArgumentParser()
    publish.add_arguments(parser)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        options = parser.parse_args(shlex.split(command)[3:])
        return publish.list_output_texts(options, publish.prepare_publication(options))


def split_numbers(text):
    """Return the text without numbers, and the numbers."""
    return NUMBER.sub("#", text), [float(n.replace(",", "")) for n in NUMBER.findall(text)]


def test_every_number_comes_out_again(texts):
    assert len(texts) > 20
    for path, text in texts.items():
        words, numbers = split_numbers(text)
        stored_words, stored_numbers = split_numbers((ROOT / path).read_text())
        assert words == stored_words, path
        assert numbers == pytest.approx(stored_numbers, rel=1e-6, abs=1e-9), path


def test_no_table_is_left_from_before(texts):
    tables = {ROOT / path for path in texts if path.suffix == ".csv"}
    assert tables == set((PAGE.parent / "tables").iterdir())


def test_numbers_of_the_thesis_cell_come_out_of_its_runs(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "papers" / "how-stable-are-baselines.md").read_text()
    (command,) = re.findall(r"^    parallax (study verdicts docs/\S+ .*?)  ", page, re.M)
    monkeypatch.chdir(ROOT)
    assert main([*command.split(), "--output", str(tmp_path)]) == 0
    with (tmp_path / "reproduction.csv").open() as file:
        rows = list(csv.DictReader(file))
    compared = {(row["framework"], float(row["published_mean"])): row for row in rows}
    lines = re.findall(r"^\| (\S+) \| ([\d,; ]+) \| ([\d,]+) \| (.*) \| (.*) \|$", page, re.M)
    assert len(lines) == 3
    for name, scores, mean, paper, thesis in lines:
        framework = {"Stable-Baselines3": "sb3"}.get(name, name.lower())
        five = [float(score.replace(",", "")) for score in scores.split(";")]
        assert len(five) == 5 and sum(five) / 5 == pytest.approx(read_number(mean), abs=1)
        target = read_number(thesis.split(":")[0])
        (own,) = (
            row for (f, value), row in compared.items() if f == framework and round(value) == target
        )
        assert float(own["ours_mean"]) == pytest.approx(read_number(mean), abs=1)
        for text, row in ((paper, compared[framework, 2230.0]), (thesis.split(":")[1], own)):
            numbers = [read_number(n) for n in re.findall(r"[-+]?[\d,]*\d", text.split(", p")[0])]
            expected = [float(row[key]) for key in ("difference", "low", "high")]
            assert numbers == pytest.approx(expected, abs=1)
            assert row["ours_used"] == "5" and row["verdict_two_sided_test"] == "similar"


def test_shares_on_the_thesis_page_are_those_of_the_ladder():
    page = (ROOT / "docs" / "papers" / "how-stable-are-baselines.md").read_text()
    study = ROOT / "docs" / "ladder" / "ladder.parquet"
    three = decompose_part(study, ("sb3", "cleanrl", "torchrl"), ("ppo", "td3", "sac"))
    assert len(three.tasks) == 5
    for share in (three.shares.own, three.shares.equal):
        value, low, high = (round(100 * one) for one in share)
        assert f"{value}% ({low}% to {high}%)" in page
    headline = PAGE.read_text().partition("**Different")[2].partition("**")[0]
    for value, low, high in re.findall(r"(\d+)% \\\[(-?\d+)%, (-?\d+)%\]", headline):
        assert re.search(rf"{value}% \((95% interval )?{low}% to {high}%\)", page)
    runs = PAGE.read_text().partition("## Runs at each level")[2]
    rows = [line for line in runs.splitlines() if "| equal hyperparameters" in line]
    rises = [float(line.split("|")[8].split()[0]) for line in rows]
    assert len(rises) == 7 and f"score {min(rises):.0%} to {max(rises):.0%} of the way" in page


def read_number(text):
    return float(text.replace(",", ""))


def test_numbers_of_muprls_mutants_come_out_of_their_scores():
    page = (ROOT / "docs" / "papers" / "muprl.md").read_text()
    section = page.partition("## DQN that learns")[2].partition("\n## ")[0]
    with (ROOT / "docs" / "mutation_dqn.csv").open() as file:
        rows = list(csv.DictReader(file))
    lines = [[cell.strip() for cell in line.split("|")[1:-2]] for line in section.splitlines()]
    lines = [line for line in lines if line and "`" in line[0]]
    assert len(lines) == 10 and sum(int(line[1]) for line in lines) == len(rows) == 20
    for names, count, trivial, killable, weak, strong in lines:
        operators = {
            name for text in re.findall("`(.*?)`", names) for name in (text, f"rlmutation-{text}")
        }
        own = [row for row in rows if row["operator"] in operators]
        assert len(own) == int(count)
        assert float(trivial.split()[0]) == sum(row["trivial"] == "True" for row in own) / len(
            own
        ), names
        assert float(killable.split()[0]) == sum(row["killable"] == "True" for row in own) / len(
            own
        ), names
        scored = [row for row in own if (row["killable"], row["trivial"]) == ("True", "False")]
        for text, column in ((weak, "weak_rate"), (strong, "strong_rate")):
            rates = [float(row[column]) for row in scored if row[column]]
            shown = NUMBER.findall(text.partition(" /")[0])[:1]
            assert [float(number) for number in shown] == pytest.approx(
                [sum(rates) / len(rates)] if rates else []
            ), names
    killed = [row for row in rows if row["killable"] == "True"]
    assert (len(killed), sum(row["trivial"] == "True" for row in killed)) == (15, 7)
    assert "Fifteen of twenty settings are killable, and seven of these are trivial" in section


def test_numbers_of_imp_per_with_ddpg_come_out_of_its_runs(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "papers" / "imp-per.md").read_text()
    section = page.partition("## DDPG, until uniform")[2].partition("\n## ")[0]
    monkeypatch.chdir(ROOT)
    words = ["study", "replay", "docs/imp_per_ddpg.parquet", "--output", str(tmp_path)]
    assert main(words) == 0
    tables = {}
    for name in ("replay", "replay_effects"):
        with (tmp_path / f"{name}.csv").open() as file:
            tables[name] = {(row["framework"], row["replay"]): row for row in csv.DictReader(file)}
    effects, ways = tables["replay_effects"], tables["replay"]
    lines = [[cell.strip(" *") for cell in line.split("|")] for line in section.splitlines()]
    first, second = [[line for line in lines if len(line) == length] for length in (9, 8)]
    assert (len(first), len(second)) == (5, 5)
    for _, name, uniform, *shown, gain, _ in first[2:]:
        framework = {"Stable-Baselines3": "sb3"}.get(name, name.lower())
        assert float(uniform) == round(float(ways[framework, "uniform"]["final_mean"]))
        for way, text in zip(("per", "rank", "atdc", "imp"), shown, strict=True):
            row = effects[framework, way]
            values = [round(float(row[column])) for column in ("difference", "low", "high")]
            assert [read_number(number) for number in NUMBER.findall(text)] == values
            assert row["does"] == (
                "helps" if (framework, way) == ("sb3", "per") else "inconclusive"
            )
            assert (row["replayed_requested"], row["replayed_used"], row["pairs"]) == ("5",) * 3
        found = [
            float(ways[framework, "imp"][f"gain_{end}"]) for end in ("over_per", "low", "high")
        ]
        values = [round(100 * value) for value in found]
        assert [read_number(number) for number in NUMBER.findall(gain)] == values
    reached = {way: 0 for _, way in ways}
    for (_, way), row in ways.items():
        reached[way] += int(row["n_reached"])
    assert (reached["imp"], sum(reached[way] for way in ("per", "rank", "atdc"))) == (5, 43)
    for _, name, *_, imp, atdc, _ in second[2:]:
        framework = {"Stable-Baselines3": "sb3"}.get(name, name.lower())
        cost = {way: sum_costs(ways[framework, way]) for way in ("per", "imp", "atdc")}
        assert float(imp) == pytest.approx(cost["imp"] / cost["per"], abs=0.006)
        assert float(atdc) == pytest.approx(cost["atdc"] / cost["per"], abs=0.006)


def sum_costs(row):
    return sum(float(row[f"{part}_us"]) for part in ("sampling", "priorities", "learning"))


def test_numbers_of_r2d2_with_actors_come_out_of_their_table():
    page = (ROOT / "docs" / "papers" / "r2d2.md").read_text()
    section = page.partition("## Actors in processes")[2].partition("\n## ")[0]
    with (ROOT / "docs" / "r2d2_actors.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["stage"] == "0"]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines()]
    lines = [line for line in lines if len(line) == 10][2:]
    assert len(lines) == 24
    for task, state, actors, runs, *shown in lines:
        burn_in = state.partition("burn-in ")[2] or "0"
        key = str(state != "zero"), burn_in, actors, runs
        names = ("stored_state", "burn_in", "actors", "final_return_n")
        own = {
            (row["place"], row["lag_third"]): row
            for row in rows
            if task in row["env"] and tuple(row[name] for name in names) == key
        }
        assert len(own) == 8
        first, last = own["first", ""], own["last", ""]
        thirds = [own["last", third] for third in ("fresh", "middle", "stale")]
        assert float(thirds[0]["discrepancy"]) < float(thirds[2]["discrepancy"])
        expected = (
            [first[f"lag_when_stored{end}"] for end in ("", "_low", "_high")],
            [first["discrepancy"]],
            [last[f"discrepancy{end}"] for end in ("", "_low", "_high")],
            [third["discrepancy"] for third in thirds],
            [third["lag"] for third in thirds],
            [first["final_return"]],
        )
        for text, values in zip(shown, expected, strict=True):
            numbers = [read_number(number) for number in NUMBER.findall(text)]
            cut = [max(float(v), 0.0) if "(" in text else float(v) for v in values]
            assert numbers == pytest.approx(cut, rel=0.06, abs=1e-5), (task, state, actors)
