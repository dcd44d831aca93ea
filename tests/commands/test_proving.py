"""`treasury connect` and `doctor --prove` from outside: what is wrong is named, and only reads are sent."""

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.commands.office import Ended, Office
from tests.listening import Listening
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.operation import Effect
from treasury.proving.shapes import side_that_buys
from treasury.sandbox import RunningSandbox, generate_key_pair
from treasury.sandbox.behaviour import Behaviour

OpenSandbox = Callable[..., RunningSandbox]
OpenOffice = Callable[..., Office]


def findings(ended: Ended) -> dict[str, str]:
    """Entry -> verdict, as `--prove` prints them."""
    found = {}
    for line in ended.out.splitlines():
        verdict, _, rest = line.partition(" ")
        if verdict in ("proven", "contradicted", "open"):
            found[rest.split()[0].rstrip(":")] = verdict
    return found


def contradicted(ended: Ended) -> set[str]:
    return {name for name, verdict in findings(ended).items() if verdict == "contradicted"}


@pytest.fixture
def connected(open_sandbox: OpenSandbox, open_office: OpenOffice) -> Callable[..., Office]:
    """Opens a home at a sandbox that behaves so; the account is in its environment."""

    def one(**behaves: Any) -> Office:
        return open_office(open_sandbox(behaviour=Behaviour(**behaves)).base_url, prefect=False)

    return one


def test_connecting_ends_with_what_is_so(
    open_sandbox: OpenSandbox, open_office: OpenOffice, tmp_path: Path, key_file: Path
) -> None:
    sandbox = open_sandbox()
    office = open_office(sandbox.base_url, prefect=False)
    home = {"TREASURY_HOME": str(tmp_path / "home")} | dict.fromkeys(
        ("TREASURY_BASE_URL", "TREASURY_PARTNER_ID", "TREASURY_PRIVATE_KEY_FILE"), ""
    )
    line = ["connect", "--base-url", sandbox.base_url, "--partner-id", "900001", "--private-key", key_file]
    ended = office.run(*line, **home)
    assert ended.code == 0
    assert ended.last.startswith(f"connected: partner 900001 at {sandbox.base_url}: ")
    assert "0 contradicted" in ended.last
    assert findings(ended)["partner_id"] == "proven"
    assert office.run("doctor", **home).last == "all is well"


@pytest.mark.parametrize(
    ("wrong", "named", "words"),
    [
        ({"TREASURY_PARTNER_ID": "900002"}, "partner_id", "the partner id is wrong"),
        ({"TREASURY_HASH": "SHA256"}, "hash", "write: TREASURY_HASH=SHA1 "),
        ({"TREASURY_SIGN_TYPE": "RSA2"}, "sign_type", "write: TREASURY_SIGN_TYPE=RSA "),
        ({"TREASURY_NO_SUCH_ORDER": "9"}, "no_such_order", "write: TREASURY_NO_SUCH_ORDER=7000 "),
        ({"TREASURY_NO_SUCH_USER": "9"}, "no_such_user", "write: TREASURY_NO_SUCH_USER=404 "),
        ({"TREASURY_BUY": "quote"}, "buy", "write: TREASURY_BUY=base "),
        (
            {"TREASURY_TIMESTAMP_WINDOW_SECONDS": "60"},
            "timestamp_window_seconds",
            "WINDOW_SECONDS=960",
        ),
    ],
)
def test_what_is_wrong_is_named_with_the_line_to_write(
    connected: Callable[..., Office], wrong: dict[str, str], named: str, words: str
) -> None:
    office = connected()
    ended = office.run("doctor", "--prove", **wrong)
    assert ended.code == 2
    assert named in contradicted(ended), ended.out
    assert words in ended.out


def test_another_key_is_named(connected: Callable[..., Office]) -> None:
    office = connected()
    other = office.file("other.pem", generate_key_pair()[0])
    other.chmod(0o600)
    ended = office.run("doctor", "--prove", TREASURY_PRIVATE_KEY_FILE=str(other))
    assert ended.code == 2
    assert contradicted(ended) == {"private_key"}
    assert "with SHA1 and SHA256" in ended.out


@pytest.mark.parametrize(
    ("behaves", "named", "proposed"),
    [
        ({"hash": "SHA256"}, "hash", "SHA256"),
        ({"timestamp_unit": "s"}, "timestamp_unit", "s"),
        ({"hash": "SHA256", "timestamp_unit": "s"}, "timestamp_unit", "s"),
        ({"no_such_order": "9001"}, "no_such_order", "9001"),
        ({"no_such_order": "empty"}, "no_such_order", "empty"),
        ({"no_such_user": "9001"}, "no_such_user", "9001"),
        ({"no_such_user": "http-404"}, "no_such_user", "http-404"),
        ({"side_case": "lower"}, "side_case", "lower"),
        ({"buy": "quote"}, "buy", "quote"),
    ],
)
def test_the_line_that_is_printed_is_written_and_then_proven(
    connected: Callable[..., Office], behaves: dict[str, str], named: str, proposed: str
) -> None:
    office = connected(**behaves)
    ended = office.run("doctor", "--prove")
    wrong = contradicted(ended)
    assert (ended.code, wrong) == (2, {"hash", "timestamp_unit"} if len(behaves) > 1 else {named})
    assert f"write: TREASURY_{named.upper()}={proposed} " in ended.out
    lines = dict(
        line.split("write: ")[1].split(" (or ")[0].split("=") for line in ended.out.splitlines() if "write:" in line
    )
    written = office.run("doctor", "--prove", **lines)
    assert (written.code, contradicted(written)) == (0, set())
    assert findings(written)[named] == "proven"
    file = office.home / "account.json"
    file.write_text(json.dumps({"service": _entries(ended)}))
    file.chmod(0o600)
    assert (office.run("doctor", "--prove").code, "write:" in ended.out) == (0, True)


def _entries(ended: Ended) -> dict[str, Any]:
    """The entries of the account file that are printed."""
    said = [line.split(" (or ")[1].split(" under ")[0] for line in ended.out.splitlines() if "write:" in line]
    return {name: each for one in said for name, each in json.loads(f"{{{one}}}").items()}


@pytest.mark.parametrize("shape", ["http-404", "429", "500", "401", "202203"])
def test_what_is_no_evidence_is_never_proposed_as_an_absence(connected: Callable[..., Office], shape: str) -> None:
    office = connected(no_such_order=shape)
    ended = office.run("doctor", "--prove")
    assert findings(ended)["no_such_order"] == ("open" if shape in ("429", "500") else "contradicted")
    assert "write: TREASURY_NO_SUCH_ORDER" not in ended.out
    ended = office.run("doctor", TREASURY_NO_SUCH_ORDER=shape)
    assert ended.code == 2
    assert "PROBLEM: TREASURY_NO_SUCH_ORDER: " in ended.out


def test_a_service_without_a_balance_is_proven_by_another_question(
    open_sandbox: OpenSandbox, open_office: OpenOffice
) -> None:
    """A balance is no operation of the document; a window that only it was asked about would never be refused."""
    sandbox = open_sandbox()

    def without_balance(path: str, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        if path.endswith("balance/partner"):
            return 404, b"Not Found", {}
        found = httpx.post(sandbox.base_url + path, content=body)
        return found.status_code, found.content, {}

    listening = Listening(without_balance)
    try:
        ended = open_office(listening.base_url, prefect=False).run("doctor", "--prove")
    finally:
        listening.close()
    found = findings(ended)
    assert (ended.code, found["partner_id"], found["timestamp_window_seconds"]) == (0, "proven", "proven"), ended.out


@pytest.mark.parametrize(("moves", "verdict"), [(4, "proven"), (100, "open")])
def test_a_rate_that_moves_between_two_questions_contradicts_nothing(
    open_sandbox: OpenSandbox, open_office: OpenOffice, moves: int, verdict: str
) -> None:
    """The sides differ by 0.1 %, and the rate rises by 0.2 % after each of the first questions."""
    sandbox = open_sandbox()
    rises = itertools.count()

    def rising(path: str, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        found = httpx.post(sandbox.base_url + path, content=body)
        answer = found.json() if path.endswith("conversion/rate") else {}
        if answer.get("data"):
            factor = 1 + Decimal("0.002") * min(next(rises), moves)
            answer["data"]["rate"] = str(Decimal(answer["data"]["rate"]) * factor)
        return found.status_code, json.dumps(answer).encode() if answer else found.content, {}

    listening = Listening(rising)
    try:
        ended = open_office(listening.base_url, prefect=False).run("doctor", "--prove")
    finally:
        listening.close()
    assert (ended.code, findings(ended)["buy"]) == (0, verdict), ended.out


@pytest.mark.parametrize(
    ("before", "sell", "after", "side"),
    [
        ("100", "99.9", "100", "base"),
        ("100", "100.1", "100", "quote"),
        ("100", "100", "100", None),
        ("100", "99.8", "100.1", "base"),
        ("100", "99.9", "100.1", None),
        ("100", "100.2", "100.1", None),
        ("100", "100.3", "100.1", "quote"),
        ("2646.9143", "2647.5565", "2650.2116", None),
    ],
)
def test_the_dearer_side_buys_the_base_where_the_sides_differ_by_more_than_the_rate_moves(
    before: str, sell: str, after: str, side: str | None
) -> None:
    assert side_that_buys(Decimal(before), Decimal(sell), Decimal(after)) == side


class Recorder:
    """An unrelated web server, or a service before another: keeps the path of each request."""

    def __init__(self, status: int, body: bytes) -> None:
        self.paths: list[str] = []
        self._guard = threading.Lock()
        self._answer = status, body
        self.listening = Listening(self._reply)

    def _reply(self, path: str, _: bytes) -> tuple[int, bytes, dict[str, str]]:
        with self._guard:
            self.paths.append(path)
        return *self._answer, {}


@pytest.fixture
def recorder(request: pytest.FixtureRequest) -> Iterator[Recorder]:
    recorder = Recorder(*request.param)
    yield recorder
    recorder.listening.close()


@pytest.mark.parametrize(
    "recorder",
    [
        (200, b"<!doctype html><title>Welcome</title>"),
        (404, b"Not Found"),
        (404, b'{"code": 404, "message": "no route"}'),
        (200, b'{"hello": "world"}'),
        (502, b"Bad Gateway"),
    ],
    indirect=True,
)
def test_an_unrelated_web_server_does_not_know_us(recorder: Recorder, open_office: OpenOffice) -> None:
    office = open_office(recorder.listening.base_url, prefect=False)
    ended = office.run("doctor", "--prove")
    assert ended.code == 2
    assert "the service did not answer a signed question" in ended.last


@pytest.mark.parametrize("recorder", [(200, b'{"code": 200, "data": {"balance": "1"}}')], indirect=True)
def test_nothing_that_creates_or_moves_is_sent(recorder: Recorder, open_office: OpenOffice) -> None:
    """The service says yes to everything, so every question is asked."""
    office = open_office(recorder.listening.base_url, prefect=False)
    office.run("doctor", "--prove")
    reads = {operation.path for operation in CATALOGUE.values() if operation.effect is Effect.READS}
    assert len(recorder.paths) > 8
    assert set(recorder.paths) <= reads


def test_a_saved_notification_is_held_against_the_platform_key(
    open_sandbox: OpenSandbox, open_office: OpenOffice, key_pair: tuple[str, str]
) -> None:
    office = open_office(open_sandbox().base_url, prefect=False)
    key = office.file("platform.pem", key_pair[1])
    environ = {"TREASURY_PLATFORM_KEY_FILE": str(key)}
    assert findings(office.run("doctor", "--prove", **environ))["platform_key"] == "open"
    saved = office.home / "notification.json"
    saved.write_text(signed('{"txAmount":12.50}', key_pair[0]))
    assert findings(office.run("doctor", "--prove", **environ))["platform_key"] == "proven"
    assert office.run("check-notification", saved, **environ).code == 0  # the stored key
    assert office.run("check-notification", saved).code == 2  # there is none
    saved.write_text(saved.read_text().replace("12.50", "12.5"))
    assert contradicted(office.run("doctor", "--prove", **environ)) == {"platform_key"}
    assert office.run("check-notification", saved, **environ).code == 2


def signed(data: str, private_key: str) -> str:
    """A notification with a nested object, signed over the digits as they are written (public fact 1.2, step 6)."""
    import base64

    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    from treasury.provider.signing import load_private_key

    text = f"data={data}&type=CARD_BILL_TRANSACTION"
    signature = load_private_key(private_key).sign(text.encode(), padding.PKCS1v15(), hashes.SHA1())
    sign = base64.b64encode(signature).decode()
    return f'{{"type":"CARD_BILL_TRANSACTION","data":{data},"sign":{json.dumps(sign)}}}'
