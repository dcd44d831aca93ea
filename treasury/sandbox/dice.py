"""Chance without a generator: every draw is a function of the seed and of what it is drawn for.

Drawn this way, the same request meets the same number whatever arrived before it, or from how many threads.
"""

import hashlib


def draw(seed: int, *parts: object) -> int:
    """A number in 0 .. 2**128 - 1 for this seed and these parts."""
    text = "\x1f".join(map(str, (seed, *parts)))
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest())


def fraction(seed: int, *parts: object) -> float:
    """A number in [0, 1) for this seed and these parts."""
    return (draw(seed, *parts) >> 75) / 2**53


def digits(count: int, seed: int, *parts: object) -> str:
    """`count` decimal digits (at most 30) for this seed and these parts."""
    return str(draw(seed, *parts) % 10**count).zfill(count)
