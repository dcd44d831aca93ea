"""Prefect's dashboard as a person uses it in Chromium: signs in, fills in forms, reads runs and artifacts."""

import json
import time
from contextlib import suppress
from dataclasses import dataclass

import httpx

from tests.browser.chromium import DESKTOP, SECONDS, Tab
from tests.commands.office import eventually

_FIELD = """(() => {
  const labels = [...document.querySelectorAll('label')];
  let box = labels.find((each) => each.innerText.split(' ')[0].trim() === NAME);
  while (!box.querySelector('fieldset')) box = box.parentElement;
  return box;
})()"""

_LATER_SECONDS = 0.5


@dataclass
class Dashboard:
    """The dashboard of `treasury serve`, in one tab."""

    tab: Tab
    server: str
    """Address of the server."""
    password: str
    """A name and a password, with a colon between."""

    @property
    def url(self) -> str:
        """Return the address of its pages."""
        return f"{self.server}/v2"

    def open(self, path: str, shows: str) -> None:
        """Open a page, and wait until it shows a text."""
        self.tab.show(f"{self.url}{path}", DESKTOP)
        self.tab.await_text(shows)

    def sign_in(self) -> None:
        """Type the password where the dashboard asks for it."""
        self.open("/", "Login")
        self.tab.await_holds("!!document.querySelector('input')")
        self.tab.run("document.querySelector('input').focus()")
        self.tab.ask("Input.insertText", text=self.password)
        self.tab.press("Login")
        self.tab.await_text("Flow Runs")

    def submit(self, deployment: str, **fields: str) -> str:
        """Fill in the form of a deployment and send it; the id of the flow run that it starts.

        The page shows a link to the run for some seconds: the server knows it longer.
        """
        before = self._runs(deployment)
        self.open(f"/deployments/deployment/{deployment}/run", "run_key")
        for name, value in fields.items():
            self._fill(name, value)
        asked, end = self._runs_asked_for(), time.monotonic() + SECONDS
        while self._runs_asked_for() == asked and time.monotonic() < end:  # a page that is busy may lose a click
            self.tab.click("document.querySelector('button[type=submit]')")
            with suppress(AssertionError):
                eventually(lambda: self._runs_asked_for() > asked)
        eventually(lambda: self._runs(deployment) > before, SECONDS)
        [run] = self._runs(deployment) - before
        return run

    def _runs(self, deployment: str) -> set[str]:
        """The ids of the runs of a deployment."""
        wanted = {"deployments": {"id": {"any_": [deployment]}}}
        name, _, secret = self.password.partition(":")
        while True:  # on a busy machine its database may be locked
            found = httpx.post(f"{self.server}/api/flow_runs/filter", json=wanted, auth=(name, secret), timeout=SECONDS)
            if found.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                return {str(each["id"]) for each in found.raise_for_status().json()}
            time.sleep(_LATER_SECONDS)

    def resume(self, run: str, shows: str, **fields: str) -> None:
        """Resume a suspended flow run with its form, once that shows a text; by the pages that have one, the older."""
        self.tab.show(f"{self.server}/runs/flow-run/{run}", DESKTOP)
        self.tab.press("Resume")
        self.tab.await_text(shows)
        boxes = "[...document.querySelectorAll('.p-modal .schema-form-property')]"
        for name, value in fields.items():
            box = f"{boxes}.find((each) => each.innerText.startsWith({name!r}))"
            self.tab.click(f"{box}?.querySelector('textarea')")
            self.tab.ask("Input.insertText", text=value)
        submit = "[...document.querySelectorAll('button')].find((each) => each.innerText.trim() === 'Submit')"
        self.follow(submit, "!document.querySelector('.p-modal')")

    def _runs_asked_for(self) -> int:
        self.tab.run("1")  # hears what the page asked meanwhile
        return sum(each.endswith("/create_flow_run") for each in self.tab.requests)

    def _fill(self, name: str, value: str) -> None:
        field = _FIELD.replace("NAME", json.dumps(name))
        self.tab.await_holds(
            f"[...document.querySelectorAll('label')].some((each) => each.innerText.startsWith({name!r}))"
        )
        if self.tab.run(f"!{field}.querySelector('textarea')"):  # it may be empty: choose that it is text
            self.tab.click(
                f"[...{field}.querySelectorAll('[role=tab]')].find((each) => each.innerText.trim() === 'str')"
            )
        self.tab.await_holds(f"!!{field}.querySelector('textarea')")
        self.tab.click(f"{field}.querySelector('textarea')")
        self.tab.ask("Input.insertText", text=value)
        assert self.tab.run(f"{field}.querySelector('textarea').value") == value

    def follow(self, node: str, holds: str, seconds: float = SECONDS) -> None:
        """Click a node until this holds on the page that it leads to: a page that is busy may lose a click."""
        end = time.monotonic() + seconds
        while True:
            if self.tab.run(f"!!({node})"):
                self.tab.click(node)
            try:
                self.tab.await_holds(f"!!({holds})", 10)
            except AssertionError:
                if time.monotonic() > end:
                    raise
            else:
                return
