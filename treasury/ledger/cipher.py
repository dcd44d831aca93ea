"""The ledger's key: encrypts payloads until their order is final, and hashes personal values."""

import functools
import hashlib
import hmac
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from treasury.errors import ConfigurationError, WrongLedgerKey
from treasury.private_files import make_once, read_private, why_unread
from treasury.texts import canonical_json


def no_key(file: Path) -> str:
    """The message for a ledger without its key."""
    return (
        f"this ledger's key is not there: {file}; put it back, from a backup if need be, or point "
        "TREASURY_LEDGER_KEY_FILE at it: no other key reads this ledger, and none was made"
    )


_AES_GCM = b"\x01"
"""The first byte of a payload that is bound to its place; a Fernet token is base64."""
_NONCE = 12
"""Bytes of a nonce: 96 bits from the system, new for each payload (NIST SP 800-38D)."""


class LedgerKey:
    """The keys that are derived from the 32 bytes of a key file, one for each purpose."""

    def __init__(self, key: bytes) -> None:
        self._fernet = Fernet(key)  # what ledgers hold that were written before payloads were bound to their rows
        self._encryption = hashlib.sha256(b"payload|" + key).digest()
        self._cipher = AESGCM(self._encryption)
        self._secret = hashlib.sha256(b"match|" + key).digest()
        self._seal = hashlib.sha256(b"checksum|" + key).digest()
        self.short_hash = functools.lru_cache(maxsize=8192)(lambda word: self.keyed_hash(word)[:12])
        """A short keyed hash of a word, cached because most words recur."""
        self.fingerprint = hashlib.sha256(b"fingerprint|" + key).hexdigest()

    def bind_to(self, account: str) -> None:
        """Let checksums and payloads be good for this account alone: another ledger's with the same key are foreign."""
        self._seal = hmac.digest(self._seal, account.encode(), "sha256")
        self._cipher = AESGCM(hmac.digest(self._encryption, account.encode(), "sha256"))

    @classmethod
    def load(cls, file: Path) -> "LedgerKey":
        """Read the key file; make it on first use (mode 0600, never replacing one that another process made).

        Raises `ConfigurationError`, also for a key file that others can read.
        """
        try:
            if not file.exists():
                make_once(file, Fernet.generate_key() + b"\n")
            content = read_private(file, "ledger key file").strip()
        except OSError as error:
            raise ConfigurationError(
                f"the ledger key file {file} cannot be read or made: {why_unread(error)}"
            ) from None
        return cls.of(content, file)

    @classmethod
    def of(cls, content: bytes, file: Path) -> "LedgerKey":
        """Return the key that a key file holds. Raises `ConfigurationError`."""
        try:
            return cls(content)
        except ValueError:
            raise ConfigurationError(
                f"the ledger key file {file} holds no key, which is 32 bytes in URL-safe base64: put back what it "
                "held, from a backup if need be, for no other key reads a ledger; where there is none, remove the file"
            ) from None

    def encrypt(self, payload: Mapping[str, Any], *place: str) -> bytes:
        """Encrypt a payload for the place that it is stored at (AES-256-GCM): elsewhere it cannot be read.

        `place`: the table, and what never changes of its row.
        """
        nonce, content = os.urandom(_NONCE), json.dumps(payload, ensure_ascii=False).encode()
        return _AES_GCM + nonce + self._cipher.encrypt(nonce, content, canonical_json(place).encode())

    def decrypt(self, stored: bytes, *place: str) -> dict[str, Any]:
        """Return a payload that was encrypted for this place. Raises `WrongLedgerKey`."""
        nonce, content = stored[1 : 1 + _NONCE], stored[1 + _NONCE :]
        try:
            if stored.startswith(_AES_GCM):
                content = self._cipher.decrypt(nonce, content, canonical_json(place).encode())
            else:
                content = self._fernet.decrypt(stored)
            payload: dict[str, Any] = json.loads(content)
        except (InvalidTag, InvalidToken, ValueError):
            raise WrongLedgerKey(
                "a payload of the ledger cannot be read: it was written with another key, or moved or changed by "
                "hand; nothing was sent"
            ) from None
        return payload

    def checksum(self, values: Sequence[object]) -> str:
        """Return what shows that a row of the ledger was written by somebody who has its key."""
        return self.checksum_of(canonical_json(values).encode())

    def checksum_of(self, content: bytes) -> str:
        """Return the checksum of bytes: BLAKE2b with a key (RFC 7693).

        `hmac.digest` gives the interpreter's lock away each time, and a step waits behind every busy thread for it.
        """
        return hashlib.blake2b(content, digest_size=16, key=self._seal).hexdigest()

    def keyed_hash(self, value: object) -> str:
        """A hash that cannot be guessed without the key: account numbers are too few to hide in a plain one."""
        return hmac.digest(self._secret, canonical_json(value).encode(), "sha256").hex()


def place_of_payload(run_key: str, row_ref: str, operation: str) -> tuple[str, ...]:
    """Return the place of an order's payload: what never changes of the order, whatever is asked and answered."""
    return ("orders", run_key, row_ref, operation)
