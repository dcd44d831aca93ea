"""Results of a run that two processes write at once: the files say what the ledger had last."""

from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.engine.paying import commit, write
from tests.engine.runs import sheet
from treasury.payments import execution
from treasury.payments.desk import Desk
from treasury.reports.results import earlier_results
from treasury.sheets.writing import write_csv

ROWS = (("a", "10", "12345670001"), ("b", "20", "12345670002"))


def test_results_that_were_read_earlier_do_not_replace_later_ones(
    open_desk: Callable[..., Desk], start_sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`treasury results` reads a run that is being paid, and is still writing its workbook when the run ends."""
    desk, out = open_desk(start_sandbox().base_url), tmp_path / "out"
    [ids] = commit(desk, sheet(tmp_path, *ROWS), "run")
    later = Thread(target=write, args=(desk, "run", out))

    def slowly(file: Any, columns: Any, lines: Any) -> None:
        read = list(lines)
        if later.ident is None:
            assert {row["outcome"] for row in read} == {"not_sent"}
            execution.send_orders(desk, "run", ids)
            execution.follow_orders(desk, "run", ids, 20)
            later.start()
            later.join(1)
        write_csv(file, columns, read)

    monkeypatch.setattr("treasury.reports.results.write_csv", slowly)
    write(desk, "run", out)
    later.join()
    assert {row["outcome"] for row in earlier_results(out)} == {"settled"}
