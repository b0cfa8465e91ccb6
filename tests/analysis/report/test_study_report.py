import html.parser
import re
import urllib.parse

import pytest

from parallax.analysis.data.load import load_runs
from parallax.analysis.report.render_html import make_page_context
from parallax.analysis.report.sections.runs import find_videos
from parallax.harness.cli.main import main


class Page(html.parser.HTMLParser):
    """Collects the elements that tests check."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="session")
def source(report):
    return report.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def page(source):
    return Page(source)


def test_nothing_is_loaded_from_elsewhere(page, source):
    assert all(image["src"].startswith("data:image/webp;base64,") for image in page.all("img"))
    assert len(page.all("img")) > 20
    assert not page.all("link")
    assert not any("src" in script for script in page.all("script"))
    assert "default-src 'none'" in source
    assert not re.search(r"url\(|@import|https?://", re.sub(r"base64,[^\"]+", "", source))


def test_every_link_inside_the_page_has_its_target(page):
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)
    inside = [a["href"] for a in page.all("a") if a["href"].startswith("#")]
    assert {address[1:] for address in inside} <= set(ids)
    groups = {row["data-g"] for row in page.all("tr") if "data-g" in row}
    named = {number for a in page.all("a") for number in a.get("data-groups", "").split()}
    assert named <= groups


def test_every_run_folder_is_linked_by_a_relative_address(page, report, study):
    links = [a["href"] for a in page.all("a") if not a["href"].startswith("#")]
    found = {(report.parent / urllib.parse.unquote(link)).resolve() for link in links}
    assert found == {path.parent for path in study.resolve().rglob("run.json")}
    assert links and not any(link.startswith(("/", "file:")) for link in links)


def test_existing_videos_are_linked(results, make_run):
    film = make_run() / "best of.mp4"
    film.touch()
    page = make_page_context([], results / "analysis", {})
    (path,) = find_videos(load_runs(results).root)
    address = page.get_address(path)
    assert (page.page_folder / urllib.parse.unquote(address)).resolve() == film.resolve()


def test_the_page_says_what_is_missing_and_why(page):
    text = " ".join("".join(page.text).split())
    assert "failed: ValueError: loss is not finite" in text
    assert "too short: last evaluation at step" in text
    assert re.search(r"Not used: \d+ run folders: \d+ failed", text)
    assert re.search(r"though another framework has the seed: \d+ settings", text)


def test_text_comes_before_figures_and_tables(source):
    places = [source.index(f'id="{name}"') for name in ("answers", "study", "reproduction")]
    assert places == sorted(places)
    assert source.index("<img") > source.index('id="do-frameworks-rank-the-algorithms-alike"')


def test_a_second_report_is_the_same_to_the_byte(results, make_run, tmp_path, monkeypatch):
    for framework in ("sb3", "cleanrl"):
        for seed in range(2):
            make_run(framework=framework, seed=seed, score=100 + seed)
    contents = []
    for jobs in ("1", "2"):
        assert main(["report", str(results), "--jobs", jobs]) == 0
        contents.append((results / "analysis" / "report.html").read_bytes())
    assert contents[0] == contents[1]


@pytest.mark.usefixtures("blank_figures")
def test_reproduction_command_has_all_chosen_options(results, make_run, capsys):
    make_run(study="it's")
    words = ["report", str(results), "--interval", "thesis", "--margin", "0.2", "--jobs", "1"]
    assert main(words) == 0
    assert capsys.readouterr().out == f"Report: {results}/analysis/report.html\n"
    text = "".join(Page((results / "analysis" / "report.html").read_text()).text)
    assert f"parallax report {results} --interval thesis --margin 0.2\n" in text + "\n"


@pytest.mark.usefixtures("blank_figures")
def test_names_of_folders_are_escaped_on_the_page(results, make_run):
    make_run(env="<script>alert(1)</script>-v0".replace("/", "|"), hps='"><img src=x>')
    assert main(["report", str(results), "--jobs", "1"]) == 0
    found = Page((results / "analysis" / "report.html").read_text())
    assert len(found.all("script")) == 1
    assert all(image["src"].startswith("data:") for image in found.all("img"))


def test_a_study_without_a_usable_run_still_gives_a_page(results, make_run):
    make_run(status="running")
    assert main(["report", str(results), "--jobs", "1"]) == 0
    text = "".join(Page((results / "analysis" / "report.html").read_text()).text)
    assert "Not used: 1 run folder: 1 running" in " ".join(text.split())


def test_figures_of_runs_link_to_the_runs(source):
    figures = source.split("<figure ")[1:]
    assert len(figures) > 3
    for part in figures:
        name, caption = part[4:].partition('"')[0], part.partition("<figcaption>")[2]
        linked = 'class="runs"' in caption.partition("</figcaption>")[0]
        assert linked, name


def test_the_page_lists_what_the_diagnosis_found(page):
    assert [a for _, a in page.tags if a.get("id") == "diagnosis"]
    text = " ".join("".join(page.text).split())
    assert re.search(r"1 of \d+ run folders have a diagnosis", text)
    assert "1 with errors, 0 with warnings" in text and "bad-weights" in text
