"""`parallax view`: a read-only page over all studies of a folder, served to this machine alone."""

import argparse
import secrets
import sys
import threading
import traceback
import urllib.parse
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from parallax.analysis.commands import run_browser
from parallax.analysis.commands.common import CommandError
from parallax.harness.record.files import UnusableError, escape_unprintable, read_bounded

ADDRESS = "127.0.0.1"  # never another address: anyone who can reach the port can see the runs
_MAX_REPORT_BYTES = 2**27
_PAGE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'"
)
# Other people may have made a report: its script runs in a separate origin.
_REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox allow-scripts"
)

Query = Mapping[str, list[str]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    text = "folder of studies, one study, or a file of packed runs"
    parser.add_argument("results", type=Path, metavar="FOLDER", help=text)
    text = "port on 127.0.0.1 (default: one that is free)"
    parser.add_argument("--port", type=int, default=0, metavar="N", help=text)


def run(options: argparse.Namespace) -> int:
    """Serve the pages until Ctrl-C.

    Raises:
        CommandError: There are no runs, or the port is taken.
    """
    if not 0 <= options.port < 2**16:
        raise CommandError(f"--port {options.port}: give a port below 65536, or 0 for a free one.")
    library = run_browser.RunLibrary(options.results)
    try:
        server = RunServer(library, options.port)
    except OSError as error:
        raise CommandError(
            f"--port {options.port}: {error.strerror}. Leave it out, which takes a free port."
        ) from error
    with server:
        print(f"{library.describe_size()}: {server.url}\nCtrl-C ends it.", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0


class RunServer(ThreadingHTTPServer):
    """Server on this machine's loopback address.

    Its pages are below a random path, since other users of a login node can reach the port, too.
    Reports are below another one, which opens no other pages: their scripts could reveal it.
    """

    daemon_threads = True

    def __init__(self, library: run_browser.RunLibrary, port: int = 0) -> None:
        """Bind the port; nothing is served yet.

        Raises:
            OSError: The port is taken.
        """
        super().__init__((ADDRESS, port), _RequestHandler)
        self.library, self.secret = library, secrets.token_urlsafe(16)
        self.report_secret = secrets.token_urlsafe(16)
        library.report_prefix = f"../{self.report_secret}/"
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        """Return the address of the first page."""
        return f"http://{ADDRESS}:{self.server_port}/{self.secret}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing where a browser has closed the connection."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def is_own_host(self, host: str) -> bool:
        """Return whether a request names this server, and not a domain that resolves to it."""
        return host in (f"{ADDRESS}:{self.server_port}", f"localhost:{self.server_port}")


class _RequestHandler(BaseHTTPRequestHandler):
    """Answers GET and HEAD; the path of a request is never used as the path of a file."""

    server: RunServer
    server_version, sys_version = "parallax", ""
    timeout = 30  # seconds that a silent connection stays open

    def do_GET(self) -> None:
        """Send a page."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Send the headers of a page."""
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        status, body, policy = self._make_response()
        self.send_response(status)
        for name, value in (
            ("Content-Type", "text/html; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Content-Security-Policy", policy),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def _make_response(self) -> tuple[HTTPStatus, bytes, str]:
        if not all(map(self.server.is_own_host, self.headers.get_all("Host", [""]))):
            return _make_problem(
                HTTPStatus.MISDIRECTED_REQUEST,
                "The address names another host or port than parallax view printed. Through a "
                f"tunnel, use the same port at both ends: "
                f"ssh -L {self.server.server_port}:{ADDRESS}:{self.server.server_port} HOST",
            )
        # Not `urlsplit`, which raises errors for some addresses.
        path, _, fields = self.path.partition("?")
        _, secret, page, *rest = (*path.split("/"), "", "")
        needed = self.server.report_secret if page == "report" else self.server.secret
        if not secrets.compare_digest(secret.encode(), needed.encode()):
            return _make_problem(
                HTTPStatus.FORBIDDEN, "Open the whole address that parallax view printed."
            )
        if page not in _PAGES or any(rest):
            return _make_problem(HTTPStatus.NOT_FOUND, "There is no such page.")
        try:
            query = urllib.parse.parse_qs(fields, max_num_fields=1000)
            with self.server.lock:  # one at a time, since a request can read the runs again
                return _PAGES[page](self.server.library, query)
        except (KeyError, ValueError):
            return _make_problem(HTTPStatus.NOT_FOUND, "No such study or run is in the folder.")
        except UnusableError as error:
            return _make_problem(HTTPStatus.INTERNAL_SERVER_ERROR, f"The report {error}.")
        except (CommandError, OSError) as error:  # the folder may have been moved meanwhile
            return _make_problem(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
        except Exception as error:  # without an answer, the browser names no reason
            for line in traceback.format_exc().splitlines():
                print(escape_unprintable(line), file=sys.stderr)
            text = f"This page cannot be made: {type(error).__name__}: {error}"
            return _make_problem(HTTPStatus.INTERNAL_SERVER_ERROR, text)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: the terminal shows the address."""


def _make_problem(status: HTTPStatus, text: str) -> tuple[HTTPStatus, bytes, str]:
    return status, run_browser.render_problem(text).encode(), _PAGE_POLICY


def _make_page(text: str) -> tuple[HTTPStatus, bytes, str]:
    return HTTPStatus.OK, text.encode("utf-8", "replace"), _PAGE_POLICY


def _show_index(library: run_browser.RunLibrary, query: Query) -> tuple[HTTPStatus, bytes, str]:
    if query.get("read") == ["again"]:
        library.read()
    return _make_page(run_browser.render_index(library, query.get("q", [""])[0]))


def _show_study(library: run_browser.RunLibrary, query: Query) -> tuple[HTTPStatus, bytes, str]:
    chosen = {name: values[0] for name, values in query.items()}
    return _make_page(run_browser.render_study(library, chosen.pop("study"), chosen))


def _show_runs(library: run_browser.RunLibrary, query: Query) -> tuple[HTTPStatus, bytes, str]:
    if "run" not in query:
        text = f"No run is ticked: tick 1 to {run_browser.MAX_COMPARED}, then compare."
        return _make_problem(HTTPStatus.NOT_FOUND, text)
    return _make_page(run_browser.render_comparison(library, query["run"]))


def _show_report(library: run_browser.RunLibrary, query: Query) -> tuple[HTTPStatus, bytes, str]:
    path = library.find_report(query["study"][0])
    if path is None:
        raise KeyError("report")
    return HTTPStatus.OK, read_bounded(path, _MAX_REPORT_BYTES), _REPORT_POLICY


_PAGES: Mapping[str, Callable[[run_browser.RunLibrary, Query], tuple[HTTPStatus, bytes, str]]] = {
    "": _show_index,
    "study": _show_study,
    "runs": _show_runs,
    "report": _show_report,
}
