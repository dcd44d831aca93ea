"""A headless Chromium, driven over its DevTools protocol: one tab, and all that it asked for or complained of."""

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from websockets.sync.client import connect
from websockets.sync.connection import Connection

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

PHONE, DESKTOP = (375, 812), (1280, 900)

_START_SECONDS, _REPLY_SECONDS = 30, 30


@dataclass
class Tab:
    """A tab: what is asked of it, what it asked the network for, and what it wrote to its console."""

    socket: Connection
    session: str = ""
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    loaded: int = 0
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def ask(self, method: str, **params: Any) -> Any:
        """Send a command and wait for its answer; what happens meanwhile is noted."""
        number = next(self._numbers)
        session = {"sessionId": self.session} if self.session else {}
        self.socket.send(json.dumps({"id": number, "method": method, "params": params, **session}))
        while True:
            message = self._receive()
            if message.get("id") == number:
                assert "error" not in message, (method, message["error"])
                return message["result"]

    def open(self, file: Path, size: tuple[int, int] = DESKTOP, *, dark: bool = False, fragment: str = "") -> None:
        """Open a file at a width and height, and wait until it is loaded."""
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == PHONE}
        self.ask("Emulation.setDeviceMetricsOverride", **metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.go("about:blank")  # or another fragment of the same file would only scroll
        self.go(file.as_uri() + fragment)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def screenshot(self, path: Path, max_height: int = 12_000) -> None:
        """The whole page as a PNG file."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], max_height), "scale": 1}
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def print(self, path: Path) -> None:
        """The page as a printer gets it, a PDF file."""
        path.write_bytes(base64.b64decode(self.ask("Page.printToPDF", printBackground=False)["data"]))

    def go(self, address: str) -> None:
        """Open an address, and wait until it is loaded."""
        before = self.loaded
        self.ask("Page.navigate", url=address)
        while self.loaded == before:
            self._receive()

    def _receive(self) -> Any:
        message = json.loads(self.socket.recv(timeout=_REPLY_SECONDS))
        method, params = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Page.loadEventFired":
            self.loaded += 1
        elif method in ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
            self.complaints.append(json.dumps(params))
        return message


@contextmanager
def browser(profile: Path) -> Iterator[Tab]:
    """Start Chromium with a profile of its own; it ends with the block."""
    assert PROGRAM is not None
    options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
    command = [PROGRAM, *options, "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with connect(_address(profile, process), max_size=None) as socket:
            yield _first_tab(socket)
    finally:
        process.terminate()
        process.wait(timeout=_START_SECONDS)


def _address(profile: Path, process: "subprocess.Popen[bytes]") -> str:
    file, until = profile / "DevToolsActivePort", time.monotonic() + _START_SECONDS
    while not file.exists() or len(file.read_text().splitlines()) < 2:
        assert process.poll() is None, "Chromium ended at its start"
        assert time.monotonic() < until, "Chromium did not start"
        time.sleep(0.05)
    port, path = file.read_text().splitlines()[:2]
    return f"ws://127.0.0.1:{port}{path}"


def _first_tab(socket: Connection) -> Tab:
    tab = Tab(socket)
    target = tab.ask("Target.createTarget", url="about:blank")["targetId"]
    tab.session = tab.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ("Page", "Runtime", "Network", "Log"):
        tab.ask(f"{domain}.enable")
    return tab
