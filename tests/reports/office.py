"""The workbook in LibreOffice, which is too large to install for every test run: `make office`, where `soffice` is."""

import subprocess
from pathlib import Path

from tests.reports.builders import MEANINGS, SHEETS, listed, order_frame, rich_machine
from treasury.reports.reconciliation_book import write_workbook


def test_libreoffice_converts_it_without_complaint(tmp_path: Path) -> None:
    file = tmp_path / "reconciliation.xlsx"
    write_workbook(file, rich_machine(), listed(order_frame(3, 3)), MEANINGS)
    every_sheet = "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,true,false,false,false,-1"
    profile = f"-env:UserInstallation={(tmp_path / 'profile').as_uri()}"
    done = subprocess.run(
        [
            "soffice",
            profile,
            "--headless",
            "--convert-to",
            every_sheet,
            "--outdir",
            str(tmp_path),
            "reconciliation.xlsx",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "error" not in (done.stdout + done.stderr).lower()
    assert len(list(tmp_path.glob("reconciliation-*.csv"))) == len(SHEETS)
    assert "123456789012345678.123456789012345678" in (tmp_path / "reconciliation-Breaks.csv").read_text()
