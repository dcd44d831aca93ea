"""Signatures as this service makes and checks them, by the switches `hash` and `null_text_is_blank`.

Written from the public facts alone (1.2), as the client's own signing is: a mistake on either side shows.
"""

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from treasury.errors import NotTrusted
from treasury.sandbox.behaviour import Behaviour

HASHES: Mapping[str, hashes.HashAlgorithm] = {"SHA1": hashes.SHA1(), "SHA256": hashes.SHA256()}  # noqa: S303

IsBlank = Callable[[Any], bool]


class Signatures:
    """The signatures that one behaviour accepts and writes."""

    def __init__(self, behaviour: Behaviour) -> None:
        given = behaviour.null_text_is_blank
        self._blanks = [_blank(null_text=each) for each in ((True, False) if given is None else (given,))]
        self._hash = HASHES[behaviour.hash]

    def check(self, body: Mapping[str, Any], key: rsa.RSAPublicKey) -> None:
        """Check a request's `sign` over all its other fields. Raises `NotTrusted`."""
        try:
            signature = base64.b64decode(str(body.get("sign") or ""), validate=True)
        except (binascii.Error, ValueError):
            raise NotTrusted("the signature is not base64") from None
        if not signature:
            raise NotTrusted("there is no signature")
        for text in {signed_text(body, is_blank) for is_blank in self._blanks}:
            try:
                key.verify(signature, text.encode("utf-8", "surrogatepass"), padding.PKCS1v15(), self._hash)
            except InvalidSignature:
                continue
            return
        raise NotTrusted("the signature does not match the content")

    def make(self, body: Mapping[str, Any], key: rsa.RSAPrivateKey) -> str:
        """The signature of a notification, base64."""
        text = signed_text(body, self._blanks[0]).encode()
        return base64.b64encode(key.sign(text, padding.PKCS1v15(), self._hash)).decode()


def _blank(*, null_text: bool) -> IsBlank:
    """Return what tells a blank value; `null_text`: the text `null` is one (public fact 1.2, steps 2 and 9)."""
    return lambda value: (
        value is None or (isinstance(value, str) and (not value.strip() or (null_text and value == "null")))
    )


def signed_text(body: Mapping[str, Any], is_blank: IsBlank) -> str:
    """`key=value` of every field but `sign` that is not blank, in Java's order of keys (public fact 1.2, steps 1-8)."""
    given = {name: value for name, value in body.items() if name != "sign" and value != {}}
    return "&".join(f"{name}={_scalar(value, is_blank)}" for name, value in _members(given, is_blank))


def _members(value: Mapping[str, Any], is_blank: IsBlank) -> Iterator[tuple[str, Any]]:
    for name in sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass")):
        if not is_blank(value[name]):
            yield name, value[name]


def _scalar(value: Any, is_blank: IsBlank) -> str:
    return value if isinstance(value, str) else _compact(value, is_blank)


def _compact(value: Any, is_blank: IsBlank) -> str:
    """Compact JSON; a number with a point as it was written."""
    if isinstance(value, Mapping):
        members = _members(value, is_blank)
        return "{" + ",".join(f"{_compact(name, is_blank)}:{_compact(each, is_blank)}" for name, each in members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_compact(each, is_blank) for each in value if not is_blank(each)) + "]"
    if isinstance(value, Decimal):
        return str(getattr(value, "written", value))
    return json.dumps(value, ensure_ascii=False)
