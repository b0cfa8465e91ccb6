"""Published pages of a study are reproduced from its file of runs, byte for byte."""

import argparse
import csv
import io
import json
import os
import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from loops import iterate_some

from parallax.analysis.commands import publish
from parallax.analysis.data.load import load_runs
from parallax.analysis.data.study_grid import AXIS_NAMES, RequestedRun, StudyGrid, read_grid
from parallax.analysis.report.publication import SECTION_BEGIN, SECTION_END, round_to_ten_digits
from parallax.analysis.report.sections.runs import count_runs_by_setting, make_counts_grid
from parallax.harness.cli.main import main
from parallax.harness.record.packed import write_rows

ROOT = Path(__file__).parents[3]
PUBLISHED = sorted(
    path.parent
    for path in (ROOT / "docs").glob("*/README.md")
    if "parallax study publish" in path.read_text()
)
VARIANT = "steps=20000,eval_every=2000,eval_episodes=4"
GRID = """
hydra:
  sweeper:
    params: {seed: "range(0,4)"}
    parts:
      - algorithm: ppo,td3
        framework: sb3,cleanrl,torchrl
        hps: original
        env: Hopper-v5,Ant-v5
      - {algorithm: ppo, framework: sb3, hps: sb3, env: Hopper-v5, hyperparameters.gamma: 0.9}
"""
# Mean score of each framework: TorchRL's PPO is far off, and its TD3 ranks the other way round.
LEVELS = {
    "ppo": {"sb3": 1000.0, "cleanrl": 1010.0, "torchrl": 300.0},
    "td3": {"sb3": 2000.0, "cleanrl": 2400.0, "torchrl": 100.0},
}


@pytest.fixture(scope="module")
def site(tmp_path_factory, writer, draw_blank):
    """A repository with a study that was published in it."""
    root = tmp_path_factory.mktemp("site")
    noise = np.random.default_rng(0)
    for algorithm, levels in LEVELS.items():
        for framework, level in levels.items():
            for seed in range(4):
                failed = (algorithm, framework, seed) == ("td3", "cleanrl", 3)
                outcome = {"status": "failed", "failure": "it broke"} if failed else {}
                score = level + 20 * noise.normal() * (10 if framework == "cleanrl" else 1)
                names = {"algorithm": algorithm, "framework": framework, "seed": seed}
                writer(root / "results", score=score, variant=VARIANT, **names, **outcome)
    (root / "grid.yaml").write_text(GRID)
    (root / "README.md").write_text(f"# Mine\n\n{SECTION_BEGIN}\n{SECTION_END}\n\n## Behind\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        draw_blank(patch)
        assert main(["study", "pack", "results/demo", "--output", "mine.parquet"]) == 0
        words = ["--grid", "grid.yaml", "--readme", "README.md", "--jobs", "1"]
        assert (
            main(["study", "publish", "mine.parquet", "docs/mine", "--title", "Mine", *words]) == 0
        )
    return root


@pytest.fixture(scope="module")
def page(site):
    return (site / "docs/mine/README.md").read_text()


def table(site, name):
    return list(csv.DictReader(io.StringIO((site / f"docs/mine/tables/{name}.csv").read_text())))


def command_of(folder):
    """The command that the page names for itself."""
    (line,) = re.findall(r"^parallax study publish .*$", (folder / "README.md").read_text(), re.M)
    return line


# The old study is an example, and its page takes half a minute.
SITES = [
    pytest.param(path, marks=pytest.mark.long if path and path.name == "study" else ())
    for path in (None, *PUBLISHED)
]


@pytest.mark.parametrize("folder", SITES, ids=lambda path: path.name if path else "")
def test_published_texts_are_those_generated_from_the_file(folder, site, monkeypatch):
    root = ROOT if folder else site
    folder = folder or site / "docs/mine"
    monkeypatch.chdir(root)
    command = command_of(folder)
    parser = argparse.ArgumentParser()
    publish.add_arguments(parser)
    options = parser.parse_args(shlex.split(command)[3:])
    made = publish.list_output_texts(options, publish.prepare_publication(options))
    for path, text in iterate_some(made.items()):
        assert path.read_bytes() == text.encode(), f"{path} is another now; run: {command}"
    tables = {path for path in made if path.suffix == ".csv"}
    assert {root / path for path in tables} == set((folder / "tables").iterdir())
    for name in re.findall(r"\]\(([\w./-]+)\)", (folder / "README.md").read_text()):
        assert (folder / name).exists(), name


def test_no_published_page_names_a_folder_of_the_machine():
    pages = [path for folder in PUBLISHED for path in folder.glob("*.[hm]*")]
    assert {path.suffix for path in pages} == {".html", ".md"}
    assert not [path for path in pages if "--study /" in path.read_text()]


@pytest.mark.usefixtures("blank_figures")
def test_paths_of_the_machine_are_not_published(site, tmp_path):
    packed, source = tmp_path / "packed.parquet", site / "docs/mine/mine.parquet"
    rows = pyarrow.parquet.read_table(source).to_pylist()
    record = {
        **json.loads(rows[0]["run_json"]),
        **{"host": "here", "attempts": [{"status": "failed", "host": "here"}]},
        "provenance": {
            **{"host": "here", "executable": "/where/it/is/python"},
            **{"command": ["worker.py", "/where/it/is/seed=0"], "preloaded": ["/where/malloc.so"]},
        },
    }
    damaged = [{**rows[1], "run_json": text} for text in ('["/where"]', '{"attempts": [1]}', "{")]
    names = [{"folder": f"damaged{i}", "not_used_because": "damaged"} for i in range(3)]
    lost = [{**row, **name} for row, name in zip(damaged, names, strict=True)]
    write_rows([{**rows[0], "run_json": json.dumps(record)}, *rows[1:], *lost], packed)
    alone = ["--jobs", "1"]
    assert main(["study", "publish", str(packed), str(tmp_path / "to"), *alone]) == 0
    published = (tmp_path / "to/packed.parquet").read_bytes()
    found = pyarrow.parquet.read_table(tmp_path / "to/packed.parquet")["run_json"].to_pylist()
    found = [one for one in found if one is not None]
    assert (
        len(found) == len(rows) and "here" not in "".join(found) and "/where" not in "".join(found)
    )
    assert any('["worker.py", "seed=0"]' in one and '"malloc.so"' in one for one in found)
    assert (
        main(
            ["study", "publish", str(tmp_path / "to/packed.parquet"), str(tmp_path / "to"), *alone]
        )
        == 0
    )
    assert (tmp_path / "to/packed.parquet").read_bytes() == published


def test_published_scores_are_means_of_the_file(site):
    rows = pyarrow.parquet.read_table(site / "docs/mine/mine.parquet").to_pylist()
    found = {
        (f"scores_{algorithm}", row["framework"]): float(row["Hopper-v5 mean"])
        for algorithm in LEVELS
        for row in table(site, f"scores_{algorithm}")
    }
    assert len(found) == 6
    for (name, framework), mean in found.items():
        scores = [
            row["final_score"]
            for row in rows
            if (f"scores_{row['algorithm']}", row["framework"]) == (name, framework)
            and row["not_used_because"] is None
        ]
        assert mean == pytest.approx(np.mean(scores), rel=1e-9)


def test_findings_follow_the_rule_and_have_n_and_interval(site, page):
    pairs = table(site, "consistency")
    findings = re.findall(r"^\d\. (.*)$", page.replace("\\", ""), re.M)
    assert len(findings) == 3
    for finding in findings:
        assert re.search(r"by [\d.]+, 95% interval \[[-\d., ]+\], n = \d+ and \d+", finding)

    def size(pair):
        return abs(float(pair["difference"])) / float(pair["margin"])

    largest = max((pair for pair in pairs if pair["verdict"] == "different"), key=size)
    assert f"{abs(float(largest['difference'])):.0f}, 95%" in findings[0]
    open_ones = [pair for pair in pairs if pair["verdict"] == "inconclusive"]
    widest = max(open_ones, key=lambda p: (float(p["high"]) - float(p["low"])) / float(p["margin"]))
    low, high = map(float, re.findall(r"interval \[(.*?), (.*?)\]", findings[2])[0])
    width = float(widest["high"]) - float(widest["low"])
    assert high - low == pytest.approx(width, rel=0.01)
    assert f"{len(open_ones)} of {len(pairs)} pairs are inconclusive" in findings[2]
    readme = (site / "README.md").read_text().replace("\\", "")
    assert all(finding in readme for finding in findings)


def test_pairs_have_rows_with_intervals_and_algorithms_have_counts(site, page):
    pairs = table(site, "consistency")
    rows = re.findall(r"^\| \w+ - \w+ .*$", page, re.M)
    found = {tuple(cell.strip() for cell in row.strip("|").split("|")) for row in rows}
    assert len(found) == len(pairs) == 6
    sizes = {float(cells[1].replace(",", "")) for cells in found}
    expected = {float(f"{float(pair['difference']):.4g}") for pair in pairs}
    assert sorted(sizes) == pytest.approx(sorted(expected), rel=1e-3)
    for item in iterate_some(table(site, "omnibus")):
        words = f"{item['verdict']}; {item['significant_uncorrected']} of {item['pairs']} pairs"
        assert words in page and "if nothing differed" in page


@pytest.mark.usefixtures("blank_figures")
def test_means_of_equal_runs_are_labeled(site, page, tmp_path, writer, monkeypatch):
    assert "of equal runs" not in page
    monkeypatch.chdir(tmp_path)
    for seed in range(2):
        writer(tmp_path / "results", score=1000.0, seed=seed, variant=VARIANT)
    assert main(["study", "pack", "results/demo", "--output", "flat.parquet"]) == 0
    assert main(["study", "publish", "flat.parquet", "to", "--jobs", "1"]) == 0
    assert "1 mean of equal runs, such as those" in (tmp_path / "to/README.md").read_text()


def test_partial_study_is_labeled_as_partial(site, page):
    found = "**This is a part of the study:** 24 of the 52 runs that `grid.yaml` plans"
    assert "24 runs requested, 23 completed, 23 used" in page and found in page
    assert found in (site / "README.md").read_text()
    rows = {
        (row["algorithm"], row["env"], row["hps"], row["framework"]): row
        for row in table(site, "runs")
    }
    assert [
        rows["td3", "Hopper-v5", "original", "cleanrl"][n] for n in ("planned", "requested", "used")
    ] == ["4", "4", "3"]
    assert rows["ppo", "Hopper-v5", "sb3", "sb3"]["requested"] == "0"
    assert "parallax train -m study=grid algorithm=ppo,td3 env=Hopper-v5 hps=original\n" in page


def test_findings_state_no_causes(site, page):
    causal = r"\b(because|causes?|caused|due to|owing to|leads? to|thanks to|explains?|effect of)\b"
    for text in (page, (site / "README.md").read_text()):
        assert not re.search(causal, text, re.I)


def test_page_has_the_ranking_and_published_numbers(page):
    ranking = page.partition("## Does the ranking")[2].partition("\n## ")[0]
    assert "does not hold" in ranking and "n = 3 to 4" in ranking
    assert re.search(r"\| TorchRL .*\*\*[\d.]+ \\\[", ranking)
    published = page.partition("## What was published")[2].partition("\n## ")[0]
    assert "Nothing comparable is published" in published


def test_figures_without_sufficient_data_are_omitted(page):
    shown = set(re.findall(r"figures/([a-z]+)", page))
    assert shown == {"overview", "verdicts", "intervals", "consistency", "ranks"}


def test_only_text_between_the_marks_is_replaced(site):
    readme = (site / "README.md").read_text().replace("\\", "")
    assert readme.startswith(f"# Mine\n\n{SECTION_BEGIN}\n## Mine\n")
    assert readme.endswith(f"\n{SECTION_END}\n\n## Behind\n")
    assert "](docs/mine/figures/overview.png)" in readme


def test_a_readme_without_marks_is_refused_before_anything_is_written(site, tmp_path, capsys):
    readme = tmp_path / "README.md"
    readme.write_text("# Mine\n")
    words = [str(site / "mine.parquet"), str(tmp_path / "to"), "--readme", str(readme)]
    assert main(["study", "publish", *words]) == 2
    assert SECTION_BEGIN in capsys.readouterr().err
    assert not (tmp_path / "to").exists() and readme.read_text() == "# Mine\n"


def test_foreign_page_is_not_overwritten(site, tmp_path, capsys):
    page = tmp_path / "README.md"
    page.write_text("# Mine\n")
    assert main(["study", "publish", str(site / "mine.parquet"), str(tmp_path)]) == 2
    assert f"{page}: there is a page already" in capsys.readouterr().err
    assert page.read_text() == "# Mine\n" and not (tmp_path / "tables").exists()
    os.truncate(page, 2**40)  # none of its bytes is on the disk
    assert main(["study", "publish", str(site / "mine.parquet"), str(tmp_path)]) == 2
    assert f"{page} cannot be read (is too large: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["results/demo", "to"], "give a file of packed runs: parallax study pack RESULTS"),
        (["mine.parquet", "to", "--grid", "none.yaml"], "--grid=none.yaml: "),
        (["mine.parquet", "to", "--grid", "README.md"], "--grid=README.md: it is not valid YAML: "),
        (["mine.parquet", "to", "--grid", "empty.yaml"], "it holds no hydra.sweeper.params"),
        (["mine.parquet", "to", "--crossed", "mine.parquet"], "no task has two seeds of each"),
        (["mine.parquet", "to", "--control", "sb3,tensorforce"], "tensorforce has no runs. Framew"),
        (["mine.parquet", "to", "--control", "sb3"], "--control=sb3: a control needs two"),
        (
            ["mine.parquet", "to", "--longer", "mine.parquet"],
            "no run has the settings of the study",
        ),
        (["mine.parquet", "to", "--grid", "other.yaml"], "it sweeps replay; a grid has"),
    ],
)
def test_bad_input_is_one_message(site, monkeypatch, words, message, capsys):
    monkeypatch.chdir(site)
    (site / "empty.yaml").write_text("steps: 2000\n")
    (site / "other.yaml").write_text(GRID.replace("hyperparameters.gamma: 0.9", 'replay: "a,b"'))
    assert main(["study", "publish", *words]) == 2
    assert message in capsys.readouterr().err
    assert not (site / "to").exists()


@pytest.mark.parametrize("closed", ["to", "to/tables", "to/figures", "sections"])
def test_nothing_is_written_where_a_folder_is_closed(site, tmp_path, monkeypatch, closed, capsys):
    readme = tmp_path / "sections/README.md"
    for name in ("to/tables", "to/figures", "sections"):
        (tmp_path / name).mkdir(parents=True)
    readme.write_text(f"{SECTION_BEGIN}\n{SECTION_END}\n")
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr("os.access", lambda path, mode: path != tmp_path / closed)
    words = [str(site / "mine.parquet"), str(tmp_path / "to"), "--readme", str(readme)]
    assert main(["study", "publish", *words]) == 2
    assert f"{tmp_path / closed}: cannot be written: " in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["tables", "figures"])
def test_nothing_is_written_through_a_link_in_the_folder(site, tmp_path, name, capsys):
    (tmp_path / "elsewhere").mkdir()
    place = tmp_path / "to" / name
    place.parent.mkdir()
    place.symlink_to(tmp_path / "elsewhere")
    assert main(["study", "publish", str(site / "mine.parquet"), str(tmp_path / "to")]) == 2
    assert f"{place} is a link: delete it, or give another folder." in capsys.readouterr().err
    assert not list((tmp_path / "elsewhere").iterdir()) and list(place.parent.iterdir()) == [place]


@pytest.mark.usefixtures("blank_figures")
def test_all_files_of_a_publication_are_written_or_none(site, tmp_path, capsys):
    place = tmp_path / "to/report.html"
    place.mkdir(parents=True)
    words = [str(site / "mine.parquet"), str(tmp_path / "to"), "--html", "--jobs", "1"]
    assert main(["study", "publish", *words]) == 2
    assert f"{place}: cannot be written: it is a folder" in capsys.readouterr().err
    assert list(place.parent.iterdir()) == [place]


def test_further_files_are_scored_by_the_endpoint_of_the_study(site, tmp_path, writer, monkeypatch):
    writer(tmp_path / "more", endpoint="auc", variant=VARIANT)
    path = tmp_path / "crossed.parquet"
    assert main(["study", "pack", str(tmp_path / "more"), "--output", str(path)]) == 0
    found = []
    monkeypatch.setattr(
        "parallax.analysis.commands.publish.judge_crossed_designs",
        lambda _, options: found.append(options.endpoint),
    )
    words = [str(site / "mine.parquet"), str(tmp_path / "to"), "--crossed", str(path)]
    assert main(["study", "publish", *words]) == 2 and found == ["final"]


def test_unused_runs_of_further_files_are_named(site, tmp_path, writer, capsys):
    writer(tmp_path / "more", status="failed", failure="boom", variant=VARIANT)
    path = tmp_path / "crossed.parquet"
    assert main(["study", "pack", str(tmp_path / "more"), "--output", str(path)]) == 0
    words = [str(site / "mine.parquet"), str(tmp_path / "to"), "--crossed", str(path)]
    assert main(["study", "publish", *words]) == 2
    assert f"{path}: Not used: 1 of 1 runs: " in capsys.readouterr().out


def test_numbers_are_cut_to_ten_digits():
    found = "a=1.2345678901234567,-0.00012345678901234,1e-05,v1.2.3456789,2.5,123456.78901234567\n"
    cut = "a=1.23456789,-0.000123456789,1e-05,v1.2.3456789,2.5,123456.789\n"
    assert round_to_ten_digits(found) == cut


def test_commands_train_exactly_the_given_runs():
    grid = read_grid(ROOT / "harness/conf/study/short_runs.yaml")
    assert grid.format_commands(grid.runs) == ("parallax train -m study=short_runs",)
    rng = np.random.default_rng(0)
    for share in (0.02, 0.3, 0.9):
        settings = sorted({run.setting for run in grid.runs})
        seeds = {setting: rng.integers(1, 11) for setting in settings if rng.random() < share}
        made = {run for run in grid.runs if run.seed < seeds.get(run.setting, 0)}
        assert {
            run for line in grid.format_commands(made) for run in picked(grid.runs, line)
        } == made


def picked(runs: frozenset[RequestedRun], command: str) -> set[RequestedRun]:
    """Return the runs that a sweep of a study selects from its grid."""
    values = dict(word.split("=") for word in command.split()[3:])
    assert values.pop("study") == "short_runs" and set(values) <= set(AXIS_NAMES)
    requested = {name: text.split(",") for name, text in values.items()}
    return {
        run for run in runs if all(str(getattr(run, name)) in requested[name] for name in requested)
    }


def test_reports_of_published_studies_hold_no_errors():
    pages = [path for folder in PUBLISHED for path in folder.glob("report.html")]
    assert pages
    for path in pages:
        text = path.read_text()
        assert "Errno" not in text and "cannot be read" not in text, path


def test_counts_of_runs_keep_studies_and_variants_apart(tmp_path, writer):
    for count, (study, variant, framework) in enumerate(
        [("a", "gamma=0.8", "sb3"), ("a", "gamma=0.9", "sb3"), ("b", "gamma=0.9", "cleanrl")], 1
    ):
        for seed in range(count):
            writer(tmp_path, study=study, variant=variant, framework=framework, seed=seed)
    loaded = load_runs(tmp_path)
    rows = count_runs_by_setting(loaded, None)
    counted = [(row["study"], str(row["variant"])[:9], row["used"]) for row in rows]
    assert counted == [("a", "gamma=0.8", 1), ("a", "gamma=0.9", 2), ("b", "gamma=0.9", 3)]
    assert [row[3:6] for row in make_counts_grid(loaded, None).rows] == [
        ("study a, gamma=0.8", "SB3", "1"),
        ("study a, gamma=0.9", "SB3", "2"),
        ("study b, gamma=0.9", "CleanRL", "3"),
    ]


def test_planned_runs_have_their_own_row_if_variants_differ(tmp_path, writer):
    for variant, seed in (("gamma=0.8", 0), ("gamma=0.9", 0), ("gamma=0.9", 1)):
        writer(tmp_path, variant=variant, seed=seed)
    loaded = load_runs(tmp_path)
    cell, own = loaded.folders[0].id.cell, loaded.folders[0].id.framework
    planned = frozenset(
        RequestedRun(cell.algorithm, cell.env, cell.hps, framework, seed)
        for framework in (own, "torchrl")
        for seed in range(4)
    )
    rows = count_runs_by_setting(loaded, StudyGrid("plan", Path("plan.yaml"), planned))
    counted = [(r["framework"], str(r["variant"])[:9], r["planned"], r["used"]) for r in rows]
    assert sorted(counted) == [
        (own, "", 4, 0),
        (own, "gamma=0.8", 0, 1),
        (own, "gamma=0.9", 0, 2),
        ("torchrl", "", 4, 0),
    ]


def test_planned_runs_alone_add_no_column_of_settings(tmp_path, writer):
    writer(tmp_path, variant="gamma=0.9")
    loaded = load_runs(tmp_path)
    cell, framework = loaded.folders[0].id.cell, loaded.folders[0].id.framework
    planned = {
        RequestedRun(cell.algorithm, env, cell.hps, framework, 0) for env in (cell.env, "Other-v1")
    }
    grid = make_counts_grid(loaded, StudyGrid("plan", Path("plan.yaml"), frozenset(planned)))
    assert "settings" not in grid.heads
    assert [row[1::3] for row in grid.rows] == [(cell.env, "1", "1"), ("Other-v1", "1", "0")]
