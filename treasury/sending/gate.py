"""The gate before every send: an answer that refuses the account shuts it, a signed question that is answered opens
it."""

import threading
from collections.abc import Callable

from treasury.concurrency.turns import WorkerThreads
from treasury.errors import NotConnected, OutcomeUnknown, Refused, Stopped
from treasury.provider.refusals import ACCOUNT_TROUBLE, says_account_trouble


class Gate:
    """Open until the service refuses the account itself (401, 403, 406, 412) instead of a request."""

    def __init__(self) -> None:
        self.shut_by: Refused | None = None
        self._asking = threading.Lock()
        self._waiters = WorkerThreads(64)

    @property
    def is_shut(self) -> bool:
        """Tell whether no request may leave now."""
        return self.shut_by is not None

    def take_note(self, refusal: Refused) -> None:
        """Shut the gate if this refusal is about the account."""
        if says_account_trouble(refusal):
            self.shut_by = refusal

    def wait(self, ask: Callable[[], object]) -> None:
        """Wait until the gate is open: one caller asks a signed question, the others wait for its answer.

        Raises `Stopped` when that question is refused or not answered, too: nothing more may leave.
        """
        if self.shut_by is None:
            return
        self._waiters.do(self._asking.acquire)
        try:
            shut_by = self.shut_by
            if shut_by is None:
                return
            code = str(shut_by.code)
            trouble = f"the service refuses this account ({code}): look at {ACCOUNT_TROUBLE[code]}"
            try:
                ask()
            except (NotConnected, OutcomeUnknown, Refused) as error:
                raise Stopped(
                    f"{trouble}; a question was not answered either ({error}), so nothing more is sent"
                ) from None
            self.shut_by = None
        finally:
            self._asking.release()
