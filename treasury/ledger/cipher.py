"""The ledger's key: encrypts payloads until their order is final, and hashes personal values."""

import functools
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet, InvalidToken

from treasury.canonical import canonical_json
from treasury.errors import ConfigurationError, WrongLedgerKey
from treasury.private_files import make_once, read_private


def no_key(file: Path) -> str:
    """The message for a ledger without its key."""
    return (
        f"this ledger's key is not there: {file}; put it back, from a backup if need be, or point "
        "TREASURY_LEDGER_KEY_FILE at it: no other key reads this ledger, and none was made"
    )


class LedgerKey:
    """A Fernet key and what is derived from it."""

    def __init__(self, key: bytes) -> None:
        try:
            self._fernet = Fernet(key)
        except ValueError:
            raise ConfigurationError("the ledger key file does not hold a Fernet key") from None
        # Sending an order reads its payload more than once, back to back; verifying a token costs more than sending.
        self._open = functools.lru_cache(maxsize=256)(self._fernet.decrypt)
        self._secret = hashlib.sha256(b"match|" + key).digest()
        self._seal = hashlib.sha256(b"checksum|" + key).digest()
        self.short_hash = functools.lru_cache(maxsize=8192)(self._short_hash)
        """A short keyed hash of a word, cached because most words recur."""
        self.fingerprint = hashlib.sha256(b"fingerprint|" + key).hexdigest()

    def seal_for(self, account: str) -> None:
        """Let checksums be good for this account alone: rows of another one's ledger with the same key are foreign."""
        self._seal = hmac.digest(self._seal, account.encode(), "sha256")

    @classmethod
    def load(cls, file: Path) -> "LedgerKey":
        """Read the key file; make it on first use (mode 0600, never replacing one that another process made).

        Raises `ConfigurationError`, also for a key file that others can read.
        """
        try:
            if not file.exists():
                make_once(file, Fernet.generate_key() + b"\n")
            return cls(read_private(file, "ledger key file").strip())
        except OSError as error:
            raise ConfigurationError(
                f"the ledger key file {file} cannot be read or made: {type(error).__name__}"
            ) from None

    def encrypt(self, payload: Mapping[str, Any]) -> bytes:
        """A payload as it is stored."""
        return self._fernet.encrypt(json.dumps(payload, ensure_ascii=False).encode())

    def decrypt(self, stored: bytes, *, once: bool = False) -> dict[str, Any]:
        """A stored payload; `once`: it is large, and not kept at hand. Raises `WrongLedgerKey`."""
        try:
            payload: dict[str, Any] = json.loads(self._fernet.decrypt(stored) if once else self._open(stored))
        except InvalidToken:
            raise WrongLedgerKey("a payload of the ledger cannot be read with this key; nothing was sent") from None
        return payload

    def _short_hash(self, word: str) -> str:
        return self.keyed_hash(word)[:12]

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
