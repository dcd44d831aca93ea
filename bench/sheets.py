"""How long a sheet takes to be read and judged: `python -m bench.sheets 100000 [--xlsx]`; every other row is quoted.

Processor seconds of this process, and the most memory that it had.
"""

import argparse
import csv
import resource
import tempfile
import time
from pathlib import Path

from tests.ibans import german_iban
from tests.parts import DIRECT, QUOTED
from treasury.pay.payout_plans import read_plan
from treasury.sheets.writing import write_plain_book


def mixed_sheet(file: Path, rows: int) -> Path:
    """A CSV or XLSX file of so many rows, each to an account of its own."""
    columns = list(dict.fromkeys(["row_ref", "account_no", *DIRECT, *QUOTED]))
    lines = (
        {"row_ref": f"r{n}", **(QUOTED if n % 2 else DIRECT)}
        | {"account_no": german_iban(n) if n % 2 else str(10**10 + n)}
        for n in range(rows)
    )
    if file.suffix == ".xlsx":
        write_plain_book(file, columns, lines)
    else:
        with file.open("w", newline="") as out:
            writer = csv.DictWriter(out, columns, restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)
    return file


def main() -> None:
    """Read one sheet and say how long it took."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("rows", type=int)
    options.add_argument("--xlsx", action="store_true")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = mixed_sheet(Path(folder) / ("rows.xlsx" if asked.xlsx else "rows.csv"), asked.rows)
        wall, began = time.perf_counter(), time.process_time()
        plan = read_plan(file, "bench")
        spent, wall = time.process_time() - began, time.perf_counter() - wall
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{len(plan.rows):,} rows: {spent:.2f} s of processor, {wall:.2f} s by the clock, {most} MiB at the most")


if __name__ == "__main__":
    main()
