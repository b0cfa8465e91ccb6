"""A headless Chromium, spoken to over its debugging protocol by two pipes."""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--no-first-run"),
    *("--disable-dev-shm-usage", "--remote-debugging-pipe", "--force-color-profile=srgb"),
)
PATIENCE = 120  # seconds; machines with many tests are slow


def find() -> str | None:
    """Chromium's path, if it is installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Page:
    """One tab.

    Attributes:
        events: Everything that the browser reported, in order.
    """

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self.events: list[dict[str, Any]] = []
        self._to, self._from = to_browser, from_browser
        self._waiting = b""
        self._number = 0
        self._session: str | None = None
        (target,) = (
            info for info in self.call("Target.getTargets")["targetInfos"] if info["type"] == "page"
        )
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends a command and waits for its answer."""
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])
            self.events.append(answer)

    def open(self, path: Path | str, width: int, height: int = 900, dark: bool = False) -> None:
        """Shows a file or address at a width, as a phone would below 600 pixels, and waits."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        phone = width < 600
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )
        self.events.clear()
        self.call("Page.navigate", url=path if isinstance(path, str) else path.as_uri())
        end = time.monotonic() + PATIENCE
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            if time.monotonic() > end:
                raise TimeoutError(f"{path}: not loaded after {PATIENCE} s")
            self.events.append(self._read())

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def screenshot(self, whole: bool = False) -> bytes:
        """A PNG of what is shown, or of the whole page."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        return base64.b64decode(found["data"])

    def complaints(self) -> list[str]:
        """Exceptions, errors and warnings in the console, since the page was opened."""
        found = []
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
            if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
                found.append(str(params["args"]))
            if method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
        return found

    def requests(self) -> list[str]:
        """Every address asked for since the page was opened, but data inside of the page."""
        urls = [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]
        return [url for url in urls if not url.startswith("data:")]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._waiting:
            chunk = os.read(self._from, 1 << 20)
            if not chunk:
                raise RuntimeError("Chromium ended.")
            self._waiting += chunk
        message, _, self._waiting = self._waiting.partition(b"\0")
        return dict(json.loads(message))


@contextlib.contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """Starts Chromium with an empty profile and ends it again."""
    path = find()
    assert path, "Chromium is not installed"
    read_commands, to_browser = os.pipe()
    from_browser, write_answers = os.pipe()
    # Chromium reads commands from descriptor 3 and writes answers to 4.
    shell = f'exec "$@" 3<&{read_commands} 4>&{write_answers}'
    process = subprocess.Popen(
        ["bash", "-c", shell, "bash", path, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
        pass_fds=(read_commands, write_answers),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(read_commands)
    os.close(write_answers)
    try:
        yield Page(to_browser, from_browser)
    finally:
        os.close(to_browser)
        os.close(from_browser)
        process.terminate()
        process.wait(PATIENCE)
