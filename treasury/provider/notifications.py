"""Notifications: what the platform sends to `notify_url`, verified over whatever fields arrived (public fact 1.5)."""

from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa

from treasury.errors import InputError
from treasury.provider.bounded_json import read_json_as_it_is
from treasury.provider.service_rules import ServiceRules
from treasury.provider.signing import verify
from treasury.texts import clean_members


def read_notification(
    body: bytes,
    key: rsa.RSAPublicKey,
    rules: ServiceRules = ServiceRules(),
) -> Mapping[str, Any]:
    """Read a notification and check that the platform signed it; its texts come back without unsafe characters.

    Raises `InputError` when it is not a JSON object, `NotTrusted` when the signature does not match.
    """
    try:
        fields = read_json_as_it_is(body)
    except ValueError:
        raise InputError("the notification is not JSON") from None
    if not isinstance(fields, dict):
        raise InputError("the notification is not a JSON object")
    verify(fields, key, rules)
    cleaned: Mapping[str, Any] = clean_members(fields)
    return cleaned
