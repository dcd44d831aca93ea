"""A Prefect server that `treasury serve` would start: not beside somebody else's, and as the operator set it."""

import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from flows.commands.prefect_server import free_port
from tests.commands.office import Office, one_line_error

pytestmark = pytest.mark.prefect

FOREIGN = "https://page.example.com"


def test_a_port_that_somebody_else_listens_on_is_told_nothing(open_office: Callable[..., Office]) -> None:
    office = open_office("http://127.0.0.1:9", prefect=False)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        ended = office.run("serve", "--port", str(port))
    assert ended.code == 2
    assert f"port {port} is not free" in one_line_error(ended)
    assert not (office.home / "prefect.servers").exists()


@pytest.mark.proof
def test_what_the_operator_set_stays(open_office: Callable[..., Office], tmp_path: Path) -> None:
    office, port = open_office("http://127.0.0.1:9", prefect=False), free_port()
    office.environ |= {
        "PREFECT_SERVER_API_AUTH_STRING": "me:mine",
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": FOREIGN,
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{tmp_path / 'own.db'}",
    }
    url = f"http://127.0.0.1:{port}/api/deployments/filter"

    def deployments(auth: tuple[str, str]) -> httpx.Response | None:
        try:
            return httpx.post(url, json={}, auth=auth, headers={"Origin": FOREIGN}, timeout=5)
        except httpx.HTTPError:
            return None

    with office.running("serve", "--port", str(port)) as process:
        end = time.monotonic() + 60
        while (answer := deployments(("me", "mine"))) is None or len(answer.json()) < 4:
            assert time.monotonic() < end
            assert process.poll() is None, process.communicate()
            time.sleep(0.2)
        assert answer.headers["access-control-allow-origin"] == FOREIGN
        refused = deployments(("me", "other"))
        assert refused is not None
        assert refused.status_code == 401
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    assert "PREFECT_SERVER_API_AUTH_STRING" in out
    assert not (office.home / "prefect.auth").exists()
