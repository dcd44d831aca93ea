"""An account says where the service is; an address that cannot be one is told before anything is signed."""

import pytest

from treasury.errors import ConfigurationError
from treasury.interface.client import Account


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "//example.com",
        "ftp://example.com",
        "https://",
        "https://:8443",
        "https://exam ple.com",
        "https://example.com\n",
        "http://[::1",
        "https://example.com:port",
        "https://example.com:99999",
        "https://example.com:0",
    ],
)
def test_what_is_no_address_of_a_service_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="the base URL must be an address like https://"):
        Account(url, "900001", "")


@pytest.mark.parametrize(
    ("url", "used"),
    [
        ("https://pay.example.com", "https://pay.example.com"),
        ("https://pay.example.com/", "https://pay.example.com"),
        ("HTTPS://pay.example.com:8443/api/", "HTTPS://pay.example.com:8443/api"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_the_path_of_an_operation_follows_the_address(url: str, used: str) -> None:
    assert Account(url, "900001", "").base_url == used
