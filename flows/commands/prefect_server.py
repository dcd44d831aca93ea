"""A Prefect API for the flows of one command: the one that is configured, else one of our own, for this user alone.

The server of a single command has a one-time password. The server of `treasury serve` has one that is kept in the home;
commands of that home send it only to servers that were started from it.
"""

import base64
import fcntl
import importlib
import os
import secrets
import socket
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from treasury.clock import MACHINE
from treasury.concurrency.children import child
from treasury.errors import ConfigurationError, TreasuryError
from treasury.files import write_text
from treasury.private_files import close_to_others, make_folder, make_once, read_private, why_unread
from treasury.settings import home_folder, whole_path

SERVER_AUTH, CLIENT_AUTH = "PREFECT_SERVER_API_AUTH_STRING", "PREFECT_API_AUTH_STRING"
ORIGINS = ("PREFECT_SERVER_CORS_ALLOWED_ORIGINS", "PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS")
"""Prefect's two names for the origins whose pages may use a server; the second wins."""

USER = "treasury"


def prefect_home() -> Path:
    """Prefect's own folder."""
    return whole_path(os.environ.get("PREFECT_HOME") or "~/.prefect")


def pages_folder() -> Path:
    """Return where Prefect's server puts the pages of its dashboard."""
    return prefect_home() / "pages"


def configured(name: str) -> str | None:
    """A setting of Prefect as environment or active profile give it."""
    if os.environ.get(name):
        return os.environ[name]
    try:
        profiles = tomllib.loads((prefect_home() / "profiles.toml").read_text(encoding="utf-8"))
        profile = os.environ.get("PREFECT_PROFILE") or profiles.get("active", "")
        value = profiles.get("profiles", {}).get(profile, {}).get(name)
    except (OSError, tomllib.TOMLDecodeError):
        return None
    return str(value) if value else None


def password_file() -> Path:
    """Return where the password of the servers of this home is: one line, USER:PASSWORD."""
    return home_folder() / "prefect.auth"


def new_password() -> str:
    """A new random password in Prefect's form, USER:PASSWORD."""
    return f"{USER}:{secrets.token_urlsafe(24)}"


def kept_password() -> str:
    """The password of the servers of this home, made on first use.

    Raises `ConfigurationError` when it cannot be read, or others can read it.
    """
    file = password_file()
    try:
        if not file.exists():
            make_once(file, f"{new_password()}\n".encode())
        return read_private(file, "password file").decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the password file {file} cannot be read: {why_unread(error)}") from None


def remember_server(url: str) -> None:
    """Record a server that is started from this home, so that commands send it the password."""
    known = _known_servers()
    if url not in known:
        write_text(home_folder() / SERVERS, "".join(f"{each}\n" for each in sorted({*known, url})))


SERVERS = "prefect.servers"
"""File of the home that names the servers which it started."""


def _known_servers() -> set[str]:
    with suppress(OSError, UnicodeDecodeError):
        return set((home_folder() / SERVERS).read_text(encoding="ascii").split())
    return set()


def use_kept_password() -> None:
    """Let Prefect's client send the password, where the API in use is a server of this home; else change nothing.

    A password that the operator set is kept. Prefect reads the setting when it is imported.
    """
    url = (configured("PREFECT_API_URL") or "").rstrip("/").replace("//localhost:", "//127.0.0.1:")
    if url in _known_servers() and configured(CLIENT_AUTH) is None:
        os.environ[CLIENT_AUTH] = kept_password()


def identification(api: str) -> dict[str, str]:
    """The header by which a request says who we are; none where nothing is set. The password that is kept goes to the
    servers of this home alone."""
    key, password = configured("PREFECT_API_KEY"), configured(CLIENT_AUTH)
    if key is not None:
        return {"Authorization": f"Bearer {key}"}
    if password is None and api.replace("//localhost:", "//127.0.0.1:") in _known_servers():
        password = kept_password()
    return {} if password is None else {"Authorization": f"Basic {base64.b64encode(password.encode()).decode()}"}


def access_of(port: int, password: str) -> dict[str, str]:
    """Environment of a server on this port and of its clients; what the operator set is kept."""
    password = configured(SERVER_AUTH) or configured(CLIENT_AUTH) or password
    chosen = {SERVER_AUTH: password, CLIENT_AUTH: password}
    if not any(configured(name) for name in ORIGINS):
        chosen[ORIGINS[0]] = f"http://127.0.0.1:{port},http://localhost:{port}"
    return {name: value for name, value in chosen.items() if configured(name) is None}


@contextmanager
def changed_environment(changes: Mapping[str, str]) -> Iterator[None]:
    """These variables for as long as the block lasts."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


START_SECONDS = 120
"""Four first starts at once on one fresh home wait for each other's migration."""

SILENT_SECONDS = 60
"""How long a configured server that takes a question may be silent; where none is, a connection is refused at once."""

QUIET = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    # A failed flow reaches the person as one line of ours, not as Prefect's traceback; so does what the embedded server
    # could not write in time ("Error flushing 1 events"), which its own retry writes later.
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    # Else each event is printed whole that a server which ended did not get.
    "PREFECT_INTERNAL_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    # Of commands that run beside each other on a slow disk one waits for the other, and longer than Prefect's 10 s.
    "PREFECT_SERVER_DATABASE_TIMEOUT": "60",
}


class PrefectDidNotStart(TreasuryError):
    """The embedded server did not answer; nothing was sent."""


class PrefectEnded(TreasuryError):
    """The server ended while a flow ran; what the flow did stands in the ledger."""


def configured_api() -> str | None:
    """The Prefect API that environment or active profile name."""
    return configured("PREFECT_API_URL")


def prepare_environment() -> None:
    """Return what must be set before Prefect is imported. What the operator set stays."""
    home = prefect_home()
    make_folder(home)
    close_to_others([home, *home.iterdir()])  # others cannot go deeper then
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    # Prefect would copy its pages beside its own code, where the next user of this installation could not read them.
    os.environ.setdefault("PREFECT_UI_STATIC_DIRECTORY", str(pages_folder()))
    use_kept_password()


@contextmanager
def prefect_api(*meanwhile: str) -> Iterator[None]:
    """Run flows of this block against a Prefect API. An embedded one needs no service and leaves none behind.

    `meanwhile`: modules that the flow needs, imported while an embedded one starts; both take seconds.
    """
    prepare_environment()
    api = configured_api()
    if api is not None:
        if not answers(f"{api}/health", SILENT_SECONDS):
            raise ConfigurationError(f"no Prefect server answers at {api}; nothing was sent")
        _check_password(api)
        with _told_if_it_ends():
            yield
        return
    print("starting Prefect ...", flush=True)
    port = free_port()
    # Set before Prefect is imported: it reads this once, and without it would start a server of its own beside ours.
    changes = {"PREFECT_API_URL": f"http://127.0.0.1:{port}/api", **access_of(port, new_password())}
    with changed_environment(changes), _first_start(), _embedded_server(port, meanwhile), _told_if_it_ends():
        yield


@contextmanager
def _told_if_it_ends() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        from httpx import TransportError  # Prefect's own; the service's are errors of ours

        if not isinstance(error, TransportError):
            raise
        raise PrefectEnded(
            f"Prefect's server does not answer any more ({type(error).__name__}): start the same command again; what "
            "was sent stands in the ledger, and nothing is sent twice"
        ) from None


@contextmanager
def _embedded_server(port: int, meanwhile: Iterable[str]) -> Iterator[None]:
    arguments = ["--factory", "prefect.server.api.server:create_app", "--host", "127.0.0.1", "--port", str(port)]
    environ = os.environ | {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
    with child("uvicorn", [*arguments, "--log-level", "critical", "--lifespan", "on"], environ) as process:
        for module in ("prefect", *meanwhile):
            importlib.import_module(module)
        url = os.environ["PREFECT_API_URL"]
        deadline = MACHINE.monotonic() + START_SECONDS
        while not (answers(f"{url}/health") and _is_ready()):
            if process.poll() is not None or MACHINE.monotonic() > deadline:
                raise PrefectDidNotStart(
                    f"Prefect's embedded server did not start within {START_SECONDS} s; nothing was sent: start again"
                )
            MACHINE.sleep(0.05)
        _release_first_start()
        try:
            yield
        finally:
            from tasks.run_log import flush_run_log

            flush_run_log()


def _is_ready() -> bool:
    """Tell whether Prefect's own client reaches the server: it asks once a process, and gives up for good if it does
    not."""
    from prefect.client.orchestration import get_client

    try:
        with get_client(sync_client=True) as client:
            client.raise_for_api_version_mismatch_once()
    except (RuntimeError, OSError):
        return False
    return True


def _check_password(api: str) -> None:
    """Raise `ConfigurationError` when a server wants a password that is not the one we have."""
    if configured("PREFECT_API_KEY") is not None:
        return
    request = urllib.request.Request(f"{api}/version", headers=identification(api))  # noqa: S310 - of ours, or the operator's
    try:
        with urllib.request.urlopen(request, timeout=5):  # noqa: S310 - the same
            return
    except urllib.error.HTTPError as error:
        if error.code == 401:
            raise ConfigurationError(
                f"the Prefect server at {api} asks for a password: set {CLIENT_AUTH}; nothing was sent"
            ) from None
    except (urllib.error.URLError, OSError, ValueError):
        return


def answers(url: str, seconds: float = 5) -> bool:
    """Tell whether a server is there and answers in time; one that asks who we are is."""
    try:
        with urllib.request.urlopen(url, timeout=seconds):  # noqa: S310 - a server of ours, or one the operator named
            return True
    except urllib.error.HTTPError:
        return True
    except (urllib.error.URLError, OSError, ValueError):
        return False


_starting: list[int] = []


@contextmanager
def _first_start() -> Iterator[None]:
    """Let one server at a time start on this Prefect home: two first starts race in its migration."""
    descriptor = os.open(prefect_home() / "treasury-start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    _starting.append(descriptor)
    try:
        yield
    finally:
        _release_first_start()


def _release_first_start() -> None:
    while _starting:
        os.close(_starting.pop())


def free_port() -> int:
    """A free loopback port outside 8000-8999, where Prefect picks its own."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if not 8000 <= port <= 8999:
            return port
