"""Signing and verifying, exactly by recipe 1.2 of the public facts, requests and notifications alike."""

import base64
import binascii
import json
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from treasury.errors import ConfigurationError, InputError, NotTrusted
from treasury.provider.bounded_json import WrittenNumber, read_json_as_it_is
from treasury.provider.fields import is_blank
from treasury.provider.service_rules import ServiceRules
from treasury.texts import clean_members

SIGN = "sign"
"""The one top-level field that is not signed."""

HASHES: Mapping[str, hashes.HashAlgorithm] = {"SHA1": hashes.SHA1(), "SHA256": hashes.SHA256()}  # noqa: S303


def code_units(key: str) -> bytes:
    """Sort key of Java's String order: plain UTF-16 code units (public fact 1.2, step 3)."""
    return key.encode("utf-16-be", "surrogatepass")


def _in_order(keys: Mapping[str, Any]) -> list[str]:
    """The keys in Java's order; plain ASCII, which is nearly all there is, sorts the same without encoding."""
    return sorted(keys) if "".join(keys).isascii() else sorted(keys, key=code_units)


def clean(value: Any, rules: ServiceRules = ServiceRules()) -> Any:
    """Drop blank members and elements at every level and sort keys (public fact 1.2, steps 2, 6, 7, 12).

    An object or list that is empty, or becomes so, is dropped too: signing it is ambiguous (step 8).
    """
    if isinstance(value, str):  # nearly everything is; whether something is a mapping takes long to tell
        return value
    if isinstance(value, dict) or isinstance(value, Mapping):  # noqa: SIM101 - a union would ask in the slow way
        kept = {}
        for key in _in_order(value):
            member = value[key]
            if isinstance(member, str):
                if not _absent(member, rules):
                    kept[key] = member
                continue
            member = clean(member, rules)
            if not _absent(member, rules) and member not in ({}, []):
                kept[key] = member
        return kept
    if isinstance(value, list | tuple):
        members = (clean(member, rules) for member in value)
        return [member for member in members if not _absent(member, rules) and member not in ({}, [])]
    return value


def canonical_text(fields: Mapping[str, Any], rules: ServiceRules = ServiceRules(), *, with_empty: bool = False) -> str:
    """The text that is signed: every top-level field but `sign`, blanks dropped, sorted, `k=v` joined by `&`.

    Works on whatever fields are given, so that a notification is verified over what arrived. `with_empty`: an empty
    object at top level is signed as `k={}`, as the newest client does (public fact 1.2, step 8); no request has one.
    """
    parts = []
    for key in _in_order(fields):
        value = fields[key]
        if key == SIGN or _absent(value, rules) or (value == {} and not with_empty):
            continue
        parts.append(f"{key}={_value_text(value, rules)}")
    return "&".join(parts)


def _absent(value: object, rules: ServiceRules) -> bool:
    return is_blank(value) and (rules.null_text_is_blank or value != "null")


def _value_text(value: Any, rules: ServiceRules) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping | list | tuple):
        kept = _sorted(value, rules)
        try:
            return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))
        except TypeError:  # a number with a point, which is written as it came
            return _json_text(kept)
    if isinstance(value, bool):
        return "true" if value else "false"
    return _written(value) if isinstance(value, Decimal) else str(value)


def _sorted(value: Any, rules: ServiceRules) -> Any:
    """As `clean`, but an object or list inside that is empty stays, as the demo clients sign it."""
    if isinstance(value, Mapping):
        keys = _in_order(value)
        return {key: _sorted(value[key], rules) for key in keys if not _absent(value[key], rules)}
    if isinstance(value, list | tuple):
        return [_sorted(member, rules) for member in value if not _absent(member, rules)]
    return value


def _json_text(value: Any) -> str:
    """Compact JSON in which every number with a point keeps the digits that it was written with."""
    if isinstance(value, Mapping):
        members = (f"{json.dumps(key, ensure_ascii=False)}:{_json_text(value[key])}" for key in value)
        return "{" + ",".join(members) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_json_text, value)) + "]"
    return _written(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


def _written(value: Decimal) -> str:
    return value.written if isinstance(value, WrittenNumber) else str(value)


def _der(text: str, what: str) -> bytes:
    """The DER bytes of a key given as PEM or as bare base64 (public fact 1.3)."""
    body = "".join(line.strip() for line in text.strip().splitlines() if not line.strip().startswith("-----"))
    try:
        return base64.b64decode("".join(body.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ConfigurationError(f"the {what} is neither PEM nor base64") from None


@lru_cache(maxsize=8)  # reading checks the numbers of the key, which takes 40 ms
def load_private_key(text: str) -> rsa.RSAPrivateKey:
    """Read an RSA private key: PEM, or bare base64 of PKCS#8 DER. Raises `ConfigurationError`."""
    try:
        key = serialization.load_der_private_key(_der(text, "private key"), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigurationError(
            "the private key cannot be read: it must be RSA, PKCS#8, without a passphrase"
        ) from None
    if not isinstance(key, rsa.RSAPrivateKey):
        raise ConfigurationError("the private key is not an RSA key")
    return key


def load_public_key(text: str) -> rsa.RSAPublicKey:
    """Read an RSA public key: PEM, or bare base64 of SubjectPublicKeyInfo DER. Raises `ConfigurationError`."""
    try:
        key = serialization.load_der_public_key(_der(text, "public key"))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigurationError("the public key cannot be read: it must be an RSA SubjectPublicKeyInfo") from None
    if not isinstance(key, rsa.RSAPublicKey):
        raise ConfigurationError("the public key is not an RSA key")
    return key


def sign(fields: Mapping[str, Any], key: rsa.RSAPrivateKey, rules: ServiceRules = ServiceRules()) -> str:
    """The signature over these fields, base64 (public fact 1.2, steps 10 and 11)."""
    text = canonical_text(fields, rules).encode()
    return base64.b64encode(key.sign(text, padding.PKCS1v15(), HASHES[rules.hash])).decode()


def verify(fields: Mapping[str, Any], key: rsa.RSAPublicKey, rules: ServiceRules = ServiceRules()) -> None:
    """Check the `sign` among these fields over all the others. Raises `NotTrusted`.

    The text `null`, and an empty object at top level, are signed by some clients and dropped by others (public fact
    1.2, steps 8 and 9); either is accepted.
    """
    try:
        signature = base64.b64decode(str(fields.get(SIGN) or ""), validate=True)
    except (binascii.Error, ValueError):
        raise NotTrusted("the signature is not base64") from None
    if not signature:
        raise NotTrusted("there is no signature")
    both = (True, False)
    variants = (rules.model_copy(update={"null_text_is_blank": blank}) for blank in both)
    for text in {canonical_text(fields, each, with_empty=empty) for each in variants for empty in both}:
        try:
            key.verify(signature, text.encode("utf-8", "surrogatepass"), padding.PKCS1v15(), HASHES[rules.hash])
        except InvalidSignature:
            continue
        return
    raise NotTrusted("the signature does not match the content")


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
