"""Rows of a sheet as the bodies of operations, judged by their classes."""

from collections.abc import Mapping
from typing import Any

from treasury.errors import InvalidFields, Problem
from treasury.provider.operation import Operation

PLACEHOLDER = "0"
"""Stands for the reference, which only the run knows, while a row is judged."""


def body_of(operation: type[Operation[Any]], fields: Mapping[str, Any], problems: list[Problem]) -> dict[str, Any]:
    """The wire body of an operation without its reference; what its class objects to is added to the problems."""
    assert operation.reference is not None
    try:
        body = operation(**{operation.reference: PLACEHOLDER, **fields}).body()
    except InvalidFields as error:
        problems += error.problems
        return {}
    del body[operation.reference]
    return body
