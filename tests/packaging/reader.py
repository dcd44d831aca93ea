"""Somebody who types what a page says, line by line."""

import csv
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import openpyxl

import data
from tests.commands.in_process import fresh_process, run_command

ROOT = Path(__file__).resolve().parents[2]
CODES = {
    "treasury pay november.xlsx --run-key payroll-2026-11": [3],
    "treasury scan-pay rents.xlsx --run-key rents-2026-11": [3],
    "treasury pay november.xlsx --run-key payroll-2026-11 --yes": [3, 0],
}
"""Without a terminal, a command that asks for a yes waits for it; payments that wait for approval leave after it."""


class Reader:
    """Somebody who types what the README says."""

    def __init__(self, home: Path, prefect_url: str) -> None:
        self.home = home
        self.environ = {
            "HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "PREFECT_API_URL": prefect_url,
            "PREFECT_HOME": os.environ["PREFECT_HOME"],
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
        }
        self.changes: dict[str, str] = {}
        self.codes = {line: list(codes) for line, codes in CODES.items()}
        (home / "data").mkdir()
        for file in data.path("README.md").parent.glob("*.*"):
            if file.suffix != ".py":
                shutil.copy(file, home / "data")
        sample = data.path("beneficiaries.csv").read_text(encoding="utf-8")
        # Rows of one's own, of more than one person may send alone by the sample policy.
        own = re.sub(r"^(EMP-\d+,direct),[0-9.]+,", r"\1,2000.00,", sample, flags=re.MULTILINE)
        self.own = {"pay": own.splitlines()}
        for kind, name in (("withdraw", "withdrawals.csv"), ("scan-pay", "qr_codes.csv")):
            self.own[kind] = data.path(name).read_text(encoding="utf-8").splitlines()

    def changed(self, line: str) -> str:
        for old, new in self.changes.items():
            line = line.replace(old, new)
        # Readers share a Prefect server: another one's block stands there, which `connect` leaves alone unless told.
        return f"{line} --replace" if line.startswith("treasury connect") else line

    def types(self, line: str) -> str:
        """Type a line; what it prints. It must end as the README lets one expect."""
        code, out, err = self._ends(self.changed(line))
        expected = self.codes[line].pop(0) if line in self.codes else 0
        assert code == expected, f"{line}\n{out}{err}"
        assert "Traceback" not in err
        if line.startswith("treasury template ") and (kind := line.split()[2]) in self.own:
            self.fills(self.home / line.rsplit(maxsplit=1)[-1], kind)
        return out

    def _ends(self, line: str) -> tuple[int, str, str]:
        """Run a line in a shell, a command of ours alone in this process; its exit code, output and errors."""
        if line.startswith("treasury ") and not set(line) & set("|&;<>$`"):
            with fresh_process(self.environ, self.home) as streams:
                words = shlex.split(line.replace(" ~/", f" {self.home}/"), comments=True)
                code = run_command(words[1:], streams)
            return code, streams.out.getvalue(), streams.err.getvalue()
        done = subprocess.run(
            ["/bin/bash", "-c", line],
            cwd=self.home,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def fills(self, template: Path, kind: str) -> None:
        """Put one's own rows in place of a template's examples."""
        book = openpyxl.load_workbook(template)
        sheet = book.worksheets[0]
        names = [str(cell.value) for cell in sheet[1]]
        sheet.delete_rows(2, 2)
        for row in csv.DictReader(self.own[kind]):
            sheet.append([row.get(name) or None for name in names])
        book.save(template)
