"""The state file: one document an entity in SQLite, committed before the answer leaves, so a SIGKILL loses nothing."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from treasury.private_files import make_empty

T = TypeVar("T")


class Store:
    """Documents by kind and key. Without a file it keeps nothing, at no cost."""

    def __init__(self, path: Path | None) -> None:
        self._adapters: dict[type[Any], TypeAdapter[Any]] = {}
        self._changed: dict[tuple[str, str], object] = {}
        self._connection = None if path is None else self._open(path)

    @staticmethod
    def _open(path: Path) -> sqlite3.Connection:
        make_empty(path)
        connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        # WAL without a sync at each commit survives the death of the process; only a power cut could lose the last.
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS documents (kind TEXT, key TEXT, body BLOB NOT NULL, PRIMARY KEY (kind, key))"
        )
        return connection

    def _adapter(self, kind: type[Any]) -> TypeAdapter[Any]:
        if kind not in self._adapters:
            self._adapters[kind] = TypeAdapter(kind)
        return self._adapters[kind]

    def mark(self, kind: str, key: str, document: object) -> None:
        """This document changed; it is written, as it then is, by the next `commit`."""
        if self._connection is not None:
            self._changed[kind, key] = document

    def commit(self) -> None:
        """Write everything that was marked, in one transaction."""
        if self._connection is None or not self._changed:
            return
        rows = [
            (kind, key, self._adapter(type(document)).dump_json(document))
            for (kind, key), document in self._changed.items()
        ]
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT OR REPLACE INTO documents VALUES (?, ?, ?)", rows)
        self._connection.execute("COMMIT")
        self._changed.clear()

    def load(self, kind: str, shape: type[T]) -> Iterator[tuple[str, T]]:
        """Key and document of one kind, in the order they were first written."""
        if self._connection is None:
            return
        found = self._connection.execute("SELECT key, body FROM documents WHERE kind = ? ORDER BY rowid", (kind,))
        for key, body in found:
            yield key, self._adapter(shape).validate_json(body)

    def discard(self, kind: str, keys: list[str]) -> None:
        """Delete documents of one kind."""
        if self._connection is not None:
            rows = [(kind, key) for key in keys]
            self._connection.executemany("DELETE FROM documents WHERE kind = ? AND key = ?", rows)

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
