"""Values that a signature over an object may not hold, because nobody can say how they are written there."""

import re
from collections.abc import Iterator, Mapping

from treasury.errors import Problem
from treasury.texts import is_whole

_UNSIGNABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Characters that JSON libraries write in different ways, so that a signature over an object may not be the one that
the service makes (public fact 1.2, step 6)."""


def unsignable(value: object, place: str = "", depth: int = 0) -> Iterator[Problem]:
    """Yield the texts that cannot be signed at all, and those inside of objects that cannot be signed safely."""
    if isinstance(value, Mapping):
        for name, member in value.items():
            if isinstance(member, str | None) and (text := f"{name}{member}").isascii() and text.isprintable():
                continue  # as nearly all are
            inside = f"{place}.{name}" if place else str(name)
            yield from unsignable(str(name), inside, depth + 1)
            yield from unsignable(member, inside, depth + 1)
    elif not is_whole(value):
        yield Problem(place, "must be a text of whole Unicode characters")
    elif depth > 1 and isinstance(value, str) and _UNSIGNABLE.search(value):
        yield Problem(place, "must not hold control characters or line separators: write it on one line")
