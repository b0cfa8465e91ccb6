"""`parallax view`: what pages show, what the server refuses, and the pages in a real browser."""

import html
import http.client
import json
import os
import re
import shutil
import socket
import threading
import urllib.parse

import chromium
import numpy as np
import pytest

from parallax.analysis.commands.common import CommandError
from parallax.analysis.commands.run_browser import RunLibrary, draw_curves, render_index
from parallax.analysis.commands.view import RunServer
from parallax.analysis.data.load import load_runs
from parallax.harness.cli.main import main
from parallax.harness.record.packed import read_rows, write_rows

EVIL = "<script>alert(1)</script>"
REQUIRED = os.environ.get("PARALLAX_REQUIRE_CHROMIUM")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, write_run_folder):
    results = tmp_path_factory.mktemp("studies") / "results"
    for framework, score in (("sb3", 100.0), ("cleanrl", 250.0)):
        for seed in (0, 1):
            write_run_folder(results, framework=framework, seed=seed, score=score + seed)
    write_run_folder(results, study="other", env=EVIL.replace("/", "~"), n_envs=3)
    long = "steps=20000,eval_every=4000,eval_episodes=10,intervention=a-name+another-name"
    write_run_folder(results, seed=7, status="failed", failure=EVIL, variant=long)
    (results / "demo" / "analysis").mkdir()
    page = "<h1>The report</h1><script>document.title = 'ran'</script>"
    (results / "demo" / "analysis" / "report.html").write_text(page)
    return results


@pytest.fixture(scope="module")
def server(folder):
    with RunServer(RunLibrary(folder)) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield found
        found.shutdown()


def get(server, path, host=None, method="GET", secret=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    headers = {} if host is None else {"Host": host}
    own = server.report_secret if path.startswith("report") else server.secret
    prefix = f"/{own if secret is None else secret}"
    connection.request(method, f"{prefix}/{path}", headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), answer.headers


def find_keys(text):
    return re.findall(r'name="run" value="(\w+)"', text)


def test_studies_are_listed_and_filtered(server):
    status, text, headers = get(server, "")
    assert status == 200 and "study?study=demo" in text and "study?study=other" in text
    assert "report?study=demo" in text and "report?study=other" not in text
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "script-src" not in headers["Content-Security-Policy"]
    _, text, _ = get(server, "?q=cleanrl")
    assert "study?study=demo" in text and "study?study=other" not in text
    assert "No study holds" in get(server, "?q=nothing-like-it")[1]


def test_runs_are_listed_filtered_ordered_and_compared(server):
    status, text, _ = get(server, "study?study=demo")
    assert status == 200 and len(find_keys(text)) == 5 and "Open the report" in text
    _, chosen, _ = get(server, "study?study=demo&implementation=CleanRL&order=score")
    assert len(find_keys(chosen)) == 2 and "2 of 5 runs" in chosen
    assert chosen.index(">251.0<") < chosen.index(">250.0<")
    keys = "&".join(f"run={key}" for key in find_keys(text)[:3])
    status, compared, _ = get(server, f"runs?{keys}")
    assert status == 200 and compared.count("<polyline") >= 2 and "framework" in compared


def test_values_from_runs_are_escaped(server):
    pages = ["", "study?study=demo", "study?study=other", "?q=" + urllib.parse.quote(EVIL)]
    for page in pages:
        text = get(server, page)[1]
        assert "<script" not in text
    assert html.escape(EVIL) in get(server, "study?study=demo")[1]


@pytest.mark.parametrize(
    "path",
    [
        "nothing",
        "study",
        "study?study=../demo",
        "study?study=" + "a" * 5000,
        "report?study=other",
        "report?study=..%2f..",
        "report?study=%00",
        "runs?run=zzz",
        "runs",
        "../../etc/passwd",
        "report/../../../etc/passwd",
        "study/demo",
    ],
)
def test_missing_pages_return_404(server, path):
    status, text, _ = get(server, path)
    assert status in (404, 414) and "root:" not in text


def test_requests_for_other_hosts_are_refused(server):
    port = server.server_port
    assert server.server_address[0] == "127.0.0.1"
    assert get(server, "", host=f"localhost:{port}")[0] == 200
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}", ""):
        status, text, _ = get(server, "", host=host)
        assert status == 421 and f"ssh -L {port}:127.0.0.1:{port}" in text
    for secret in ("", "x", server.secret[:-1], server.secret + "x"):
        status, text, _ = get(server, "", secret=secret)
        assert status == 403 and "demo" not in text
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert get(server, "", method=method)[0] == 501
    status, text, _ = get(server, "", method="HEAD")
    assert (status, text) == (200, "")
    own = f"127.0.0.1:{port}"
    for hosts in ((own, "evil.example"), ("evil.example", own)):
        assert b" 421 " in send_request(server, f"/{server.secret}/", hosts)


@pytest.mark.parametrize("path", ["http://[/", "http://[::1/SECRET/", "//[/SECRET/", "/[/", "[?["])
def test_malformed_addresses_are_answered(server, capsys, path):
    path = path.replace("SECRET", server.secret)
    answer = send_request(server, path, [f"127.0.0.1:{server.server_port}"])
    assert b" 403 " in answer and capsys.readouterr().err == ""


def send_request(server, path, hosts):
    """Sends a request that no browser would send, and returns the first line of the answer."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as connection:
        lines = [f"GET {path} HTTP/1.0", *(f"Host: {host}" for host in hosts), "", ""]
        connection.sendall("\r\n".join(lines).encode())
        return connection.makefile("rb").readline()


def test_report_runs_in_a_separate_origin(server, folder, tmp_path):
    status, text, headers = get(server, "report?study=demo")
    assert status == 200 and "The report" in text
    assert "sandbox allow-scripts" in headers["Content-Security-Policy"]
    assert "allow-same-origin" not in headers["Content-Security-Policy"]
    outside = tmp_path / "secret.html"
    outside.write_text("outside")
    place = folder / "other" / "analysis"
    place.mkdir()
    (place / "report.html").symlink_to(outside)
    assert get(server, "report?study=other")[0] == 404
    (place / "report.html").unlink()
    place.rmdir()
    place.symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "report.html").write_text("outside")
    assert get(server, "report?study=other")[0] == 404
    place.unlink()


def test_report_replaced_by_a_link_or_growing_is_not_shown(server, monkeypatch, tmp_path):
    """A link may take the place of a report after the check for links."""
    report = tmp_path / "report.html"
    monkeypatch.setattr(RunLibrary, "find_report", lambda self, study: report)
    (tmp_path / "secret.html").write_text("outside")
    report.symlink_to(tmp_path / "secret.html")
    status, text, _ = get(server, "report?study=demo")
    assert status == 500 and "outside" not in text and "The report is a link" in text
    report.unlink()
    report.write_bytes(b"")
    os.truncate(report, 2**27 + 1)
    assert "The report is too large: 134,217,729 bytes" in get(server, "report?study=demo")[1]


def test_report_address_opens_no_other_file(server):
    assert f'href="../{server.report_secret}/report?study=demo"' in get(server, "")[1]
    assert get(server, "report?study=demo", secret=server.secret)[0] == 403
    for path in ("", "study?study=demo", "runs"):
        assert get(server, path, secret=server.report_secret)[0] == 403


def test_comparison_without_runs_names_the_next_step(server):
    assert "No run is ticked: tick 1 to 12" in get(server, "runs")[1]
    key = find_keys(get(server, "study?study=demo")[1])[0]
    assert get(server, "runs?" + "&".join([f"run={key}"] * 500))[0] == 200


def test_a_study_with_a_too_long_name_hides_no_others(tmp_path, write_run_folder):
    write_run_folder(tmp_path)
    before = write_run_folder(tmp_path, framework="cleanrl", study="other")
    record = json.loads((before / "run.json").read_text())
    record["spec"]["study"] = "\u00e9" * 255
    before = before.rename(tmp_path / "odd")
    (before / "run.json").write_text(json.dumps(record))
    library = RunLibrary(tmp_path)
    assert len(library.studies) == 2
    assert [library.find_report(study) for study in library.studies] == [None, None]


@pytest.mark.parametrize("value", [1e17, -1e17, 3e38, 5.0, 0.0])
def test_equal_returns_of_any_size_are_drawn(tmp_path, write_run_folder, value):
    write_run_folder(tmp_path, timesteps=[10_240, 20_480], returns=np.full((2, 3), value))
    figure = draw_curves(load_runs(tmp_path).runs)
    heights = {height for _, height in figure["curves"][0]}
    assert len(heights) == 1 and 12 < heights.pop() < figure["bottom"]


def test_a_packed_file_beside_its_folder_is_not_read_twice(tmp_path, write_run_folder):
    write_run_folder(tmp_path)
    before = RunLibrary(tmp_path).describe_size()
    packed = tmp_path / "a.parquet"
    assert main(["study", "pack", str(tmp_path / "demo"), "--output", str(packed)]) == 0
    (tmp_path / "folder.parquet").mkdir()
    (tmp_path / "link.parquet").symlink_to(packed)
    library = RunLibrary(tmp_path)
    assert library.describe_size() == before
    assert library.get_location("demo") == tmp_path / "demo"


def test_a_closed_connection_prints_nothing(server, capsys):
    for error, printed in ((BrokenPipeError(), False), (ValueError(), True)):
        try:
            raise error
        except (BrokenPipeError, ValueError):
            server.handle_error(None, ("127.0.0.1", 1))
        assert bool(capsys.readouterr().err) == printed


def test_an_unexpected_error_is_answered_with_a_page(server, monkeypatch, capsys):
    def fail(library, text):
        raise TypeError("<b>\x1b[2J")

    monkeypatch.setattr("parallax.analysis.commands.run_browser.render_index", fail)
    status, page, _ = get(server, "")
    assert status == 500 and "This page cannot be made: TypeError: &lt;b&gt;" in page
    printed = capsys.readouterr().err
    assert "in fail" in printed and "\x1b" not in printed


def test_new_runs_are_read_on_request(server, folder, write_run_folder):
    before = len(find_keys(get(server, "study?study=demo")[1]))
    write_run_folder(folder, framework="sb3", seed=9)
    assert len(find_keys(get(server, "study?study=demo")[1])) == before
    get(server, "?read=again")
    assert len(find_keys(get(server, "study?study=demo")[1])) == before + 1


def test_a_folder_without_runs_is_named(tmp_path):
    with pytest.raises(CommandError, match="no runs found"):
        RunLibrary(tmp_path)


@pytest.mark.skipif(chromium.find() is None and not REQUIRED, reason="Chromium is not installed")
def test_pages_in_a_real_browser(server, tmp_path):
    with chromium.browser(tmp_path / "profile") as page:
        for width in (1280, 390):
            for path in ("", "study?study=demo"):
                page.open(server.url + path, width)
                assert page.complaints() == []
                others = [url for url in page.requests() if "favicon" not in url]
                assert all(url.startswith(server.url) for url in others)
                assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.evaluate("document.querySelectorAll('[name=run]').forEach((box) => box.click())")
        chosen = page.evaluate(
            "new URLSearchParams(new FormData(document.querySelectorAll('form')[1])).toString()"
        )
        page.open(f"{server.url}runs?{chosen}", 390)
        assert page.evaluate("document.querySelectorAll('polyline').length") >= 4
        width = "document.querySelector('.figure').scrollWidth"
        assert page.evaluate(width) <= page.evaluate(width.replace("scroll", "client"))
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        report = server.url.replace(server.secret, server.report_secret) + "report?study=demo"
        page.open(report, 1280)
        assert page.evaluate("document.title") == "ran"
        assert page.evaluate("window.origin") == "null"  # it cannot read the other pages


def test_packed_runs_missing_in_the_folder_are_shown(tmp_path, write_run_folder):
    write_run_folder(tmp_path, seed=0)
    own, others = tmp_path / "demo", tmp_path / "away"
    write_run_folder(others, seed=1)
    packed = tmp_path / "b.parquet"
    assert main(["study", "pack", str(others), "--output", str(packed)]) == 0
    shutil.rmtree(others)
    (tmp_path / "c.parquet").write_bytes(b"no Parquet")
    library = RunLibrary(tmp_path)
    assert library.describe_size() == "2 runs in 1 study" and library.get_location("demo") == own
    assert "Not read: c.parquet: " in render_index(library, "")


def test_rows_of_one_folder_are_shown_one_by_one(tmp_path, write_run_folder):
    write_run_folder(tmp_path / "runs", seed=0)
    packed = tmp_path / "b.parquet"
    assert main(["study", "pack", str(tmp_path / "runs"), "--output", str(packed)]) == 0
    (row,) = read_rows(packed)
    write_rows([row, row], packed)
    (runs,) = RunLibrary(packed).studies.values()
    assert len({run.key for run in runs}) == 2
    assert [RunLibrary(packed).get_run(run.key).fields["state"] for run in runs] == [
        run.fields["state"] for run in runs
    ]
