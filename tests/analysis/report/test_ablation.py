"""A page tells what ablations found, out of their files."""

import csv
import dataclasses
import json
import math
import shutil
from pathlib import Path

import pytest

from parallax.analysis.data.load import load_runs
from parallax.analysis.data.runs import LoadedRuns
from parallax.analysis.report.render_markdown import render_blocks
from parallax.analysis.report.sections import ablation
from parallax.analysis.report.sections.ablation import (
    find_explanations,
    list_explanations,
    make_ablation_reports,
    make_ablation_section,
)
from parallax.analysis.verdicts.ablation import judge_ablations
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.harness.cli.main import main

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def published(tmp_path_factory, draw_blank):
    """A study published with an ablation of PPO, which is the study too."""
    root = tmp_path_factory.mktemp("causes")
    shutil.copy(DOCS / "clipping.parquet", root / "clipping.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        draw_blank(patch)
        words = ["--ablation", "clipping.parquet", "--html", "--jobs", "1"]
        assert main(["study", "publish", "clipping.parquet", "docs/mine", *words]) == 0
    return root / "docs/mine"


@pytest.fixture(scope="module")
def target():
    """Runs of DQN as it is, with another interval of the target, and of CleanRL."""
    return load_runs(DOCS / "target.parquet")


def render(blocks):
    return "\n\n".join(render_blocks(blocks))


def only(loaded, keep):
    """Some of the runs."""
    return dataclasses.replace(loaded, runs=tuple(run for run in loaded.runs if keep(run)))


def make_reports(
    loaded: LoadedRuns, study: LoadedRuns | None = None, options: VerdictOptions | None = None
):
    return make_ablation_reports("a.parquet", loaded, options or VerdictOptions(), study or loaded)


def test_page_lists_effects_with_share_interval_and_pairs(published):
    text = (published / "README.md").read_text()
    rows = list(csv.DictReader((published / "tables/causes.csv").open()))
    (both,) = [row for row in rows if "+" in row["intervention"]]
    assert both["verdict"] == "changes" and both["pairs"] == "10"
    effect, share = float(both["effect"]), float(both["share"])
    assert float(both["share_low"]) < share < float(both["share_high"])  # numbers, not their names
    (line,) = [line for line in text.splitlines() if line.startswith("| `separate-grad-clip`, ")]
    assert f"+{effect:.1f} \\[" in line and f"{share:.0%} \\[" in line and "10/10/10" in line
    assert f"their single effects add up to {float(both['sum_of_parts']):+.4g}" in line
    assert "- `actor-output-gain-1`: The last layer of PPO's policy begins" in text
    top = text[: text.index("## Verdicts")]
    assert "explained by ablations (" in top and f"{share:.0%} \\[" in top and "n = 10 pairs" in top
    assert "of which none has an effect alone" in top and "the ablations below do" in top
    assert list((published / "figures").glob("ablation_*.png"))
    assert "--ablation clipping.parquet" in text and "10 of them in the study too" in text


def test_report_page_has_the_same_findings_and_the_figure(published):
    text = (published / "report.html").read_text()
    assert "[report.html](report.html)" in (published / "README.md").read_text()
    answers, _, rest = text.partition('<section id="study">')
    section = rest[
        rest.index('<section id="causes-of-differences-by-ablation">') : rest.index(
            '<section id="others">'
        )
    ]
    assert (
        "Some differences are explained by ablations" in answers
        and "<code>separate-grad-clip</code>" in answers
    )
    (row,) = [line for line in section.splitlines() if "their single effects add up to" in line]
    assert '<td>changes</td><td class="wrap">10/10/10, 10 pairs, 6 at' in row and "\\" not in row
    assert section.count('<figure id="figure-ablation_') == 1


def test_a_change_that_closes_two_gaps_is_one_sentence(target):
    others = [
        dataclasses.replace(run, id=dataclasses.replace(run.id, framework="torchrl"))
        for run in target.runs
        if run.id.framework == "cleanrl"
    ]
    found = make_reports(dataclasses.replace(target, runs=(*target.runs, *others)))
    names = [[name for name, _ in change.parts] for _, change in find_explanations(found)]
    assert len(names) == 2 and names[0] != names[1]
    short = find_explanations(found, is_short=True)
    assert [[name for name, _ in change.parts] for _, change in short] == names[1:]
    for words, texts in (("of its gap to", short), ("of the gap to", find_explanations(found))):
        for text, _ in texts:
            assert text.count(words) == 2 and "CleanRL" in text and "TorchRL" in text


def test_change_that_removes_a_lead_is_described(target):
    (one,) = make_reports(target)
    (gap,), effect = one.item.gaps, one.item.effects[0]
    ahead = dataclasses.replace(gap, result=dataclasses.replace(gap.result, difference=-1.0))
    for each, words in ((gap, "closes"), (ahead, "loses")):
        text = ablation._format_short_explanation(one, effect, [each], one.changes[0])
        assert f"CartPole-v1 {words} " in text
        assert f"of its {'gap to' if words == 'closes' else 'advantage over'} CleanRL" in text


def test_equal_differences_are_named_as_the_reason_for_no_test(target):
    item = judge_ablations(target, VerdictOptions())[0]
    effect = item.single_effects[0]
    result = dataclasses.replace(effect.result, low=99.6, high=99.6, p=math.nan)
    for one, reason in ((result, True), (effect.result, False)):
        changed = dataclasses.replace(effect, result=one, verdict="inconclusive")
        lines = ablation.format_ablation(dataclasses.replace(item, effects=(changed,)))
        assert any("all differences are equal" in line for line in lines) is reason


def test_inconclusive_or_opposite_effects_are_no_cause(target):
    (one,) = make_reports(target)
    assert len(one.changes) == 6
    most, alone = (change for _, change in find_explanations([one]))  # of all, and of one thing
    assert len(most.parts) == 5 and [name for name, _ in alone.parts] == ["snu-500"]
    strict = make_reports(target, options=VerdictOptions(alpha=1e-9))
    assert render([list_explanations([one])]).count("corrected p") == 2  # one for each sentence
    assert "sign flips" not in render([list_explanations([one])])
    assert list_explanations(strict) is None and len(strict[0].changes) == 6
    names = {run.id.framework for run in target.runs}
    (bare,) = make_reports(only(target, lambda run: run.id.framework == "sb3"))
    assert names == {"sb3", "cleanrl"} and find_explanations([bare]) == () and bare.item.gaps == ()
    low = [
        dataclasses.replace(run, results=run.results * (0.01 if "cleanrl" in str(run.id) else 1))
        for run in target.runs
    ]
    away = make_reports(dataclasses.replace(target, runs=tuple(low)))
    assert away[0].item.effects[0].verdict == "changes" and find_explanations(away) == ()


def test_settings_without_study_runs_are_named_and_not_headline_findings(target):
    (one,) = make_reports(target, load_runs(DOCS / "clipping.parquet"))
    assert not one.in_study and find_explanations([one]) == ()
    assert "The study has no runs in this setting." in render([make_ablation_section([one])])
    assert "in the study too" not in one.base


def test_share_of_fewer_seeds_states_their_number(target):
    few = only(target, lambda run: run.id.framework == "sb3" or run.id.seed < 4)
    (one,) = make_reports(few)
    assert one.changes[0].shares[0].endswith("4 pairs") and "10 pairs" in one.changes[0].runs


def test_description_of_a_change_comes_from_its_runs(target):
    def renamed(run):
        record = json.loads(run.record)
        for change in record.get("interventions", {}).values():
            change["does"] = "Something *else* with `marks`."
        return dataclasses.replace(run, record=json.dumps(record))

    runs = tuple(map(renamed, target.runs))
    (one,) = make_reports(dataclasses.replace(target, runs=runs))
    assert "Something \\*else\\* with \\`marks\\`." in render([list_explanations([one])])
    bare = tuple(dataclasses.replace(run, record=None) for run in target.runs)
    (one,) = make_reports(dataclasses.replace(target, runs=bare))
    assert "`no-grad-clip`, `hidden-sizes-120-84` and" in render([list_explanations([one])])
    assert render([list_explanations([one])]).endswith("with `snu-500`.")
    short = render([list_explanations([one], is_short=True)])
    assert "corrected" not in short and "when it is trained with" in short and "`snu-500`." in short


def test_a_file_without_interventions_or_with_the_same_is_refused(
    tmp_path, capsys, monkeypatch, writer
):
    monkeypatch.chdir(tmp_path)
    writer(tmp_path / "results", score=1.0)
    assert main(["study", "pack", "results/demo", "--output", "plain.parquet"]) == 0
    for name in ("one.parquet", "two.parquet"):
        shutil.copy(DOCS / "target.parquet", name)
    cases = {
        ("plain.parquet",): "no framework was trained both without",
        ("no",): "give a file",
        ("one.parquet", "two.parquet"): "is in one.parquet too",
    }
    for files, words in cases.items():
        given = [word for name in files for word in ("--ablation", name)]
        assert main(["study", "publish", "plain.parquet", "out", *given]) != 0
        assert words in capsys.readouterr().err and not Path("out").exists()
