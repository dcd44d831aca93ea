"""Keys of the matrix, and pauses that nobody waits for."""

from collections.abc import Iterator

import pytest
import stamina

from treasury.sandbox import generate_key_pair


@pytest.fixture(scope="module")
def keys() -> tuple[str, str]:
    return generate_key_pair()


@pytest.fixture(autouse=True)
def _short_pauses() -> Iterator[None]:
    stamina.set_testing(True, attempts=2)
    yield
    stamina.set_testing(False)
