"""An account says where the service is; an address that cannot be one is told before anything is signed."""

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treasury.errors import ConfigurationError
from treasury.provider.address import canonical_account, canonical_url
from treasury.provider.client import Account


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("", "https://"),
        ("example.com", "https://"),
        ("//example.com", "https://"),
        ("ftp://example.com", "https://"),
        ("https://", "no host"),
        ("https://:8443", "no host"),
        ("https://exam ple.com", "whitespace"),
        ("https://example.com\n", "whitespace"),
        ("https://example.com/a\tb", "whitespace"),
        ("https://example.com/\x00", "control character"),
        ("https://example.com/\u200b", "control character"),
        ("http://[::1", "IPv6"),
        ("https://[fe80::1%25eth0]", "host"),
        ("https://[v1.x]", "IP"),
        ("https://example.com:port", "port"),
        ("https://example.com:99999", "port"),
        ("https://example.com:0", "port"),
        ("https://example.com:-1", "port"),
        ("https://example..com", "host"),
        ("https://-example.com", "host"),
        ("https://exam%70le.com", "host"),
        ("https://example.com\\path", "host"),
        ("https://127.1", "IP address"),
        ("https://2130706433", "IP address"),
        ("https://0x7f000001", "IP address"),
        ("https://127.0.0.01", "IP address"),
        ("https://example.com?x=1", r"\?"),
        ("https://example.com/#x", "#"),
        ("https://example.com/..", r"\.\."),
        ("https://example.com/a/../b", r"\.\."),
        ("https://example.com/%2e%2e/b", "path"),
        ("https://example.com/a\\..\\b", "path"),
        ("https://example.com/a|b", "path"),
        ("https://example.com/\N{LATIN SMALL LETTER E WITH ACUTE}", "path"),
    ],
)
def test_what_is_no_address_of_a_service_is_refused(url: str, named: str) -> None:
    with pytest.raises(ConfigurationError, match=f"the base URL must be an address like https://.*{named}"):
        Account(url, "900001", "")


@pytest.mark.parametrize(
    "url",
    [
        "https://me:s3cret@pay.example.com",
        "https://s3cret@pay.example.com",
        "https://me:s3#cret@pay.example.com",
        "https://me:s3?cret@pay.example.com/x",
        "https://me:s3/cret@pay.example.com",
        "https://me:s3@cret@pay.example.com",
        "https://me:s3 cret@pay.example.com",
        "ftp://me:s3cret@pay.example.com",
    ],
)
def test_a_password_in_an_address_is_refused_and_never_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Account(url, "900001", "")
    assert "s3" not in str(refused.value)
    assert "cret" not in str(refused.value)
    assert "pay.example.com" in str(refused.value)


def test_a_token_in_a_query_is_not_repeated() -> None:
    for mark in "?#":
        with pytest.raises(ConfigurationError) as refused:
            Account(f"https://pay.example.com/{mark}token=s3cret", "900001", "")
        assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "instead"),
    [
        ("http://pay.example.com", "https://pay.example.com"),
        ("http://pay.example.com:8080/api/", "https://pay.example.com:8080/api"),
        ("HTTP://10.0.0.7", "https://10.0.0.7"),
        ("http://128.0.0.1", "https://128.0.0.1"),
        ("http://0.0.0.0", "https://0.0.0.0"),
        ("http://[::]", "https://[::]"),
        ("http://[::ffff:10.0.0.7]", "https://[::ffff:a00:7]"),
        ("http://localhost.example.com", "https://localhost.example.com"),
        ("http://127.0.0.1.example.com", "https://127.0.0.1.example.com"),
    ],
)
def test_another_machine_is_reached_over_tls_alone(url: str, instead: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Account(url, "900001", "")
    assert f"write {instead} " in str(refused.value)


@pytest.mark.parametrize(
    ("url", "used"),
    [
        ("https://pay.example.com", "https://pay.example.com"),
        ("https://pay.example.com/", "https://pay.example.com"),
        ("HTTPS://Pay.Example.COM:443/", "https://pay.example.com"),
        ("https://pay.example.com.", "https://pay.example.com"),
        ("https://pay.example.com:", "https://pay.example.com"),
        ("https://pay.example.com:0443", "https://pay.example.com"),
        ("https://pay.example.com:80", "https://pay.example.com:80"),
        ("HTTPS://pay.example.com:8443/api/", "https://pay.example.com:8443/api"),
        ("https://pay.example.com/API/v1//", "https://pay.example.com/API/v1"),
        ("https://B\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.example", "https://xn--bcher-kva.example"),
        ("https://XN--bcher-kva.example", "https://xn--bcher-kva.example"),
        ("https://[2001:DB8:0:0::0001]:443", "https://[2001:db8::1]"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://127.9.9.9:80", "http://127.9.9.9"),
        ("http://LOCALHOST:8080", "http://localhost:8080"),
        ("http://[0:0:0:0:0:0:0:1]:8080", "http://[::1]:8080"),
        ("http://pay_service.localhost", None),
    ],
)
def test_an_address_has_one_form_and_the_path_of_an_operation_follows_it(url: str, used: str | None) -> None:
    if used is None:
        with pytest.raises(ConfigurationError):
            Account(url, "900001", "")
        return
    account = Account(url, "900001", "")
    assert account.base_url == used
    assert account.identity == f"{used}|900001"
    assert Account(used, "900001", "").base_url == used


HOST = r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?(\.[a-z]([a-z0-9-]{0,8}[a-z0-9])?){0,2}"
HOSTS = st.from_regex(HOST, fullmatch=True, alphabet=st.characters(codec="ascii"))
PATHS = st.lists(st.text(string.ascii_letters + string.digits, min_size=1, max_size=5), max_size=3)


@given(HOSTS, st.sampled_from(["", ":443", ":8443"]), PATHS, st.data())
def test_however_an_address_is_written_it_is_one_account(host: str, port: str, path: list[str], data: Any) -> None:
    plain = "/".join([f"https://{host}{'' if port == ':443' else port}", *path])
    scheme = data.draw(st.sampled_from(["https", "HTTPS", "Https"]))
    shouted = "".join(each.upper() if data.draw(st.booleans()) else each for each in host)
    written = "/".join([f"{scheme}://{shouted}{port}", *path]) + data.draw(st.sampled_from(["", "/"]))
    assert canonical_url(written) == canonical_url(plain) == plain
    assert canonical_account(f"{written}|1") == f"{plain}|1"


@given(st.text(max_size=30))
def test_whatever_is_written_is_an_address_in_its_one_form_or_refused(text: str) -> None:
    try:
        url = canonical_url(text)
    except ConfigurationError:
        assert canonical_account(f"{text}|1") == f"{text}|1"
        return
    assert canonical_url(url) == url
