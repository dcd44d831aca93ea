"""Prefect's server takes the last state of a run, and its answer is lost: Prefect asks again, and gets no result."""

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx
import pytest

from tests.commands.office import Office
from treasury.sandbox import RunningSandbox

pytestmark = pytest.mark.prefect

LAST = ("COMPLETED", "FAILED")


@pytest.fixture
def losing(prefect_url: str) -> Iterator[str]:
    """The address of a proxy that loses each answer to the last state of a flow run once."""
    lost = set[str]()

    class Passing(BaseHTTPRequestHandler):
        def pass_on(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            kept = {name: text for name, text in self.headers.items() if name.lower() not in ("host", "content-length")}
            answer = httpx.request(self.command, upstream + self.path, content=content, headers=kept, timeout=60)
            code = answer.status_code
            is_state = self.path.endswith("/set_state") and "/flow_runs/" in self.path
            if is_state and self.path not in lost and json.loads(content)["state"]["type"] in LAST:
                lost.add(self.path)
                code = 503
            self.send_response(code)
            self.send_header("Content-Length", str(len(answer.content)))
            self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = pass_on  # noqa: N815 - the library names them

        def log_message(self, *_: object) -> None:
            pass

    upstream = prefect_url.removesuffix("/api")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Passing)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/api"
    server.shutdown()
    server.server_close()
    assert lost


@pytest.mark.costly("two commands as processes, behind a proxy")
def test_a_run_whose_last_answer_is_lost_ends_as_it_did(
    losing: str, open_office: Callable[..., Office], open_sandbox: Callable[..., RunningSandbox]
) -> None:
    office = open_office(open_sandbox().base_url, PREFECT_API_URL=losing)
    good, rich = office.sheet(("a", "10", "12345670001")), office.sheet(("b", "99999999", "12345670008"), name="b.csv")
    for arguments, code, last in (
        (("pay", good, "--run-key", "one", "--yes", "--follow", "20"), 0, "1 settled"),
        (("pay", rich, "--run-key", "two", "--yes"), 4, "0 settled, 1 not sent"),
    ):
        ended = office.process(*arguments)
        assert "Traceback" not in ended.err, ended.err
        assert (ended.code, last in ended.out) == (code, True), ended.out + ended.err
