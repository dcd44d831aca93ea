"""`treasury connect` and Prefect: no key leaves the machine, and nobody's block is overwritten unasked."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands.approvers import refused
from tests.commands.office import PARTNER_ID, Ended, Office
from treasury.sandbox import RunningSandbox

pytestmark = pytest.mark.prefect


@pytest.fixture(scope="module")
def sandbox(open_sandbox: Callable[..., RunningSandbox]) -> RunningSandbox:
    return open_sandbox()


@pytest.fixture
def office(sandbox: RunningSandbox, open_office: Callable[..., Office], prefect_url: str) -> Office:
    return open_office(sandbox.base_url)


def connect(office: Office, name: str, *more: str, partner: str = PARTNER_ID) -> Ended:
    url, key = office.environ["TREASURY_BASE_URL"], office.environ["TREASURY_PRIVATE_KEY_FILE"]
    account = ("--base-url", url, "--partner-id", partner, "--private-key", key)
    return office.run("connect", *account, "--name", name, *more)


def block(office: Office, name: str, says: str) -> str:
    code = f"from blocks import PartnerAccount\nblock = PartnerAccount.load({name!r})\nprint({says})\n"
    return office.python(code).out.strip()


def test_a_block_that_connect_saves_names_the_file_of_the_key_and_works(office: Office) -> None:
    done = connect(office, "connected")
    assert "Prefect block partner-account/connected: the private key stays in" in done.out, done.err
    file = Path(office.environ["TREASURY_PRIVATE_KEY_FILE"])
    assert block(office, "connected", "block.private_key, block.private_key_file") == f"None {file}"
    assert block(office, "connected", "block.get_account().private_key") == file.read_text().strip()
    secret = file.read_text().splitlines()[1]
    assert secret not in block(office, "connected", "block.model_dump_json()")


def test_no_request_of_connect_holds_the_key(office: Office) -> None:
    """Record every request to Prefect's server: all of them go through httpx."""
    url, file = office.environ["TREASURY_BASE_URL"], office.environ["TREASURY_PRIVATE_KEY_FILE"]
    line = ["connect", "--base-url", url, "--partner-id", PARTNER_ID, "--private-key", file, "--name", "listened"]
    code = (
        "import httpx, pathlib\nfrom flows.commands import run\nsent = []\n"
        "kept = httpx.AsyncClient.send, httpx.Client.send\n"
        "async def later(self, request, **more):\n    sent.append(bytes(request.content))\n"
        "    return await kept[0](self, request, **more)\n"
        "def now(self, request, **more):\n    sent.append(bytes(request.content))\n"
        "    return kept[1](self, request, **more)\n"
        "httpx.AsyncClient.send, httpx.Client.send = later, now\n"
        f"try:\n    run({line!r})\nfinally:\n    httpx.AsyncClient.send, httpx.Client.send = kept\n"
        f"key = pathlib.Path({file!r}).read_bytes().splitlines()[1]\n"
        "print(sum(b'private_key_file' in each for each in sent) > 0, any(key in each for each in sent))\n"
    )
    assert office.python(code).out.splitlines()[-1] == "True False"


def test_a_block_that_stands_there_is_overwritten_only_when_that_is_said(office: Office) -> None:
    save = (
        "from blocks import PartnerAccount\n"
        "PartnerAccount(base_url='https://pay.example.com', partner_id='900077', private_key='key').save('theirs')\n"
    )
    assert "Error" not in office.python(save).err
    ended = connect(office, "theirs")
    refused(ended, "partner 900077 at https://pay.example.com, it holds a private key itself; nothing was changed")
    assert "--replace" in ended.err
    assert not (office.home / "account.json").exists()
    assert block(office, "theirs", "block.partner_id") == "900077"
    assert connect(office, "theirs", "--replace").code != 2
    assert block(office, "theirs", "block.partner_id, block.private_key") == f"{PARTNER_ID} None"
    assert "Prefect block partner-account/theirs" in connect(office, "theirs").out  # it says the same


def test_a_block_with_an_entry_that_is_none_is_named_and_can_be_replaced(office: Office) -> None:
    save = (
        "from blocks import PartnerAccount\n"
        "class Wider(PartnerAccount):\n    _block_type_name = 'Partner Account'\n    hash: str\n"
        "Wider(base_url='https://pay.example.com', partner_id='900077', hash='SHA256').save('odd')\n"
    )
    assert "Error" not in office.python(save).err
    refused(connect(office, "odd"), "hash is not known; did you mean service.hash?; nothing was changed")
    assert connect(office, "odd", "--replace").code != 2
    assert block(office, "odd", "block.partner_id") == PARTNER_ID


def test_a_block_without_a_key_uses_the_environments(office: Office) -> None:
    save = (
        "from blocks import PartnerAccount\n"
        f"PartnerAccount(base_url={office.environ['TREASURY_BASE_URL']!r}, partner_id='1').save('bare')\n"
    )
    assert "Error" not in office.python(save).err
    file = Path(office.environ["TREASURY_PRIVATE_KEY_FILE"])
    assert block(office, "bare", "block.get_account().private_key") == file.read_text().strip()
    code = (
        "from blocks import PartnerAccount\nfrom treasury.errors import ConfigurationError\n"
        "try:\n    PartnerAccount.load('bare').get_account()\nexcept ConfigurationError as error:\n    print(error)\n"
    )
    assert "names no private key" in office.python(code, TREASURY_PRIVATE_KEY_FILE="").out


def test_a_key_file_that_is_not_there_is_named_in_words(office: Office, sandbox: RunningSandbox) -> None:
    line = ["connect", "--base-url", sandbox.base_url, "--partner-id", "1", "--private-key", "nowhere.pem"]
    ended = office.run(*line)
    assert (ended.code, "nowhere.pem cannot be read: No such file or directory" in ended.err) == (2, True), ended.err


def test_a_key_file_that_holds_no_key_is_named(office: Office, tmp_path: Path) -> None:
    """The key of another program said what it was not, and not which file it stood in."""
    bad = tmp_path / "other.pem"
    bad.touch(0o600)
    bad.write_text("not a key!")
    for which in ("private", "platform"):
        ended = office.run("balance", **{f"TREASURY_{which.upper()}_KEY_FILE": str(bad)})
        assert ended.code == 2, ended.out
        assert f"the {which} key file {bad}: the " in ended.err


def test_an_account_that_the_ledger_refuses_is_not_saved(office: Office, sandbox: RunningSandbox) -> None:
    """The one that worked was gone: each command, and the night, was refused until somebody connected again."""
    assert office.run("stop", "--by", "Ada Example", "--why", "a decision, so that the ledger is in use").code == 0
    key = office.environ["TREASURY_PRIVATE_KEY_FILE"]
    bare = {"TREASURY_BASE_URL": "", "TREASURY_PARTNER_ID": "", "TREASURY_PRIVATE_KEY_FILE": "", "PREFECT_API_URL": ""}
    line = ["connect", "--base-url", sandbox.base_url, "--private-key", key, "--partner-id"]
    assert office.run(*line, PARTNER_ID, **bare).code == 0
    before = (office.home / "account.json").read_text()
    ended = office.run(*line, "1234567", **bare)
    assert (ended.code, "this ledger belongs to partner" in ended.err) == (2, True), ended.err
    assert (office.home / "account.json").read_text() == before


def test_connect_names_the_account_that_it_asked(office: Office, sandbox: RunningSandbox) -> None:
    """The environment wins: `connect` asked its service, and said that the other one had answered."""
    key = office.environ["TREASURY_PRIVATE_KEY_FILE"]
    line = ["connect", "--base-url", "http://127.0.0.1:9", "--partner-id", "1", "--private-key", key]
    ended = office.run(*line, PREFECT_API_URL="")
    assert f"connected: partner {PARTNER_ID} at {sandbox.base_url}: " in ended.out, ended.out
    assert "of the environment says otherwise, and wins" in " ".join(ended.out.split())
