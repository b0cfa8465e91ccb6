"""Numbers on pages about papers come out of the packed runs again."""

import argparse
import collections
import csv
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from benchmarks.variance_shares import decompose_part
from parallax.analysis.data.load import load_runs
from parallax.analysis.stats.learning_curves import Endpoint
from parallax.harness.cli.main import main
from parallax.harness.cli.triage import find_reference

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "ladder" / "README.md"
FRAMEWORKS = ("sb3", "cleanrl", "torchrl")
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")


def test_published_numbers_of_the_thesis_cell_are_reproduced(tmp_path, monkeypatch):
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
        framework = get_framework(name)
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
    headline = PAGE.read_text().partition("**Across these")[2].partition("**")[0]
    shares = re.findall(r"(\d+)% \\\[(-?\d+)%, (-?\d+)%\]", headline)
    assert len(shares) == 2
    for value, low, high in shares:
        assert re.search(rf"{value}% \((95% interval )?{low}% to {high}%\)", page)
    runs = PAGE.read_text().partition("## Runs at each level")[2].partition("\n## ")[0]
    rows = [line for line in runs.splitlines() if "| equal hyperparameters" in line]
    rises = [float(line.split("|")[8].split()[0]) for line in rows]
    assert len(rises) == 7 and f"score {min(rises):.0%} to {max(rises):.0%} of the way" in page


def test_crossed_runs_of_another_machine_are_counted():
    (note,) = re.findall(r"^crossed\.parquet has all .*$", PAGE.read_text(), re.M)
    runs = load_runs(ROOT / "docs" / "ladder" / "crossed.parquet").runs
    other = [run.id.seed for run in runs if run.provenance.python.startswith("3.12")]
    counts = collections.Counter(other)
    numbers = [len(runs), len(other), *(n for seed in (0, 1, 3) for n in (counts[seed], seed))]
    found = [int(n) for n in re.findall(r"\d+", note)]
    assert found == [*numbers, counts[4], 4] and counts.keys() == {0, 1, 3, 4}


def test_note_on_an_earlier_conversion_is_reproduced_by_its_command(tmp_path, monkeypatch, capsys):
    (note,) = re.findall(r"^sbx's TD3 moves .*$", PAGE.read_text().replace("\\_", "_"), re.M)
    (command,) = re.findall(r"parallax (study ablation .*)\.$", note)
    monkeypatch.chdir(ROOT)
    assert main([*command.split(), "--output", str(tmp_path)]) == 0
    (share,) = re.findall(r"closed (\d+%) \((.*?), n = (\d) pairs\)", note)
    assert "Of the gap to sbx it is {} ({}, {} seeds).".format(*share) in capsys.readouterr().out


def test_costs_of_other_cells_are_those_of_the_ladder():
    page = (ROOT / "docs" / "papers" / "how-stable-are-baselines.md").read_text()
    runs = load_runs(ROOT / "docs" / "ladder" / "ladder.parquet").runs
    counts, hours = [], []
    for algorithm in ("td3", "sac"):
        costs = [
            [
                run.training_cpu_seconds / run.timesteps[-1]
                for run in runs
                if (run.id.cell.algorithm, run.id.framework) == (algorithm, framework)
                and np.isfinite(run.training_cpu_seconds)
            ]
            for framework in FRAMEWORKS
        ]
        counts.append(sum(map(len, costs)))
        hours.append(sum(5e6 / 3600 * np.mean(one) for one in costs))
    assert "{} runs of TD3 and {} of SAC of the three".format(*counts) in page
    assert "about {:.0f} core-hours with TD3 and {:.0f} with SAC".format(*hours) in page


def test_reference_spreads_of_triage_are_those_of_the_reference_runs():
    page = (ROOT / "docs" / "how-to" / "triage-a-version.md").read_text()
    ends = []
    for algorithm, env in (("td3", "Pendulum-v1"), ("ppo", "CartPole-v1")):
        options = argparse.Namespace(reference=None, endpoint="auc", env=env, trust=False)
        spread = find_reference(options, algorithm).spread
        ends += [round(spread.low), round(spread.high)]
    assert "they are {} to {} (TD3) and {} to {} (PPO on CartPole-v1)".format(*ends) in page
    means = [float(mean) for mean in re.findall(r"; mean (-?\d+) inside the reference", page)]
    assert len(means) == 2 and ends[2] < means[1] < ends[3]
    assert f"The mean of {means[0]:.0f} is just outside" in page
    assert ends[0] - 10 < means[0] < ends[0]


def test_runs_of_ppo_that_learn_cartpole_are_counted():
    text = (ROOT / "docs" / "explanation" / "alignment.md").read_text()
    section = text.partition("### Do agents learn")[2].partition("\n### ")[0]
    runs = [
        run
        for run in load_runs(ROOT / "docs" / "ladder" / "ladder.parquet").runs
        if (run.id.cell.algorithm, run.id.cell.env) == ("ppo", "CartPole-v1")
        and run.spec["alignment"] == "exact"
    ]
    curves = [run.results.mean(axis=1) for run in runs]
    reached = [
        run.timesteps[np.argmax(curve >= 475)]
        for run, curve in zip(runs, curves, strict=True)
        if curve.max() >= 475
    ]
    assert f"{len(reached)} of {len(runs)} runs reach" in section
    assert f"within {max(reached):,} steps" in section
    low = [curve[-1] for curve in curves if curve[-1] < 475]
    assert f"{len(runs) - len(low)} of {len(runs)} runs are at 475 or above" in section
    names = collections.Counter(
        run.id.framework for run, curve in zip(runs, curves, strict=True) if curve[-1] < 475
    )
    assert [name for name, _ in names.most_common()] == ["torchrl", "skrl", "tianshou"]
    counts = "{} of TorchRL, {} of skrl and {} of Tianshou".format(*sorted(names.values())[::-1])
    assert f"The others have {min(low):.0f} to {max(low):.0f}: {counts}." in section


def test_proposed_evaluation_episodes_are_those_of_the_tables():
    text = (ROOT / "docs" / "explanation" / "statistics.md").read_text()
    proposed = []
    for study in ("ladder", "study"):
        with (ROOT / "docs" / study / "tables" / "evaluation_noise.csv").open() as file:
            proposed += [float(row["proposed_episodes"]) for row in csv.DictReader(file)]
    few = sum(number <= 30 for number in proposed)
    assert (
        f"In the {len(proposed)} settings of both published studies this number is "
        f"{min(proposed):.0f} to {max(proposed):.0f}, and at most 30 in {few} of them" in text
    )


def test_published_numbers_of_imp_per_with_double_dqn_are_reproduced(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "papers" / "imp-per.md").read_text()
    section = page.partition("## Double DQN, until uniform")[2].partition("\n## ")[0]
    monkeypatch.chdir(ROOT)
    effects, ways = read_replay_tables(tmp_path, "final", "imp_per_double")
    lines = [[cell.strip(" *") for cell in line.split("|")[1:-1]] for line in section.splitlines()]
    costs = {line[0]: line[-2:] for line in lines if len(line) == 6 and len(line[0]) > 5}
    rows = {line[0]: line[1:] for line in lines if len(line) == 7 and len(line[0]) > 5}
    for name in ("Stable-Baselines3", "CleanRL", "TorchRL"):
        framework = get_framework(name)
        uniform, *shown, gain = rows[name]
        assert float(uniform) == round(float(ways[framework, "uniform"]["final_mean"]))
        for way, text in zip(("per", "rank", "atdc", "imp"), shown, strict=True):
            row = effects[framework, get_strategy_name(way)]
            values = [round(float(row[column])) for column in ("difference", "low", "high")]
            assert [read_number(number) for number in NUMBER.findall(text)] == values
        own = ways[framework, get_strategy_name("imp")]
        values = [round(100 * float(own[f"gain_{end}"])) for end in ("over_per", "low", "high")]
        assert [read_number(number) for number in NUMBER.findall(gain)] == values
        whole = sum_costs(ways[framework, "per"])
        for way, text in zip(("imp", "atdc"), costs[name], strict=True):
            cost = sum_costs(ways[framework, get_strategy_name(way)])
            assert float(text) == pytest.approx(cost / whole, abs=0.0051)


def test_costs_of_imp_per_with_ddpg_have_the_range_of_the_verdict(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "papers" / "imp-per.md").read_text()
    monkeypatch.chdir(ROOT)
    costs = []
    for study in ("imp_per_ddpg", "imp_per_reacher"):
        _, ways = read_replay_tables(tmp_path / study, "auc", study)
        costs += [
            sum_costs(ways[one, get_strategy_name("imp")]) / sum_costs(ways[one, "per"])
            for one in FRAMEWORKS
        ]
    assert f"{min(costs):.2f} to {max(costs):.2f} with DDPG over 8,000 steps" in page


def get_framework(name):
    return {"Stable-Baselines3": "sb3"}.get(name, name.lower())


def read_number(text):
    return float(text.replace(",", ""))


def test_published_numbers_of_muprl_mutants_are_reproduced():
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


def get_strategy_name(way):
    return "imp, smallest=memory" if way == "imp" else way


def read_replay_tables(folder, endpoint, study="imp_per_ddpg"):
    words = ["study", "replay", f"docs/{study}.parquet", "--endpoint", endpoint]
    assert main([*words, "--output", str(folder)]) == 0
    tables = {}
    for name in ("replay_effects", "replay"):
        with (folder / f"{name}.csv").open() as file:
            tables[name] = {(row["framework"], row["replay"]): row for row in csv.DictReader(file)}
    return tables.values()


def test_published_numbers_of_imp_per_with_ddpg_are_reproduced(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "papers" / "imp-per.md").read_text()
    section = page.partition("## DDPG, until uniform")[2].partition("\n## ")[0]
    monkeypatch.chdir(ROOT)
    effects, ways = read_replay_tables(tmp_path, "final")
    lines = [[cell.strip(" *") for cell in line.split("|")] for line in section.splitlines()]
    first, second = [[line for line in lines if len(line) == length] for length in (9, 8)]
    assert (len(first), len(second)) == (5, 5)
    for _, name, uniform, *shown, gain, _ in first[2:]:
        framework = get_framework(name)
        assert float(uniform) == round(float(ways[framework, "uniform"]["final_mean"]))
        for way, text in zip(("per", "rank", "atdc", "imp"), shown, strict=True):
            row = effects[framework, get_strategy_name(way)]
            values = [round(float(row[column])) for column in ("difference", "low", "high")]
            assert [read_number(number) for number in NUMBER.findall(text)] == values
            assert row["does"] == (
                "helps" if (framework, way) == ("sb3", "per") else "inconclusive"
            )
            assert (row["replayed_requested"], row["replayed_used"], row["pairs"]) == ("5",) * 3
        found = [
            float(ways[framework, get_strategy_name("imp")][f"gain_{end}"])
            for end in ("over_per", "low", "high")
        ]
        values = [round(100 * value) for value in found]
        assert [read_number(number) for number in NUMBER.findall(gain)] == values
    reached = {way: 0 for _, way in ways}
    for (_, way), row in ways.items():
        reached[way] += int(row["n_reached"])
    assert (
        reached[get_strategy_name("imp")],
        sum(reached[way] for way in ("per", "rank", "atdc")),
    ) == (5, 43)
    for _, name, *_, imp, atdc, _ in second[2:]:
        framework = get_framework(name)
        cost = {
            way: sum_costs(ways[framework, get_strategy_name(way)])
            for way in ("per", "imp", "atdc")
        }
        assert float(imp) == pytest.approx(cost["imp"] / cost["per"], abs=0.006)
        assert float(atdc) == pytest.approx(cost["atdc"] / cost["per"], abs=0.006)


def test_published_numbers_of_imp_per_weights_are_reproduced(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "papers" / "imp-per.md").read_text()
    section = page.partition("## Why Imp-PER learns")[2].partition("\n## ")[0]
    monkeypatch.chdir(ROOT)
    effects, ways = read_replay_tables(tmp_path, "auc")
    lines = [[cell.strip(" *") for cell in line.split("|")] for line in section.splitlines()]
    lines = [line for line in lines if len(line) == 8][2:]
    assert len(lines) == 3
    for _, name, *shown, reached, _, _, _ in lines:
        framework = get_framework(name)
        keys = [(framework, f"imp, smallest={where}") for where in ("memory", "batch")]
        for key, text in zip(keys, shown, strict=True):
            row = effects[key]
            values = [round(float(row[column])) for column in ("difference", "low", "high")]
            *numbers, p = map(read_number, NUMBER.findall(text))
            assert numbers == values and p == float(f"{float(row['p_holm']):.2g}")
        counts = [int(number) for number in re.findall(r"\d+", reached)]
        assert counts == [int(ways[key]["n_reached"]) for key in keys] + [5]
    both = [
        [float(ways[one, f"imp, smallest={where}"]["n_reached"]) for one in FRAMEWORKS]
        for where in ("batch", "memory")
    ]
    done, few = map(sum, both)
    p = scipy.stats.fisher_exact([[done, 15 - done], [few, 15 - few]]).pvalue
    assert f"{done:.0f} of 15 runs reach" in section and f"{few:.0f} of 15 with" in section
    assert f"p = {p:.1g})" in section
    gains = compute_seed_gains()
    found = scipy.stats.ttest_1samp(gains, 0)
    low, high = found.confidence_interval()
    text = f"scores {gains.mean():.0f} more ({low:.0f} to {high:.0f}, n = 5 seeds, "
    assert f"{text}p = {found.pvalue:.2g})" in section


IMP_PER_TASKS = (
    # study, section, framework and strategy that is not inconclusive, runs that reach uniform
    # replay's final mean: imp, imp with weights of the minibatch, the other three strategies
    ("imp_per_reacher", "DDPG on Reacher", {("sb3", "imp, smallest=memory"): "harms"}, (1, 11, 38)),
    (
        *("imp_per_acrobot", "Double DQN on Acrobot"),
        {("sb3", "imp, smallest=memory"): "helps", ("torchrl", "atdc"): "helps"},
        (13, 15, 42),
    ),
)


@pytest.mark.parametrize(("study", "heading", "decided", "counts"), IMP_PER_TASKS)
def test_published_numbers_of_imp_per_on_a_task_are_reproduced(
    tmp_path, monkeypatch, study, heading, decided, counts
):
    page = (ROOT / "docs" / "papers" / "imp-per.md").read_text()
    section = page.partition(f"## {heading}")[2].partition("\n## ")[0]
    monkeypatch.chdir(ROOT)
    effects, ways = read_replay_tables(tmp_path, "auc", study)
    lines = [[cell.strip(" *") for cell in line.split("|")[1:-1]] for line in section.splitlines()]
    names = ("per", "rank", "atdc", "imp, smallest=memory", "imp, smallest=batch")
    shown = [line for line in lines if len(line) == 7][2:]
    does = {key: row["does"] for key, row in effects.items() if row["does"] != "inconclusive"}
    assert len(effects) == 15 and does == decided
    p_values = {key: float(row["p_holm"]) for key, row in effects.items()}
    smallest = min(p for key, p in p_values.items() if key not in decided)
    assert f"(p = {smallest:.2f} or more)" in section
    for one in FRAMEWORKS:
        assert f"{p_values[one, names[3]]:#.2g}" in section
    for name, *texts, gain in shown:
        framework = get_framework(name)
        for way, text in zip(names, texts, strict=True):
            row = effects[framework, way]
            values = [float(row[column]) for column in ("difference", "low", "high")]
            numbers = [read_number(number) for number in NUMBER.findall(text)]
            unit = 0.51 if "." not in text else 0.0051
            assert numbers == pytest.approx(values, abs=unit) and row["pairs"] == "5"
        ends = [ways[framework, names[3]][f"gain_{end}"] for end in ("over_per", "low", "high")]
        numbers = [read_number(number) for number in NUMBER.findall(gain)]
        assert numbers == pytest.approx([100 * float(end) for end in ends if end], abs=0.51)
    assert len(shown) == 3
    reached = collections.Counter()
    for (_, way), row in ways.items():
        reached[way] += int(row["n_reached"])
    others = sum(reached[way] for way in names[:3])
    assert (reached[names[3]], reached[names[4]], others) == counts
    for text, of in zip(counts, (15, 15, 45), strict=True):
        assert f"{text} of {of}" in section
    for name, *_, imp, atdc in [line for line in lines if len(line) == 6][2:]:
        framework = get_framework(name)
        cost = {way: sum_costs(ways[framework, way]) for way in names}
        assert float(imp) == pytest.approx(cost[names[3]] / cost["per"], abs=0.0051)
        assert float(atdc) == pytest.approx(cost["atdc"] / cost["per"], abs=0.0051)


def compute_seed_gains():
    """Mean over frameworks of the score with weights of the batch minus of the memory, by seed."""
    scores = {}
    for run in load_runs(ROOT / "docs" / "imp_per_ddpg.parquet").runs:
        replay = run.spec["replay"]
        if replay["name"] == "imp":
            score = Endpoint("auc").score(run.timesteps, run.results.mean(axis=1))
            scores[replay.get("smallest", "memory"), run.id.framework, run.id.seed] = score
    return np.array(
        [
            np.mean([scores["batch", one, s] - scores["memory", one, s] for one in FRAMEWORKS])
            for s in range(5)
        ]
    )


def sum_costs(row):
    return sum(float(row[f"{part}_us"]) for part in ("sampling", "priorities", "learning"))


def test_published_numbers_of_r2d2_with_actors_are_reproduced():
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
