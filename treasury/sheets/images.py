"""Images that a sheet names by their files: judged when it is read, and read again when they are sent."""

import base64
from pathlib import Path

MAX_BYTES = 5_000_000
"""Of one image. The document names no limit; a photograph of a card has one to three million."""

SIGNATURES = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n\x1a\n": "image/png"}
"""How a file of each accepted type begins (document, endpoint 7)."""

PLACEHOLDER = "data:image/png;base64,AAAA"
"""Stands for an image while its row is judged."""


def fault_of_image(file: Path) -> str | None:
    """Why a file is no image that can be sent, in words; None for one that can."""
    try:
        with file.open("rb") as opened:
            begins, size = opened.read(8), file.stat().st_size
    except OSError as error:
        return f"cannot be read: {error.strerror or type(error).__name__}"
    if _type_of(begins) is None:
        return "is no JPEG and no PNG"
    return f"has more than {MAX_BYTES // 1_000_000} MB" if size > MAX_BYTES else None


def read_image(file: Path) -> str:
    """The image as it travels, a data URI. Raises `OSError` for one that cannot be read any more."""
    content = file.read_bytes()
    kind = _type_of(content)
    if kind is None or len(content) > MAX_BYTES:
        raise OSError(f"{file.name} is no image that can be sent any more")
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _type_of(content: bytes) -> str | None:
    return next((kind for begins, kind in SIGNATURES.items() if content.startswith(begins)), None)
