"""The scope of a reconciliation."""

import json
from dataclasses import asdict, dataclass

SUPERSEDED = "superseded"
"""State of a quote that another followed: nothing may have come of it."""


@dataclass(frozen=True)
class Scope:
    """The scope that a sweep is narrowed to; None is not narrowed. `window_days`: orders final for longer are left
    out."""

    run_key: str | None = None
    currency: str | None = None
    window_days: int | None = None

    @property
    def books(self) -> str:
        """Names the orders whose sums belong together: those of one run, of one currency, or all."""
        return json.dumps([self.run_key, self.currency])

    @property
    def is_whole(self) -> bool:
        """Tell whether it takes in every order, so that balance accounts roll forward and breaks may end."""
        return self == Scope()

    def as_text(self) -> str:
        """As it is stored."""
        return json.dumps(asdict(self))
