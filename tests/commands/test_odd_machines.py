"""Commands on machines that somebody else set up: a company's proxy, streams that are closed, homes with odd names."""

import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.commands.office import Office, one_line_error
from treasury.concurrency.children import importing_ours
from treasury.sandbox import RunningSandbox


@contextmanager
def a_proxy() -> Iterator[tuple[str, list[bytes]]]:
    """A proxy that leads nowhere: its address, and what it was asked for."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as threads:

        def refuse() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    asked.append(connection.recv(1000))
                    connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

        threads.submit(refuse)
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}", asked
        finally:
            server.shutdown(socket.SHUT_RDWR)


@pytest.mark.prefect
@pytest.mark.costly("a command as a process")
@pytest.mark.parametrize("embedded", [False, pytest.param(True, marks=pytest.mark.proof)])
def test_a_companys_proxy_is_asked_for_nothing_of_this_machine(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office], *, embedded: bool
) -> None:
    """Prefect's server was asked for by way of the proxy, an embedded one with its password, and never found."""
    office = open_office(open_sandbox().base_url, own_prefect=embedded)
    sheet = office.sheet(("a", "1.00", "12345670001"))
    with a_proxy() as (proxy, asked):
        named = dict.fromkeys(("HTTP_PROXY", "http_proxy", "HTTPS_PROXY"), proxy)
        ended = office.process("pay", sheet, "--run-key", "p", "--yes", NO_PROXY="example.com", **named)
    assert (ended.code, ended.last, asked) == (0, "1 settled", [])


@pytest.fixture
def office(open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]) -> Office:
    """A home whose commands need no Prefect."""
    return open_office(open_sandbox().base_url, prefect=False)


def started_by_a_shell(office: Office, *arguments: object, with_streams: str, **changed: str) -> int:
    """Return the exit code of a command whose streams a shell closes or leads elsewhere."""
    line = shlex.join([sys.executable, "-m", "flows", *map(str, arguments)])
    done = subprocess.run(
        f"{line} {with_streams}", shell=True, env={**office.environ, **changed}, cwd=office.home, check=False
    )
    return done.returncode


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_changes_no_exit_code(closed: str, office: Office) -> None:
    """Each ended with a traceback and code 1, or 120."""
    sheet = office.sheet(("a", "1.00", "12345670001"))
    assert started_by_a_shell(office, "pay", sheet, "--run-key", "p", with_streams=closed) == 3
    assert (office.home / "runs/p/plan.json").exists()


@pytest.mark.parametrize(("command", "code"), [("runs", 1), ("show", 2)])
def test_output_on_a_full_disk_makes_no_exit_code_of_its_own(command: str, code: int, office: Office) -> None:
    """The interpreter made 120 of it as it ended."""
    arguments = (command, "nothing") if command == "show" else (command,)
    assert started_by_a_shell(office, *arguments, with_streams=">/dev/full 2>&1") == code


def test_what_has_no_place_in_the_encoding_of_a_terminal_is_escaped(office: Office) -> None:
    sheet = office.sheet(("a", "1.00", "12345670001"))
    sheet.write_text(sheet.read_text().replace("Example Person", "Łukasz Müller"))
    ended = office.process("pay", sheet, "--run-key", "p", "--dry-run", PYTHONIOENCODING="ascii")
    assert (ended.code, ended.err) == (0, "")
    assert r"\u0141ukasz M\xfcller" in ended.out


def test_a_home_whose_ledger_has_no_address_is_refused(office: Office, tmp_path: Path) -> None:
    """The ledger of `what?/home` was the file `what`, beside the home, and that of all homes that begin so."""
    home = tmp_path / "what?" / "home"
    assert "TREASURY_LEDGER_URL" in one_line_error(office.run("runs", TREASURY_HOME=str(home)))
    assert list(tmp_path.iterdir()) == []
    ended = office.run("runs", TREASURY_HOME=str(home), TREASURY_LEDGER_URL=f"sqlite:///{tmp_path / 'ledger.db'}")
    assert ended.code == 0


def test_a_home_of_nobody_that_the_machine_knows_is_named(office: Office) -> None:
    for named in ({"TREASURY_HOME": "~nobody-of-this-name"}, {"TREASURY_OUT_FOLDERS": "/srv:~nobody-of-this-name"}):
        assert "~nobody-of-this-name: this machine" in one_line_error(office.run("runs", **named))


def test_a_folder_that_went_while_one_stood_in_it_is_named(office: Office) -> None:
    lost = 'd=$(mktemp -d) && cd "$d" && rmdir "$d" && exec "$0" -m flows "$@"'
    words = ("pay", "sheet.csv", "--run-key", "p")
    done = subprocess.run(
        ["sh", "-c", lost, sys.executable, *words],
        env=importing_ours(office.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "the folder that this was started in" in done.stderr


def test_an_account_file_that_cannot_be_read_is_told_in_words(office: Office) -> None:
    file = office.home / "account.json"
    file.mkdir()
    assert one_line_error(office.run("runs")).rstrip().endswith("cannot be read: Is a directory")
    file.rmdir()
    office.file("account.json", "{").chmod(0o600)
    assert "cannot be read: it is no JSON (" in one_line_error(office.run("runs"))


@pytest.mark.parametrize("url", ["sqlite:///ledger.db", "sqlite:///:memory:", "sqlite:///~/ledger.db"])
def test_a_ledger_without_its_whole_path_is_refused(
    url: str, office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each folder that a command was started in had a ledger of its own: a night that saw nothing of what had left."""
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    for words in (("runs",), ("backup", "one.backup")):
        assert "sqlite:////folder/ledger.db" in one_line_error(office.run(*words, TREASURY_LEDGER_URL=url))
    assert set(tmp_path.iterdir()) == before


def test_a_ledger_whose_address_is_none_is_named(office: Office) -> None:
    for words in (("runs",), ("backup", "one.backup")):
        ended = office.run(*words, TREASURY_LEDGER_URL=str(office.home / "ledger.db"))
        assert "TREASURY_LEDGER_URL is not a database URL" in one_line_error(ended)
    assert "ledger    PROBLEM: TREASURY_LEDGER_URL" in office.run("doctor", TREASURY_LEDGER_URL="ledger.db").out


def test_a_ledger_that_cannot_be_opened_is_named(office: Office) -> None:
    """As on a disk that became read-only: here a folder is in the ledger's place."""
    file = office.home / "ledger.db"
    file.mkdir()
    for words in (("runs",), ("backup", "one.backup")):
        said = one_line_error(office.run(*words))
        assert (str(file) in said, "read-only" in said) == (True, True), said
