"""How much is tried: a few of each in `make test`, many in `make proofs` (PROOFS=all), or what a variable says."""

import os

ALL = os.environ.get("PROOFS") == "all"


def tries(name: str, few: int, many: int) -> int:
    """Return the number in the environment variable `name`; without it `few`, in the proofs `many`."""
    return int(os.environ.get(name) or (many if ALL else few))
