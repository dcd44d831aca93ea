"""The gate before every send: shut by the first answer that says the service does not know us, opened by a question."""

import threading
from collections.abc import Callable

from treasury.concurrency.turns import WorkerThreads
from treasury.errors import NotConnected, OutcomeUnknown, Refused, Stopped
from treasury.provider.refusals import ACCOUNT_TROUBLE, says_account_trouble


class Gate:
    """Open until an answer is about who asks (401, 403, 406, 412) and not about what is asked."""

    def __init__(self) -> None:
        self.shut_by: Refused | None = None
        self._asking = threading.Lock()
        self._waiters = WorkerThreads(64)

    @property
    def is_shut(self) -> bool:
        """Whether nothing may leave now."""
        return self.shut_by is not None

    def take_note(self, refusal: Refused) -> None:
        """Shut the gate if this refusal is about who asks."""
        if says_account_trouble(refusal):
            self.shut_by = refusal

    def wait(self, ask: Callable[[], object]) -> None:
        """Wait until it is open: one asks a signed question, the others wait for its answer.

        Raises `Stopped` when the question is refused, too, or not answered: nothing more may leave.
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
