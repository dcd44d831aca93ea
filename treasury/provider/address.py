"""The address of a service: what may be one, and the one form of it by which an account is known.

`HTTPS://Host:443/`, `https://host` and `https://host/` are one address: scheme and host in lower case, the host in
ASCII (IDNA), no default port, no slash at the end.
"""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import SplitResult, urlsplit

from treasury.errors import ConfigurationError

DEFAULT_PORTS = {"http": 80, "https": 443}

_HOST = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""A last label by which programs take a host for an IPv4 address, in one notation or another."""
_PATH = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:/-]*")


def canonical_url(url: str) -> str:
    """The one form of a base URL. Raises `ConfigurationError` that names what is wrong, and repeats no password."""
    try:
        return _canonical(url)
    except ValueError as error:
        raise ConfigurationError(
            f"the base URL must be an address like https://pay.example.com: {error} (got {_without_secrets(url)!r})"
        ) from None


def check_transport(url: str) -> None:
    """Raise `ConfigurationError` for `http://` to any machine but this one; `url` is a canonical one."""
    if url.startswith("http://") and not is_loopback(url):
        raise ConfigurationError(
            f"the base URL {url} has no TLS, so whoever is on the way can read and change payments: write "
            f"https://{url.removeprefix('http://')} (http:// is for a service on this machine alone: 127.0.0.1, [::1], "
            "localhost)"
        )


def is_loopback(url: str) -> bool:
    """Tell whether a canonical URL leads to this very machine: 127.0.0.0/8, ::1 or localhost."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def canonical_account(account: str) -> str:
    """`URL|partner` with the URL in its one form; a URL that is none stays as it is."""
    url, bar, partner = account.partition("|")
    try:
        return f"{_canonical(url)}{bar}{partner}"
    except ValueError:
        return account


def _canonical(url: str) -> str:
    if any(character.isspace() or not character.isprintable() for character in url):
        raise ValueError("it holds whitespace or a control character")
    if "@" in url:
        raise ValueError("it holds a user name or a password (@), which is no part of an account")
    for mark in "?#":
        if mark in url:
            raise ValueError(f"it holds a {mark}, and operations are added to its end")
    parts = urlsplit(url)
    if parts.scheme not in DEFAULT_PORTS:
        raise ValueError("it does not begin with https://")
    host, port = _host(parts), _port(parts)
    place = host if port in (None, DEFAULT_PORTS[parts.scheme]) else f"{host}:{port}"
    return f"{parts.scheme}://{place}{_path(parts.path)}"


def _port(parts: SplitResult) -> int | None:
    try:
        port = parts.port
    except ValueError:
        raise ValueError("its port is no number from 1 to 65535") from None
    if port == 0:
        raise ValueError("its port is no number from 1 to 65535")
    return port


def _host(parts: SplitResult) -> str:
    host = (parts.hostname or "").removesuffix(".")
    if not host:
        raise ValueError("it names no host")
    if "[" in parts.netloc and "%" not in host:  # no zone: it is a matter of one machine
        return f"[{_ip(host, IPv6Address)}]"
    if not host.isascii():
        host = _ascii(host)
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        return _ip(host, IPv4Address)
    if not _HOST.fullmatch(host) or len(host) > 253:
        raise ValueError("its host is no name of a host")
    return host


def _ip(host: str, kind: type[IPv4Address] | type[IPv6Address]) -> str:
    try:
        address = kind(host)
    except ValueError:
        raise ValueError("its host is no IP address") from None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return f"::ffff:{int(address) >> 16 & 0xFFFF:x}:{int(address) & 0xFFFF:x}"  # versions of Python differ in it
    return str(address)


def _ascii(host: str) -> str:
    import idna  # rarely needed, and slow to import

    try:
        return idna.encode(host, uts46=True).decode("ascii").removesuffix(".")
    except idna.IDNAError:
        raise ValueError("its host is no name of a host") from None


def _path(path: str) -> str:
    if any(part in (".", "..") for part in path.split("/")):
        raise ValueError("its path holds ..")
    if not _PATH.fullmatch(path):
        raise ValueError("its path holds a character that no path of a service needs")
    return path.rstrip("/")


def _without_secrets(url: str) -> str:
    """As much of a URL as may be shown: no user, no password, and nothing of a query, which may hold a token."""
    return re.split(r"[?#]", url.rpartition("@")[2])[0]
