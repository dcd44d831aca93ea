"""The signing `httpx.Client` of the account block: what it signs a sandbox accepts, what moves money never leaves."""

from collections.abc import Callable, Iterator

import httpx
import pytest
from pydantic import SecretStr

from blocks import PartnerAccount
from tests.commands.office import PARTNER_ID
from treasury.errors import ConfigurationError
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.operation import Effect
from treasury.provider.signed_client import MovesMoney
from treasury.sandbox import RunningSandbox

MONEY = [operation.path for operation in CATALOGUE.values() if operation.effect is Effect.MOVES_MONEY]


@pytest.fixture
def sandbox(open_sandbox: Callable[..., RunningSandbox]) -> RunningSandbox:
    """A sandbox of the test's own."""
    return open_sandbox()


@pytest.fixture
def client(sandbox: RunningSandbox, key_pair: tuple[str, str]) -> Iterator[httpx.Client]:
    """The client of a block whose account is the sandbox's."""
    block = PartnerAccount(base_url=sandbox.base_url, partner_id=PARTNER_ID, private_key=SecretStr(key_pair[0]))
    with block.get_client() as client:
        yield client


def test_the_service_accepts_what_it_signs(client: httpx.Client) -> None:
    path = CATALOGUE["conversion_rate"].path
    answer = client.post(path, json={"symbol": "ETH-USDT", "side": "SELL", "blank": "", "many": {"none": None}})
    assert str(answer.json()["code"]) == "200", answer.text
    assert answer.json()["data"]["rate"]
    nonces = [client.post(path, json={"symbol": "ETH-USDT", "side": "SELL"}).json()["code"] for _ in range(3)]
    assert {str(code) for code in nonces} == {"200"}


@pytest.mark.parametrize("path", MONEY)
@pytest.mark.parametrize("written", [str, str.upper, lambda path: path.lstrip("/")])
def test_a_path_that_moves_money_never_leaves(
    client: httpx.Client, sandbox: RunningSandbox, path: str, written: Callable[[str], str]
) -> None:
    with pytest.raises(MovesMoney, match="nothing was sent"):
        client.post(written(path), json={"request_id": "a"})
    with pytest.raises(MovesMoney):
        client.post(f"{sandbox.base_url}{path}", json={"request_id": "a"})


@pytest.mark.parametrize(
    "disguised",
    [
        "/v1//order/payout",
        "/v1/order/%70ayout",
        "/v1/order/payout/",
        "/v1/order/payout?a=b",
        "/v1/order/payout;a",
        "/v1/x%2f..%2forder/payout",
        "/v1/order/payout%00",
        "/v1/order\\payout",
        "/v1/order/payout%20",
    ],
)
def test_a_disguised_path_never_leaves(client: httpx.Client, disguised: str) -> None:
    with pytest.raises(ConfigurationError, match="nothing was sent"):
        client.post(disguised, json={"request_id": "a"})


def test_only_an_object_posted_to_the_account_is_signed(client: httpx.Client) -> None:
    with pytest.raises(ConfigurationError, match="only requests to"):
        client.post("http://127.0.0.1:9/v1/order/other", json={})
    with pytest.raises(ConfigurationError, match="only a POST"):
        client.get("/v1/order/query")
    for body in (b"", b"[1]", b"text"):
        with pytest.raises(ConfigurationError, match="JSON object"):
            client.post("/v1/order/query", content=body)
