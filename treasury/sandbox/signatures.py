"""Signatures as this service makes and checks them, by the switches `hash` and `null_text_is_blank`."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from treasury.errors import NotTrusted
from treasury.provider.service_rules import ServiceRules
from treasury.provider.signing import HASHES, SIGN, canonical_text, sign
from treasury.sandbox.behaviour import Behaviour


class Signatures:
    """The signatures that one behaviour accepts and writes."""

    def __init__(self, behaviour: Behaviour) -> None:
        given = behaviour.null_text_is_blank
        readings = (True, False) if given is None else (given,)
        self._hash = HASHES[behaviour.hash]
        self._rules = [ServiceRules(hash=behaviour.hash, null_text_is_blank=blank) for blank in readings]

    def check(self, body: Mapping[str, Any], key: rsa.RSAPublicKey) -> None:
        """Check a request's `sign` over all its other fields. Raises `NotTrusted`."""
        try:
            signature = base64.b64decode(str(body.get(SIGN) or ""), validate=True)
        except (binascii.Error, ValueError):
            raise NotTrusted("the signature is not base64") from None
        if not signature:
            raise NotTrusted("there is no signature")
        for text in {canonical_text(body, rules) for rules in self._rules}:
            try:
                key.verify(signature, text.encode("utf-8", "surrogatepass"), padding.PKCS1v15(), self._hash)
            except InvalidSignature:
                continue
            return
        raise NotTrusted("the signature does not match the content")

    def make(self, body: Mapping[str, Any], key: rsa.RSAPrivateKey) -> str:
        """The signature of a notification, base64."""
        return sign(body, key, self._rules[0])
