"""A page tells what ablations found, out of their files."""

import csv
import shutil
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.data.load import load
from analysis.report.causes import blocks, causes, decided_block, table
from analysis.verdicts.options import Options

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A study published with an ablation of PPO, which is the study too."""
    root = tmp_path_factory.mktemp("causes")
    shutil.copy(DOCS / "clipping.parquet", root / "clipping.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        words = ["--causes", "clipping.parquet", "--html", "--jobs", "1"]
        assert main(["publish", "clipping.parquet", "docs/mine", *words]) == 0
    return root / "docs/mine"


def test_effects_stand_on_the_page_with_share_interval_and_pairs(published):
    text = (published / "README.md").read_text()
    rows = list(csv.DictReader((published / "tables/causes.csv").open()))
    (both,) = [row for row in rows if "+" in row["intervention"]]
    assert both["verdict"] == "changes" and both["pairs"] == "10"
    effect, share = float(both["effect"]), float(both["share"])
    (line,) = [
        line for line in text.splitlines() if line.startswith("| `networks-clipped-apart`, ")
    ]
    assert f"+{effect:.1f} \\[" in line and f"{share:.0%} \\[" in line and "10 of 10" in line
    assert "- `large-first-actions`: The last layer of PPO's policy begins" in text
    top = text[: text.index("## What is decided")]
    assert "by ablation:" in top and f", {share:.0%} \\[" in top and "n = 10 pairs, with" in top
    assert list((published / "figures").glob("ablation_*.png"))
    assert "--causes clipping.parquet" in text


def test_the_whole_page_tells_the_same_with_the_figure(published):
    text = (published / "report.html").read_text()
    answers, _, rest = text.partition('<section id="study">')
    section = rest[rest.index('<section id="causes">') : rest.index('<section id="others">')]
    assert "by ablation</h3>" in answers and "with <code>networks-clipped-apart</code>: " in answers
    (row,) = [
        line
        for line in section.splitlines()
        if "<td><code>networks-clipped-apart" in line and "together" in line
    ]
    assert "<td>changes</td><td>10 of 10</td>" in row and "\\" not in row
    assert section.count('<figure id="figure-ablation_') == 1


def test_what_is_undecided_is_no_cause():
    loaded = load(DOCS / "clipping.parquet")
    told = decided_block([causes("a.parquet", loaded, Options(alpha=1e-9))])
    assert told == "" and len(table([causes("a.parquet", loaded, Options())])) == 3
    with pytest.raises(ValueError, match="zip"):
        blocks(causes("a.parquet", loaded, Options()), [])


def test_a_file_without_interventions_is_refused(tmp_path, capsys, monkeypatch, writer):
    monkeypatch.chdir(tmp_path)
    writer(tmp_path / "results", score=1.0)
    assert main(["pack", "results/demo", "--output", "plain.parquet"]) == 0
    for name, words in (("plain.parquet", "no framework was trained both"), ("no", "give a file")):
        assert main(["publish", "plain.parquet", "out", "--causes", name]) != 0
        assert words in capsys.readouterr().err and not Path("out").exists()
