"""Ctrl-C: nothing new leaves, what is on its way is finished and recorded, and the run can be gone on with."""

import json
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from tests.commands.office import Office, eventually
from tests.listening import Answer, Listening
from treasury.ledger.states import State

pytestmark = pytest.mark.prefect

ROWS = 400
SLOW_SECONDS = 0.4


class SlowService:
    """Accepts every payout, each after a while; counts those that came and those that were answered."""

    def __init__(self) -> None:
        self.came: list[str] = []
        self.slow = True
        self.listening = Listening(self._reply)

    def _reply(self, path: str, content: bytes) -> Answer:
        request_id = json.loads(content).get("request_id", "")
        if path == "/v1/order/payout":
            self.came.append(request_id)
            time.sleep(SLOW_SECONDS if self.slow else 0)
        data = {"request_id": request_id, "order_no": f"P-{request_id}", "status": 11}
        return 200, json.dumps({"code": 200, "data": data}).encode(), {}


@pytest.fixture
def service() -> Iterator[SlowService]:
    slow = SlowService()
    yield slow
    slow.listening.close()


def test_an_interrupted_run_finishes_what_is_on_its_way_and_goes_on_where_it_was(
    open_office: Callable[..., Office], service: SlowService
) -> None:
    office = open_office(service.listening.base_url)
    sheet = office.sheet(*((f"r{number}", "5", f"123456{number:04d}7") for number in range(ROWS)))
    command = ["pay", sheet, "--run-key", "run", "--yes"]
    with office.running(*command) as process:
        eventually(lambda: len(service.came) > 70, 60, "it sent nothing")
        process.send_signal(signal.SIGINT)
        time.sleep(1.0)
        came = len(service.came)
        _, err = process.communicate(timeout=30)
    assert came == len(service.came) < ROWS
    assert process.returncode == 1
    assert err.splitlines()[-1].endswith(f"To go on: treasury pay {sheet} --run-key run --yes")
    assert "Traceback" not in err
    states = [order.state for order in office.desk().ledger.orders()]
    assert (states.count(State.ACCEPTED), states.count(State.PREPARED)) == (came, ROWS - came)
    service.slow = False
    assert office.run(*command).last == f"0 settled, {ROWS} in progress"
    assert sorted(service.came) == sorted(set(service.came))
    assert len(service.came) == ROWS
