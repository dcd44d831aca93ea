"""Files that commands are given: one that never ends, a pipe without a writer and a folder end them with code 2."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import data
from tests.commands.office import Office
from treasury.private_files import MAX_SMALL_BYTES, FileTooLarge, read_bounded
from treasury.sandbox import RunningSandbox

COMMANDS = {
    "pay": ("pay", "{file}", "--run-key", "x", "--yes"),
    "a policy of pay": ("pay", data.path("beneficiaries.csv"), "--run-key", "x", "--policy", "{file}", "--yes"),
    "policy check": ("policy", "check", "{file}"),
    "policy adopt": ("policy", "adopt", "{file}", "--by", "Owner"),
    "provision": ("provision", "{file}", "--yes"),
    "balances": ("rebalance", "--policy", data.path("treasury_policy.toml"), "--balances", "{file}", "--yes"),
    "statement": ("reconcile", "--statement", "{file}"),
    "call": ("call", "partner_balance", "--json", "@{file}"),
    "notification": ("check-notification", "{file}", "--platform-key", "{key}"),
    "platform key": ("check-notification", "{key}", "--platform-key", "{file}"),
    "key": ("call", "withdraw", "--json", "{withdrawal}", "--key", "{file}", "--yes"),
    "template": ("pay", "{file}", "--run-key", "x", "--valid-rows-only", "--yes"),
}
WITHDRAWAL = {"request_id": "w", "currency": "USDT", "amount": "1", "customer_ref_id": "c", "address": "T" + "e" * 33}


@pytest.fixture(scope="module")
def office(open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]) -> Office:
    office = open_office(open_sandbox().base_url)
    os.mkfifo(office.home / "pipe")
    (office.home / "folder").mkdir()
    return office


@pytest.mark.parametrize("file", ["/dev/zero", "pipe", "folder"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_does_not_end_ends_the_command(command: str, file: str, office: Office) -> None:
    key = office.environ["TREASURY_PRIVATE_KEY_FILE"]
    path = file if file.startswith("/") else str(office.home / file)
    given = [
        str(each).replace("{file}", path).replace("{key}", key).replace("{withdrawal}", json.dumps(WITHDRAWAL))
        for each in COMMANDS[command]
    ]
    ended = office.run(*given)
    assert ended.code == 2, ended.out + ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("variable", ["TREASURY_PRIVATE_KEY_FILE", "TREASURY_PLATFORM_KEY_FILE"])
@pytest.mark.parametrize("file", ["/dev/zero", "pipe", "folder"])
def test_a_key_file_that_does_not_end_does_so_too(variable: str, file: str, office: Office) -> None:
    path = file if file.startswith("/") else str(office.home / file)
    ended = office.run("call", "partner_balance", "--json", '{"currency": "USDT"}', **{variable: path})
    assert ended.code == 2, ended.out + ended.err


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"key")
    os.close(writer)
    assert read_bounded(Path(f"/dev/fd/{reader}")) == b"key"
    os.close(reader)
    large = tmp_path / "large"
    large.write_bytes(b"x" * (MAX_SMALL_BYTES + 1))
    with pytest.raises(FileTooLarge, match="more than 1,000,000 bytes"):
        read_bounded(large)
