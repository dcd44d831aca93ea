"""Prefect's dashboard as a person uses it in Chromium: signs in, fills in forms, reads runs and artifacts."""

import json
import re
import time
from dataclasses import dataclass

from tests.browser.chromium import DESKTOP, Tab

_SECONDS = 60

_FIELD = """(() => {
  const labels = [...document.querySelectorAll('label')];
  let box = labels.find((each) => each.innerText.split(' ')[0].trim() === NAME);
  while (!box.querySelector('fieldset')) box = box.parentElement;
  return box;
})()"""


@dataclass
class Dashboard:
    """The dashboard of `treasury serve`, in one tab."""

    tab: Tab
    url: str

    def open(self, path: str, shows: str) -> None:
        """Open a page, and wait until it shows a text."""
        width, height = DESKTOP
        self.tab.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        self.tab.go(f"{self.url}{path}")
        self.await_text(shows)

    def await_text(self, text: str, seconds: float = _SECONDS) -> None:
        """Wait until the page shows a text."""
        self._await(f"(document.body?.innerText ?? '').includes({json.dumps(text)})", seconds)

    def sign_in(self, password: str) -> None:
        """Type the password where the dashboard asks for it."""
        self.open("/", "Login")
        self._await("!!document.querySelector('input')")
        self.tab.run("document.querySelector('input').focus()")
        self.tab.ask("Input.insertText", text=password)
        self.click("[...document.querySelectorAll('button')].find((each) => each.innerText.trim() === 'Login')")
        self.await_text("Flow Runs")

    def submit(self, deployment: str, **fields: str) -> str:
        """Fill in the form of a deployment and send it; the id of the flow run that it starts."""
        self.open(f"/deployments/deployment/{deployment}/run", "run_key")
        for name, value in fields.items():
            self._fill(name, value)
        self.click("document.querySelector('button[type=submit]')")
        found = self._await(
            "(location.href + [...document.querySelectorAll('a')].map((each) => each.href).join(' '))"
            ".match(/flow-run\\/([0-9a-f-]{36})/)?.[1]"
        )
        return str(found)

    def _fill(self, name: str, value: str) -> None:
        field = _FIELD.replace("NAME", json.dumps(name))
        self._await(f"[...document.querySelectorAll('label')].some((each) => each.innerText.startsWith({name!r}))")
        if self.tab.run(f"!{field}.querySelector('textarea')"):  # it may be empty: choose that it is text
            self.click(f"[...{field}.querySelectorAll('[role=tab]')].find((each) => each.innerText.trim() === 'str')")
        self._await(f"!!{field}.querySelector('textarea')")
        self.click(f"{field}.querySelector('textarea')")
        self.tab.ask("Input.insertText", text=value)
        assert self.tab.run(f"{field}.querySelector('textarea').value") == value

    def click(self, node: str) -> None:
        """Click the middle of a node with the mouse."""
        self._await(f"!!({node})")
        x, y = self.tab.run(
            f"(() => {{ const node = {node}; node.scrollIntoView({{block: 'center'}});"
            "const box = node.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.tab.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def follow(self, node: str, holds: str, seconds: float = _SECONDS) -> None:
        """Click a link until this holds on the page that it leads to: a page that is still built may lose a click."""
        end = time.monotonic() + seconds
        while True:
            if self.tab.run(f"!!({node})"):
                self.click(node)
            try:
                self._await(f"!!({holds})", 10)
            except AssertionError:
                if time.monotonic() > end:
                    raise
            else:
                return

    def text(self) -> str:
        """Return what the page shows."""
        return re.sub(r"\s+", " ", str(self.tab.run("document.body.innerText")))

    def _await(self, holds: str, seconds: float = _SECONDS) -> object:
        end = time.monotonic() + seconds
        while not (found := self.tab.run(holds)):
            assert time.monotonic() < end, (holds, self.text()[:2000])
            time.sleep(0.1)
        return found
