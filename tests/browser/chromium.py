"""A headless Chromium, driven over its DevTools protocol: one tab, and all that it asked for or complained of."""

import base64
import json
import re
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

_WITHOUT_GRAPHICS = ("--disable-gpu", "--disable-software-rasterizer", "--force-prefers-reduced-motion")
"""Without these options Chromium computes a graphics processor and moves things, which keeps a processor busy."""

_LOOK_SECONDS = 0.3
"""Seconds between two looks at a page: each look may make Chromium lay it out anew."""

SECONDS = 60
"""So long a page may take to show what somebody waits for."""


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
        self._resize(size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.go("about:blank")  # or another fragment of the same file would only scroll
        self.go(file.as_uri() + fragment)

    def show(self, address: str, size: tuple[int, int] = DESKTOP) -> None:
        """Open an address at a width and height, and wait until it is loaded."""
        self._resize(size)
        self.go(address)

    def _resize(self, size: tuple[int, int]) -> None:
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == PHONE}
        self.ask("Emulation.setDeviceMetricsOverride", **metrics)

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

    def await_holds(self, holds: str, seconds: float = SECONDS) -> object:
        """Wait until an expression holds in the page; returns its value."""
        end = time.monotonic() + seconds
        while not (found := self.run(holds)):
            assert time.monotonic() < end, (holds, self.text()[:2000])
            time.sleep(_LOOK_SECONDS)
        return found

    def await_text(self, text: str, seconds: float = SECONDS) -> None:
        """Wait until the page shows a text."""
        self.await_holds(f"(document.body?.innerText ?? '').includes({json.dumps(text)})", seconds)

    def click(self, node: str) -> None:
        """Click the middle of a node with the mouse."""
        self.await_holds(f"!!({node})")
        x, y = self.run(
            f"(() => {{ const node = {node}; node.scrollIntoView({{block: 'center'}});"
            "const box = node.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, words: str) -> None:
        """Click the button with these words."""
        self.click(f"[...document.querySelectorAll('button')].find((b) => b.innerText.trim() === {json.dumps(words)})")

    def text(self) -> str:
        """Return what the page shows."""
        return re.sub(r"\s+", " ", str(self.run("document.body.innerText")))

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
    options = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--no-first-run", *_WITHOUT_GRAPHICS)
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
