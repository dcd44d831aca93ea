"""The examples of the interface, shared by fixture: under importlib mode test files do not import each other."""

import runpy
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def interface_examples() -> dict[str, Any]:
    """The names of `examples.py`: EXAMPLES, COMPANY, PERSONAL_VALUES."""
    return runpy.run_path(str(Path(__file__).with_name("examples.py")))


@pytest.fixture(scope="session")
def examples(interface_examples: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A valid example of every operation, by its name."""
    found: dict[str, dict[str, Any]] = interface_examples["EXAMPLES"]
    return found
