"""Breaks the engine on purpose, one small change at a time, and sees whether the tests notice.

    python -m tests.mutate.mutate [--mutants N] [--seed N] [--workers 2] [--list] [--survivors-of LOG]

N=0 is all of them; `--survivors-of` tries only those that an earlier run, whose output is in LOG, did not kill. Works
in temporary copies of the tree. Prints each survivor with its place and change; ends with code 1 when fewer than 85 %
were killed.
"""

import argparse
import ast
import copy
import os
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

ROOT = Path(__file__).parents[2]
TARGETS = (
    "treasury/sending/submission.py",
    "treasury/sending/transmission.py",
    "treasury/sending/inquiry.py",
    "treasury/orders/decisions.py",
    "treasury/orders/states.py",
)
TESTS = (
    "tests/engine/test_states.py",
    "tests/planning/test_decisions.py",
    "tests/machine/test_two_hands.py",
    "tests/engine/test_remembered.py",
    "tests/engine/test_submission.py",
    "tests/machine/test_machine.py",
)
"""The quickest first; the run stops at the first failure."""
COPIED = ("treasury", "tests", "bench", "data", "flows", "tasks", "blocks", "pyproject.toml", "prefect.yaml")
LIMIT_SECONDS = 240
ENOUGH = 0.85

FLIPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
EVENTS = {
    "SEND": "RESEND",
    "RESEND": "SEND",
    "NOT_CONNECTED": "LOSE",
    "TRY_LATER": "LOSE",
    "LOSE": "NOT_CONNECTED",
    "ACCEPT": "SETTLE",
    "SETTLE": "ACCEPT",
    "FAIL": "CLOSE",
    "CLOSE": "FAIL",
    "REJECT": "NOT_CONNECTED",
    "HOLD": "RELEASE",
    "CORRECT_TO_SETTLED": "SETTLE",
    "CORRECT_TO_FAILED": "FAIL",
    "CORRECT_TO_CLOSED": "CLOSE",
}
STATES = {
    "PREPARED": "HELD",
    "SENDING": "ACCEPTED",
    "UNKNOWN": "PREPARED",
    "ACCEPTED": "UNKNOWN",
    "SETTLED": "FAILED",
    "FAILED": "SETTLED",
    "CLOSED": "FAILED",
    "REJECTED": "PREPARED",
    "HELD": "PREPARED",
}


@dataclass(frozen=True)
class Mutant:
    """One changed file."""

    file: str
    line: int
    change: str
    source: str


def mutants_of(file: str) -> Iterator[Mutant]:
    """Every mutant of a file."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    skipped = _not_code(tree)
    for number, node in enumerate(nodes):
        if id(node) in skipped:
            continue
        for change, mutate in _changes(node):
            broken = copy.deepcopy(tree)
            twin = list(ast.walk(broken))[number]
            mutate(twin)
            line = getattr(node, "lineno", 0)
            yield Mutant(file, line, change, ast.unparse(ast.fix_missing_locations(broken)))


def _not_code(tree: ast.AST) -> set[int]:
    """Annotations, docstrings and crash points: changing them changes nothing that the engine does."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        roots: list[ast.AST | None] = []
        if isinstance(node, ast.FunctionDef):
            roots += [node.returns, *(argument.annotation for argument in node.args.args + node.args.kwonlyargs)]
            roots += node.decorator_list
        if isinstance(node, ast.AnnAssign):
            roots.append(node.annotation)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            roots.append(node)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _name(node.value.func) == "point":
            roots.append(node)
        if isinstance(node, ast.Raise):
            roots.append(node)
        for root in roots:
            if root is not None:
                skipped |= {id(inner) for inner in ast.walk(root)}
    return skipped


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _changes(node: ast.AST) -> Iterator[tuple[str, Callable[..., None]]]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in FLIPS:
        new = FLIPS[type(node.ops[0])]

        def flip(twin: ast.Compare) -> None:
            twin.ops[0] = new()

        yield f"{type(node.ops[0]).__name__} becomes {new.__name__}: {ast.unparse(node)}", flip
    if isinstance(node, ast.BoolOp):
        other = ast.Or if isinstance(node.op, ast.And) else ast.And

        def swap(twin: ast.BoolOp) -> None:
            twin.op = other()

        yield f"becomes {other.__name__}: {ast.unparse(node)}", swap
        for place in range(len(node.values)):

            def drop(twin: ast.BoolOp, place: int = place) -> None:
                twin.values.pop(place)

            if len(node.values) > 1:
                yield f"without {ast.unparse(node.values[place])}: {ast.unparse(node)}", drop
    if isinstance(node, ast.If | ast.IfExp):

        def negate(twin: ast.If) -> None:
            twin.test = ast.UnaryOp(ast.Not(), twin.test)

        yield f"negated: if {ast.unparse(node.test)}", negate
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):

        def remove(twin: ast.Expr) -> None:
            twin.value = ast.Constant(None)

        yield f"removed: {ast.unparse(node)}", remove
    if isinstance(node, ast.AugAssign):

        def forget(twin: ast.AugAssign) -> None:
            twin.value = ast.Dict([], [])

        if isinstance(node.op, ast.BitOr):
            yield f"removed: {ast.unparse(node)}", forget
    if isinstance(node, ast.Attribute) and _name(node.value) in ("Event", "State"):
        table = EVENTS if _name(node.value) == "Event" else STATES
        if node.attr in table:

            def rename(twin: ast.Attribute) -> None:
                twin.attr = table[twin.attr]

            yield f"{node.attr} becomes {table[node.attr]}", rename
    if isinstance(node, ast.Tuple) and len(node.elts) > 1 and all(_name(one).isupper() for one in node.elts):
        for place in range(len(node.elts)):

            def shorten(twin: ast.Tuple, place: int = place) -> None:
                twin.elts.pop(place)

            yield f"without {ast.unparse(node.elts[place])}: {ast.unparse(node)}", shorten
    if isinstance(node, ast.keyword) and node.arg in ("unmoved", "code", "reason", "absent_since", "asked_at"):

        def rename_keyword(twin: ast.keyword) -> None:
            twin.value = ast.Constant(False) if twin.arg == "unmoved" else ast.Constant(None)

        if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield f"{node.arg} is not recorded: {ast.unparse(node)}", rename_keyword
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):

            def turn(twin: ast.Constant) -> None:
                twin.value = not twin.value

            yield f"{node.value} becomes {not node.value}", turn
        elif isinstance(node.value, int | float):
            for step in (1, -1):

                def shift(twin: ast.Constant, step: int = step) -> None:
                    twin.value = cast(float, twin.value) + step

                yield f"{node.value} becomes {node.value + step}", shift


class Copy:
    """A temporary copy of the tree to break."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="treasury-mutant-"))
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, self.folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.exists():
                shutil.copy(source, self.folder / name)

    def notices(self, mutant: Mutant | None) -> str | None:
        """How the tests notice the mutant: by a failure or by the clock; None when they do not."""
        file = None if mutant is None else self.folder / mutant.file
        if mutant is not None and file is not None:
            file.write_text(mutant.source, encoding="utf-8")
        environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(self.folder)}
        tests = [test for test in TESTS if (self.folder / test).exists()]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *tests]
        try:
            ended = subprocess.run(
                command,
                cwd=self.folder,
                env=environ,
                capture_output=True,
                text=True,
                timeout=LIMIT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "by the clock"
        finally:
            if mutant is not None and file is not None:
                shutil.copy(ROOT / mutant.file, file)
        if mutant is None and ended.returncode:
            print(ended.stdout[-3000:])
        failed = [line for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return (failed[0] if failed else "by a failure") if ended.returncode else None

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def run(mutants: list[Mutant], workers: int) -> list[Mutant]:
    """Try every mutant; returns the survivors."""
    waiting: queue.SimpleQueue[tuple[int, Mutant]] = queue.SimpleQueue()
    for number, mutant in enumerate(mutants, 1):
        waiting.put((number, mutant))
    survivors: list[Mutant] = []
    guard = threading.Lock()

    def work() -> None:
        tree = Copy()
        try:
            while True:
                try:
                    number, mutant = waiting.get_nowait()
                except queue.Empty:
                    return
                how = tree.notices(mutant)
                with guard:
                    where = f"{mutant.file}:{mutant.line}"
                    print(f"{number:4} {'killed  ' if how else 'SURVIVED'} {where} {mutant.change}", flush=True)
                    if how is None:
                        survivors.append(mutant)
        finally:
            tree.close()

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return survivors


def survivors_in(log: str) -> set[tuple[str, str]]:
    """File and change of the mutants that a run says survived; lines move, changes stay what they are."""
    lines = [line.removeprefix("survived: ") for line in log.splitlines() if line.startswith("survived: ")]
    return {(line.partition(":")[0], line.partition(":")[2].partition(" ")[2]) for line in lines}


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Break the engine and see whether the tests notice.")
    parser.add_argument("--mutants", type=int, default=0, help="a sample of so many; 0 is all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--survivors-of", type=Path)
    asked = parser.parse_args()
    mutants = [mutant for file in TARGETS for mutant in mutants_of(file)]
    if asked.list:
        for mutant in mutants:
            print(f"{mutant.file}:{mutant.line} {mutant.change}")
        print(f"{len(mutants)} mutants")
        return 0
    total = len(mutants)
    if asked.survivors_of:
        left = survivors_in(asked.survivors_of.read_text(encoding="utf-8"))
        mutants = [mutant for mutant in mutants if (mutant.file, mutant.change) in left]
    if asked.mutants:
        mutants = random.Random(asked.seed).sample(mutants, min(asked.mutants, total))
    calm = Copy()
    try:
        if calm.notices(None) is not None:
            print("the tests fail without any mutant")
            return 2
    finally:
        calm.close()
    began = time.monotonic()
    survivors = run(mutants, asked.workers)
    killed = len(mutants) - len(survivors)
    print(f"\n{killed} of {len(mutants)} mutants killed (of {total}), in {time.monotonic() - began:.0f} s")
    for mutant in sorted(survivors, key=lambda one: (one.file, one.line)):
        print(f"survived: {mutant.file}:{mutant.line} {mutant.change}")
    return 0 if killed >= ENOUGH * len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main())
