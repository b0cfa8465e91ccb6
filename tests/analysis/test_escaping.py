"""Names from runs are text and nothing else, in every format."""

import csv
import html.parser
import io
import json
import re
from pathlib import Path

import pytest
from markupsafe import Markup

from parallax.analysis.escaping import escape_controls, finish_markdown, format_csv, format_table
from parallax.analysis.report.sections.scores import escape_latex
from parallax.harness.cli.main import main

NAMES = [
    "<img src=x onerror=alert(1)>",
    "</td><script>alert(1)</script>",
    "a`<b>`c",
    "`<i>",
    "\\<u>",
    "\\\\<u>",
    "[x](javascript:alert(1))",
    "![x](https://else.where/p.png)",
    "[x](//else.where)",
    "[x](&#106;avascript:alert(1))",
    "[x\\\\](https://else.where)",
    "[x]: https://else.where",
    "- [x]: www.else.where",
    "=1+1",
    "+1+1",
    "-1+1",
    "@SUM(A1)",
    "a|b",
    "$x$",
    "$$\\href{https://else.where}{x}$$",
    "$`x`$",
    "\\$x\\\\$",
    "a\nb\r\n# c",
    "<!-- parallax study publish: end -->",
    "```",
]


def tags(text):
    """Tags that a page in Markdown has outside code, as a browser would take them."""
    found = []
    parser = html.parser.HTMLParser()
    parser.handle_starttag = lambda tag, _: found.append(tag)
    parser.handle_comment = found.append
    for line in re.sub(r"(?ms)^```.*?^```$", "", text).splitlines():
        parser.feed(re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", re.sub(r"\\.", "", line)) + "\n")
    return set(found) - {"details", "summary"}


@pytest.mark.parametrize("name", NAMES)
def test_names_are_shown_on_pages_and_not_interpreted(name):
    page = finish_markdown(f"# The study {name}\n\n{format_table([[name, 'b']], ['x', 'y'])}\n")
    assert not tags(page)
    assert not re.search(r"(?<!\\)(?:\\\\)*\]\((?!\\)", page)
    assert finish_markdown(page) == page and not re.search(r"://|www\.", page)
    assert not re.match(r"- \[[^]]*\]:", finish_markdown(f"{name}\n"))
    (row,) = [line for line in page.splitlines() if line.startswith("|")][2:]
    assert len(re.findall(r"(?<!\\)\|", row)) == 3
    assert "$" not in re.sub(r"\\.", "", page)  # which repositories read as mathematics


def test_generated_markup_is_not_escaped():
    page = (
        "# A\n\n<details><summary>All</summary>\n\n`a <b> c` and ``x`<i>`` [b](tables/b.csv) "
        "[c](#c) ![d](figures/d.png) p < 0.0001 \\[1, 2]\n\n```sh\nparallax <x> [y](http://z)\n"
        "```\n\n</details>\n"
    )
    assert finish_markdown(page) == page


@pytest.mark.parametrize("name", [*NAMES, "\t=1", "\r=1", "\uff1d1", "\uff201"])
def test_no_cell_of_a_csv_is_a_formula(name):
    text = format_csv([["name", "value"], [name, "-1.5e-07"], [name, -2]])
    rows = list(csv.reader(io.StringIO(text)))
    assert [row[1] for row in rows] == ["value", "-1.5e-07", "-2"]
    assert all(row[0][0] not in "=+-@\t\r\uff1d\uff20" and "\n" not in row[0] for row in rows)


@pytest.mark.parametrize("name", NAMES)
def test_latex_finds_no_commands_in_a_name(name):
    text = escape_latex(name + "\\input{x}%$&#_{}~^")
    assert not re.search(r"(?<!\\)[%$&#_]", text) and "\\input" not in text


FRAMEWORKS = ("sb3", "<img src=x>", "=1+1", "[x](https://else.where)")


@pytest.mark.usefixtures("blank_figures")
def test_names_of_runs_are_escaped_on_published_pages(tmp_path, make_run, results, monkeypatch):
    monkeypatch.chdir(tmp_path)
    variant = "steps=20000,eval_every=2000,eval_episodes=4,x=<i>|`<u>`"
    odd = {"study": "<b>&study", "variant": variant, "hps": "@hps", "overridden": ["x"]}
    for framework in FRAMEWORKS:
        for env in ("<svg onload=x>", "-1+1|b"):
            for seed in range(3):
                place = {"framework": framework.replace("/", "~"), "env": env, "seed": seed}
                values = {
                    "hyperparameters": {"<q>": "<s>", "gamma": f"=<p>{seed}", "x": "<i>|`<u>`"}
                }
                make_run(**odd, **place, **values, score=100 + seed)
    make_run(**odd, seed=9, status="failed", failure="<h1>=failed|[x](https://else.where)")
    assert main(["study", "pack", str(results), "--output", "mine.parquet"]) == 0
    folder = tmp_path / "docs"
    (tmp_path / "README.md").write_text(
        "<!-- parallax study publish: begin (edits here are lost) -->\n"
        "<!-- parallax study publish: end -->\n"
    )
    grid = tmp_path / "outside" / "grid.yaml"
    grid.parent.mkdir()
    grid.write_text(
        "hydra: {sweeper: {params: {algorithm: ppo, env: A-v1, hps: x, framework: sb3, seed: 1}}}"
    )
    words = ["--readme", str(tmp_path / "README.md"), "--html", "--jobs", "1", "--grid", str(grid)]
    assert main(["study", "publish", str(tmp_path / "mine.parquet"), str(folder), *words]) == 0
    page = (folder / "README.md").read_text()
    assert "`outside/grid.yaml`" in page and "--grid outside/grid.yaml" in page
    assert main(["report", "mine.parquet", "--output", "r", "--markdown", "--jobs", "1"]) == 0
    assert main(["compare", "mine.parquet", "--output", "c"]) == 0
    assert main(["study", "verdicts", "--tables", "mine.parquet", "--output", "t"]) == 0
    pages = [*tmp_path.rglob("*.md")]
    assert len(pages) > 4
    for path in pages:
        text = path.read_text()
        if path == tmp_path / "README.md":
            text = "\n".join(text.splitlines()[1:-1])
        assert not tags(text), path
        assert not re.search(r"(?<!\\)\]\(https", text), path
        assert str(tmp_path) not in text or path.is_relative_to(tmp_path / "r"), path
    assert str(tmp_path) not in (folder / "report.html").read_text()
    for path in (folder / "report.html", tmp_path / "r/report.html"):
        text = path.read_text()
        assert not re.search(r"<(img src=x|svg onload|b>&|h1>=|q>|s>|i>\|)", text)
    tables = [*tmp_path.rglob("*.csv")]
    assert len(tables) > 10
    for path in tables:
        for row in csv.reader(path.open()):
            for cell in row:
                number = re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?|-|-inf|", cell)
                assert number or cell[0] not in "=+-@\t\r", (path, cell)


def test_names_in_a_record_make_no_lines_and_no_control_characters(results, make_run, capsys):
    odd = "\x1b[2J\u202e\nForged: all"
    for number, framework in enumerate(("sb3", "cleanrl", "sb3", "cleanrl")):
        folder = make_run(framework=framework, seed=number // 2, score=number)
        content = json.loads((folder / "run.json").read_text())
        values = {f"gamma{odd}": number}
        content["spec"] |= {f"x{odd}": number}
        packages = {f"torch{odd}": f"{number}{odd}"}
        content |= {"hyperparameters": values, "provenance": {"packages": packages}}
        (folder / "run.json").write_text(json.dumps(content))
    commands = [["compare"], ["report", "--markdown"], ["study", "verdicts"]]
    assert [main([*words, str(results)]) for words in commands] == [0, 0, 0]
    pages = [
        path.read_text()
        for path in (results / "analysis").rglob("*.*")
        if path.is_file() and path.suffix in (".md", ".csv", ".html")
    ]
    for text in (capsys.readouterr().out, *pages):
        assert "\x1b" not in text and "\u202e" not in text
        assert not any(line.startswith("Forged") for line in text.splitlines())
    assert any("gamma\\x1b[2J\\u202e\\nForged" in text.replace("\\\\", "\\") for text in pages)


def test_pages_have_no_control_characters_but_in_their_own_markup():
    assert escape_controls("a\x1b[2J\u202eb\n\tc\xa0") == "a\\x1b[2J\\u202eb\n\tc\xa0"
    assert escape_controls(Path("a\x07")) == "a\\x07"
    assert (
        escape_controls("a\u200bb\u061c\u2028\ufeff\u3164") == r"a\u200bb\u061c\u2028\ufeff\u3164"
    )
    assert escape_controls(markup := Markup("<b>\x1b")) is markup and escape_controls(3) == 3
