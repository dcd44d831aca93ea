"""The command line itself: help, what is imported when, and bad input that names its place and sends nothing."""

import csv
import dataclasses
import importlib
import inspect
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cyclopts import App

import data
from flows.commands import COMMANDS, build_app, run
from tests.commands.office import HEADER, Ended, Office, one_line_error
from treasury.provider.catalogue import CATALOGUE
from treasury.sandbox import RunningSandbox

every_command = pytest.mark.parametrize("name", COMMANDS)


@pytest.fixture(scope="module")
def office(sandbox: RunningSandbox, open_office: Callable[..., Office]) -> Office:
    """A home whose commands must never need Prefect: an API that is not there would fail them."""
    return open_office(sandbox.base_url, prefect=False, PREFECT_API_URL="http://127.0.0.1:9/api")


@pytest.fixture(autouse=True)
def _nothing_reaches_the_service(sandbox: RunningSandbox) -> Iterator[None]:
    """Nothing in this module may send."""
    yield
    assert sandbox.orders() == []


@every_command
def test_every_command_explains_itself(name: str, office: Office) -> None:
    ended = office.run(name, "--help")
    assert (ended.code, ended.err) == (0, "")
    assert f"Usage: treasury {name}" in ended.out


@every_command
def test_every_option_is_documented(name: str) -> None:
    module, function = COMMANDS[name][0].split(":")
    found = getattr(importlib.import_module(f"flows.commands.{module}"), function)
    commands = (
        [found[each].default_command for each in found if not each.startswith("-")]
        if isinstance(found, App)
        else [found]
    )
    for command in commands:
        assert callable(command)
        documentation = inspect.getdoc(command) or ""
        assert documentation
        for parameter, given in inspect.signature(command).parameters.items():
            if dataclasses.is_dataclass(given.annotation):  # options that several commands share
                documented = {
                    each.name: inspect.getdoc(given.annotation) for each in dataclasses.fields(given.annotation)
                }
            else:
                documented = {parameter: documentation}
            for option, text in documented.items():
                described = str(text).partition(f"\n{option}:\n")[2]
                assert described.startswith("    "), f"{name}: {option} is not described"


def test_the_help_lists_every_command_and_every_exit_code(office: Office) -> None:
    ended = office.run("--help")
    assert ended.code == 0
    for name in COMMANDS:
        assert name in ended.out
    for code in range(7):
        assert f"{code} " in ended.out
    assert office.run().out == ended.out


def test_the_version_is_the_distributions(office: Office) -> None:
    from importlib.metadata import version

    assert office.run("--version").out.strip() == version("treasury-flows")


def test_the_app_has_no_command_that_the_table_lacks() -> None:
    assert {name for name in build_app() if not name.startswith("-")} == set(COMMANDS)


def test_reading_commands_import_no_prefect_and_flows_that_pay_no_pandas(
    office: Office, tmp_path: Path, sandbox: RunningSandbox
) -> None:
    sheet = data.path("beneficiaries.csv")
    key = tmp_path / "platform.pem"
    key.write_text(sandbox.platform_key)
    body = tmp_path / "body.json"
    body.write_text("{}")
    commands: list[tuple[int, list[Any]]] = [
        (0, ["pay", sheet, "--run-key", "r-1", "--dry-run"]),
        (3, ["pay", sheet, "--run-key", "r-1"]),
        (0, ["rebalance", "--policy", data.path("treasury_policy.toml"), "--dry-run"]),
        (0, ["call", "--list"]),
        (0, ["call", "remittance_purposes"]),
        (3, ["call", "withdraw", "--json", json.dumps(WITHDRAWAL)]),
        (0, ["runs"]),
        (2, ["show", "nothing"]),
        (2, ["check-notification", body, "--platform-key", key]),
        (2, ["reconcile", "--window", "-1"]),
    ]
    code = (
        "import sys\nfrom flows.commands import run\n"
        f"for code, arguments in {[(code, [str(each) for each in line]) for code, line in commands]!r}:\n"
        "    assert run(arguments) == code, arguments\n"
        "    assert 'prefect' not in sys.modules, arguments\n"
        "    assert 'pandas' not in sys.modules, arguments\n"
        "import flows.pay_beneficiaries, flows.pay_qr_codes, flows.withdraw_assets, flows.rebalance_treasury\n"
        "assert 'pandas' not in sys.modules, 'a flow that pays'\n"
        "print('all')\n"
    )
    ended = office.process(code, runs="-c")
    assert ended.code == 0, ended.err
    assert ended.last == "all"


WITHDRAWAL = {
    "request_id": "w-1",
    "currency": "USDT_TRC20",
    "amount": "25",
    "customer_ref_id": "c-1",
    "address": "TGTBAaw5mwpcLyqLpBb69noTtUfpqwzRZK",
}

ROW = "a,direct,10,USDT_TRC20,IDR,bank_transfer,12345670001,Example Person,ID,1000120,0812000,p@example.com"

BAD_SHEETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "empty": ("", ("is empty",)),
    "no rows": (HEADER + "\n", ("has no rows",)),
    "no header": (ROW + "\n", ("has no column names",)),
    "unknown column": (HEADER.replace("amount", "amonut") + "\n" + ROW + "\n", ("amonut", "did you mean amount")),
    "wrong amount": (HEADER + "\n" + ROW.replace(",10,", ',"1,250.00",') + "\n", ("row 2 (a)", "amount")),
    "no account": (HEADER + "\n" + ROW.replace("12345670001", "") + "\n", ("row 2 (a)", "account_no", "required")),
    "zero": (HEADER + "\n" + ROW.replace(",10,", ",0,") + "\n", ("row 2 (a)", "amount", "greater than zero")),
    "twice": (HEADER + "\n" + ROW + "\n" + ROW + "\n", ("row 3 (a)", "row_ref", "row 2")),
    "quoted without quote": (
        HEADER + "\n" + ROW.replace("direct", "quoted") + "\n",
        ("row 2 (a)", "quote_mode"),
    ),
}


@pytest.fixture(scope="module")
def bad_sheets(office: Office) -> dict[str, Ended]:
    lines = {}
    for number, (case, (text, _)) in enumerate(BAD_SHEETS.items()):
        file, out = office.file(f"bad{number}.csv", text), office.home / f"out-{case}"
        lines[case] = ["pay", str(file), "--run-key", "bad", "--yes", "--out", str(out)]
    return office.run_all(lines)


@pytest.mark.parametrize("case", BAD_SHEETS)
def test_a_bad_sheet_ends_with_2_and_names_the_place(case: str, office: Office, bad_sheets: dict[str, Ended]) -> None:
    ended, out = bad_sheets[case], office.home / f"out-{case}"
    assert ended.code == 2
    said = one_line_error(ended)
    for part in ("bad", "nothing was sent", *BAD_SHEETS[case][1]):
        assert part in said
    assert str(out / "errors.csv") in ended.out
    with (out / "errors.csv").open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert rows
    assert list(rows[0]) == ["row", "row_ref", "column", "rule", "value", "code"]
    assert all(row["column"] and row["rule"] for row in rows)
    assert not (out / "plan.json").exists()


def test_the_error_report_has_a_line_for_every_wrong_cell_and_hides_accounts(office: Office) -> None:
    rows = [ROW, ROW.replace("a,", "b,", 1).replace(",10,", ",-3,").replace("0812000", "")]
    rows += [ROW.replace("a,", "c,", 1).replace("Example Person", "Al").replace("1000120", "")]
    file, out = office.file("three.csv", "\n".join([HEADER, *rows])), office.home / "three"
    assert office.run("pay", file, "--run-key", "three", "--out", out).code == 2
    with (out / "errors.csv").open(newline="") as opened:
        found = [(row["row"], row["row_ref"], row["column"], row["value"]) for row in csv.DictReader(opened)]
    assert {each[:3] for each in found} == {
        *(("3", "b", "amount"), ("3", "b", "phone"), ("4", "c", "account_name"), ("4", "c", "bank_code"))
    }
    assert "Al" not in {each[3] for each in found}
    assert oct((out / "errors.csv").stat().st_mode & 0o777) == "0o600"


def key_text(office: Office) -> str:
    return Path(office.environ["TREASURY_PRIVATE_KEY_FILE"]).read_text()


def bad_commands() -> dict[str, tuple[list[str], str]]:
    """Command lines that cannot work, and what the answer names. `{home}` is the office's, `{sheet}` a good sheet."""
    pay, policy = ["pay", "{sheet}", "--run-key"], str(data.path("treasury_policy.toml"))
    return {
        "no such command": (["payy"], "payy"),
        "no such option": ([*pay, "r-1", "--yess"], "yess"),
        "pay without a run key": (["pay", "{sheet}"], "run-key"),
        "pay with a path as its run key": ([*pay, "../r-1"], "../r-1"),
        "pay with an empty run key": ([*pay, ""], "run key"),
        "pay a file that is not there": (["pay", "{home}/none.csv", "--run-key", "r-1"], "none.csv"),
        "pay a folder": (["pay", "{home}", "--run-key", "r-1"], "{home}"),
        "pay with a policy that is not there": ([*pay, "r-1", "--policy", "{home}/none.toml"], "none.toml"),
        "pay with a follow that is no number": ([*pay, "r-1", "--follow", "soon"], "soon"),
        "pay with a negative follow": ([*pay, "r-1", "--follow", "-5"], "follow"),
        "pay with a follow that is not a number": ([*pay, "r-1", "--follow", "nan"], "follow"),
        "check a policy by days to come": (["policy", "check", policy, "--days", "-5"], "--days"),
        "rebalance without its policy": (["rebalance", "--policy", "{home}/none.toml"], "none.toml"),
        "rebalance by a policy that is no TOML": (["rebalance", "--policy", "{home}/broken"], "broken"),
        "rebalance with balances that are not there": (
            ["rebalance", "--policy", policy, "--balances", "{home}/none.csv"],
            "none.csv",
        ),
        "rebalance with a broken balance": (
            ["rebalance", "--policy", policy, "--balances", "{home}/balances.csv"],
            "available",
        ),
        "provision a file that is not there": (["provision", "{home}/none.csv"], "none.csv"),
        "provision the wrong sheet": (["provision", "{sheet}"], "{sheet}"),
        **{
            f"{line[0]} with results in a file": ([*line, "--out", "{sheet}/results"], "{sheet} is a file")
            for line in (
                [*pay, "r-1"],
                ["withdraw", "{sheet}", "--run-key", "r-1"],
                ["scan-pay", "{sheet}", "--run-key", "r-1"],
                ["rebalance"],
                ["provision", "{sheet}"],
                ["addresses", "{sheet}"],
                ["collect", "{sheet}", "--run-key", "r-1"],
                ["reconcile"],
                ["report", "--month", "2026-10"],
                ["results", "r-1"],
            )
        },
        "reconcile an unknown run": (["reconcile", "--run-key", "none-such"], "none-such"),
        "reconcile a negative window": (["reconcile", "--window", "-1"], "--window"),
        "show what nobody knows": (["show", "none-such"], "none-such"),
        "call nothing": (["call"], "--list"),
        "a name in another encoding": (["stop", "--by", "Jos\udce9", "--why", "x"], "no text in UTF-8"),
        "call an unknown operation": (["call", "witdraw"], "withdraw"),
        "call with broken JSON": (["call", "withdraw", "--json", "{"], "--json"),
        "call with a list": (["call", "withdraw", "--json", "[]"], "--json"),
        "call with a file that is not there": (["call", "withdraw", "--json", "@{home}/none.json"], "none.json"),
        "call with a field too few": (["call", "withdraw", "--json", "{}", "--yes"], "request_id"),
        "call with a field too many": (["call", "partner_balance", "--json", '{"currency":"USDT","x":1}'], "x"),
        "connect to no URL": (
            ["connect", "--base-url", "example.com", "--partner-id", "1", "--private-key", "{key}"],
            "example.com",
        ),
        "connect without TLS": (
            ["connect", "--base-url", "http://api.example.com", "--partner-id", "1", "--private-key", "{key}"],
            "write https://api.example.com ",
        ),
        "connect with a password in the URL": (
            ["connect", "--base-url", "https://me:s3cret@h", "--partner-id", "1", "--private-key", "{key}"],
            "a user name or a password",
        ),
        "connect with a query": (
            ["connect", "--base-url", "https://h/?k=s3cret", "--partner-id", "1", "--private-key", "{key}"],
            "it holds a ?",
        ),
        "connect without a key": (
            ["connect", "--base-url", "https://h", "--partner-id", "1", "--private-key", "{home}/none.pem"],
            "none.pem",
        ),
        "connect with a key that is none": (
            ["connect", "--base-url", "https://h", "--partner-id", "1", "--private-key", "{home}/broken"],
            "key",
        ),
        "connect with an empty partner": (
            ["connect", "--base-url", "https://h", "--partner-id", " ", "--private-key", "{key}"],
            "partner id",
        ),
        "sandbox with an unknown fault": (["sandbox", "--fault", "meteor=1"], "meteor"),
        "sandbox with too much of a fault": (["sandbox", "--fault", "slow=2"], "slow=2"),
        "sandbox with a key that is not there": (["sandbox", "--public-key", "{home}/none.pem"], "none.pem"),
        "check a notification that is not there": (
            ["check-notification", "{home}/none.json", "--platform-key", "{platform}"],
            "none.json",
        ),
        "check a notification without a key": (
            ["check-notification", "{home}/broken", "--platform-key", "{home}/none.pem"],
            "none.pem",
        ),
        "check a notification that is no JSON": (
            ["check-notification", "{home}/broken", "--platform-key", "{platform}"],
            "not JSON",
        ),
    }


def places(office: Office, sandbox: RunningSandbox) -> dict[str, str]:
    return {
        "{home}": str(office.home),
        "{sheet}": str(office.sheet(("a", "10", "12345670001"))),
        "{key}": office.environ["TREASURY_PRIVATE_KEY_FILE"],
        "{platform}": str(office.file("platform.pem", sandbox.platform_key)),
    }


def placed(text: str, where: dict[str, str]) -> str:
    for mark, place in where.items():
        text = text.replace(mark, place)
    return text


@pytest.fixture(scope="module")
def bad_ones(office: Office, sandbox: RunningSandbox) -> dict[str, Ended]:
    """Return what became of every bad command."""
    office.file("broken", "neither TOML = nor JSON nor a key")
    office.file("balances.csv", "currency,available\nUSDT,much\n")
    where = places(office, sandbox)
    lines = {}
    for case, (arguments, _) in bad_commands().items():
        lines[case] = [placed(each, where) for each in arguments] + (["--yes"] if arguments[0] == "pay" else [])
    return office.run_all(lines)


@pytest.mark.parametrize("case", bad_commands())
def test_a_bad_command_ends_with_2_and_names_the_place(
    case: str, office: Office, sandbox: RunningSandbox, bad_ones: dict[str, Ended]
) -> None:
    ended = bad_ones[case]
    said = one_line_error(ended)
    assert ended.code == 2, said
    assert placed(bad_commands()[case][1], places(office, sandbox)) in said
    assert "s3cret" not in said
    assert not (office.home / "account.json").exists()


def test_without_an_account_the_answer_says_how_to_give_one(office: Office) -> None:
    ended = office.run("runs", TREASURY_BASE_URL="", TREASURY_PARTNER_ID="", TREASURY_PRIVATE_KEY_FILE="")
    assert ended.code == 2
    said = one_line_error(ended)
    for name in ("treasury connect", "TREASURY_BASE_URL", "TREASURY_PARTNER_ID", "TREASURY_PRIVATE_KEY_FILE"):
        assert name in said


def test_settings_that_cannot_be_read_end_with_2(office: Office, tmp_path: Path) -> None:
    assert "TREASURY_RESEND_AFTER_SECONDS" in one_line_error(office.run("runs", TREASURY_RESEND_AFTER_SECONDS="soon"))
    assert office.run("runs", TREASURY_RESEND_AFTER_SECONDS="-1").code == 2
    for variable in ("TREASURY_PROCESSES", "TREASURY_IN_FLIGHT"):
        for text in ("0", "many", "1001", "1.5"):
            ended = office.run("runs", **{variable: text})
            assert (ended.code, variable in one_line_error(ended)) == (2, True)
    (tmp_path / "account.json").touch(mode=0o600)
    (tmp_path / "account.json").write_text("[]")
    ended = office.run("runs", TREASURY_HOME=str(tmp_path))
    assert ended.code == 2
    assert "account.json" in one_line_error(ended)
    ended = office.run("runs", TREASURY_LEDGER_URL="nonsense://x")
    assert ended.code == 2, ended.err
    one_line_error(ended)


def test_a_ledger_belongs_to_one_account(office: Office) -> None:
    assert office.run("stop", "--by", "Ada Example", "--why", "an unused ledger is bound anew").code == 0
    assert office.run("stop", "--lift", "--by", "Ada Example").code == 0
    ended = office.run("runs", TREASURY_BASE_URL="http://127.0.0.1:9")
    assert ended.code == 2
    assert "account" in one_line_error(ended)


def test_the_catalogue_is_listed_with_effects(office: Office) -> None:
    ended = office.run("call", "--list")
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[-1] == "29 operations"
    for line, (name, operation) in zip(lines, CATALOGUE.items(), strict=False):
        assert line.split()[:2] == [name, operation.path]
        assert operation.effect.value in line


def test_connect_saves_the_path_of_the_key_and_not_the_key(office: Office, tmp_path: Path) -> None:
    key = office.environ["TREASURY_PRIVATE_KEY_FILE"]
    home = {"TREASURY_HOME": str(tmp_path), "TREASURY_BASE_URL": "", "TREASURY_PARTNER_ID": ""}
    home |= {"TREASURY_PRIVATE_KEY_FILE": "", "PREFECT_API_URL": ""}
    arguments = ["connect", "--base-url", "https://api.example.com/", "--partner-id", "7", "--private-key", key]
    ended = office.run(*arguments, **home)
    assert ended.code == 2  # nobody answers there
    assert ended.last.startswith("connected: partner 7 at https://api.example.com: the service did not answer")
    text = (tmp_path / "account.json").read_text()
    assert json.loads(text)["private_key_file"] == key
    assert json.loads(text)["base_url"] == "https://api.example.com"
    assert key_text(office).splitlines()[1] not in text
    assert oct((tmp_path / "account.json").stat().st_mode & 0o777) == "0o600"
    assert office.run("runs", **home).last == "0 runs"
    kept = json.loads(text) | {"ledger_key_file": str(tmp_path / "elsewhere.key"), "service": {"buy": "quote"}}
    (tmp_path / "account.json").write_text(json.dumps(kept))
    refused = office.run(*arguments, "--hash", "SHA256", **home)
    assert (refused.code, json.loads((tmp_path / "account.json").read_text())) == (2, kept)
    assert "elsewhere.key; put it back" in refused.err
    shutil.copy(tmp_path / "ledger.key", tmp_path / "elsewhere.key")
    office.run(*arguments, "--hash", "SHA256", **home)
    after = json.loads((tmp_path / "account.json").read_text())
    assert after == kept | {"service": {"buy": "quote", "hash": "SHA256"}}


def test_a_notification_is_believed_only_when_the_platform_signed_it(office: Office, key_pair: tuple[str, str]) -> None:
    from treasury.provider.signing import load_private_key, sign

    private, public = key_pair
    fields: dict[str, Any] = {"request_id": "r-1", "order_type": "payout", "status": "99"}
    fields["sign"] = sign(fields, load_private_key(private))
    key = office.file("their.pem", public)
    good = office.file("good.json", json.dumps(fields))
    ended = office.run("check-notification", good, "--platform-key", key)
    assert (ended.code, ended.last) == (0, "valid: the platform signed this (payout r-1)")
    bad = office.file("changed.json", json.dumps({**fields, "status": "44"}))
    ended = office.run("check-notification", bad, "--platform-key", key)
    assert ended.code == 2
    one_line_error(ended)


def test_a_shell_that_allows_no_accents_is_named(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: "ascii")
    assert run(["stop", "--by", "Jos\udcc3\udca9", "--why", "x"]) == 2
    assert "this shell's settings allow none: export PYTHONUTF8=1" in capsys.readouterr().err
