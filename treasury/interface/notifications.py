"""Notifications: what the platform sends to `notify_url`, verified over whatever fields arrived (public fact 1.5)."""

from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa

from treasury.errors import InputError
from treasury.interface.envelope import read_json
from treasury.interface.signing import SigningRules, verify


def read_notification(
    body: bytes,
    key: rsa.RSAPublicKey,
    rules: SigningRules = SigningRules(),
) -> Mapping[str, Any]:
    """Read a notification and check that the platform signed it.

    Raises `InputError` when it is not a JSON object, `NotTrusted` when the signature does not match.
    """
    try:
        fields = read_json(body)
    except (ValueError, RecursionError):
        raise InputError("the notification is not JSON") from None
    if not isinstance(fields, dict):
        raise InputError("the notification is not a JSON object")
    verify(fields, key, rules)
    return fields
