"""Restricts access to our Prefect servers: a password, and no pages of other origins.

The server of a single command has a one-time password. The server of `treasury serve` has one that is kept in the home;
commands of that home send it only to servers that were started from it.
"""

import base64
import os
import secrets
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from treasury.errors import ConfigurationError
from treasury.files import write_text
from treasury.private_files import make_once, read_private, why_unread
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
