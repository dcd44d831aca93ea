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
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any

ROOT = Path(__file__).parents[2]
TARGETS = (
    "treasury/sending/submission.py",
    "treasury/sending/transmission.py",
    "treasury/sending/inquiry.py",
    "treasury/orders/payment_decisions.py",
    "treasury/orders/states.py",
)
TESTS = (
    "tests/engine/test_states.py",
    "tests/planning/test_decisions.py",
    "tests/engine/test_remembered.py",
    "tests/engine/test_refused_quotes.py",
    "tests/engine/test_known_quotes.py",
    "tests/engine/test_restored.py",
    "tests/engine/test_shown.py",
    "tests/engine/test_doubts.py",
    "tests/engine/test_sending.py",
    "tests/engine/test_quoted.py",
    "tests/engine/test_submission.py",
    "tests/engine/test_witnesses.py",
    "tests/engine/test_dearer_codes.py",
    "tests/engine/test_leaving_again.py",
    "tests/engine/test_replacing.py",
    "tests/engine/test_held_conversions.py",
    "tests/engine/test_unsent_conversions.py",
    "tests/engine/test_restored_conversions.py",
    "tests/machine/test_two_hands.py",
    "tests/machine/test_machine.py",
)
"""The quickest first; the run stops at the first failure."""
COPIED = ("treasury", "tests", "bench", "data", "flows", "tasks", "blocks", "pyproject.toml", "prefect.yaml")
LIMIT_SECONDS = 600
"""How long the tests may take against one mutant: several times what they take beside other work, because a
slow machine is no test."""
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
    made: set[str] = set()
    for number, node in enumerate(nodes):
        if id(node) in skipped:
            continue
        for change, mutate in _changes(node):
            broken = copy.deepcopy(tree)
            twin = list(ast.walk(broken))[number]
            mutate(twin)
            source = ast.unparse(ast.fix_missing_locations(broken))
            if source not in made:  # `unmoved=True` is a keyword and a constant, and changed once
                made.add(source)
                yield Mutant(file, getattr(node, "lineno", 0), change, source)


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
        if _is_crash_point(node) or (isinstance(node, ast.If) and all(map(_is_crash_point, node.body + node.orelse))):
            roots.append(node)
        if isinstance(node, ast.Raise):
            roots.append(node)
        for root in roots:
            if root is not None:
                skipped |= {id(inner) for inner in ast.walk(root)}
    return skipped


def _is_crash_point(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _name(node.value.func) == "crash_point"


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


Change = tuple[str, Callable[..., None]]
"""The change that a mutant makes, in words, and how a node of the tree is changed so."""


def _changes(node: ast.AST) -> Iterator[Change]:
    """Every change of one node."""
    for kinds, changes_of in CHANGES:
        if isinstance(node, kinds):
            yield from changes_of(node)


def _flipped(node: ast.Compare) -> Iterator[Change]:
    old = type(node.ops[0])
    if old not in FLIPS:
        return
    new = FLIPS[old]

    def flip(twin: ast.Compare) -> None:
        twin.ops[0] = new()

    yield f"{old.__name__} becomes {new.__name__}: {ast.unparse(node)}", flip


def _joined(node: ast.BoolOp) -> Iterator[Change]:
    other = ast.Or if isinstance(node.op, ast.And) else ast.And

    def swap(twin: ast.BoolOp) -> None:
        twin.op = other()

    yield f"becomes {other.__name__}: {ast.unparse(node)}", swap
    for place, value in enumerate(node.values):
        yield f"without {ast.unparse(value)}: {ast.unparse(node)}", partial(_drop, "values", place)


def _drop(members: str, place: int, twin: ast.AST) -> None:
    getattr(twin, members).pop(place)


def _negated(node: ast.If | ast.IfExp) -> Iterator[Change]:
    def negate(twin: ast.If) -> None:
        twin.test = ast.UnaryOp(ast.Not(), twin.test)

    yield f"negated: if {ast.unparse(node.test)}", negate


def _removed(node: ast.Expr) -> Iterator[Change]:
    def remove(twin: ast.Expr) -> None:
        twin.value = ast.Constant(None)

    if isinstance(node.value, ast.Call):
        yield f"removed: {ast.unparse(node)}", remove


def _forgotten(node: ast.AugAssign) -> Iterator[Change]:
    def forget(twin: ast.AugAssign) -> None:
        twin.value = ast.Dict([], [])

    if isinstance(node.op, ast.BitOr):
        yield f"removed: {ast.unparse(node)}", forget


def _renamed(node: ast.Attribute) -> Iterator[Change]:
    new = {"Event": EVENTS, "State": STATES}.get(_name(node.value), {}).get(node.attr)

    def rename(twin: ast.Attribute) -> None:
        twin.attr = str(new)

    if new is not None:
        yield f"{node.attr} becomes {new}", rename


def _shortened(node: ast.Tuple) -> Iterator[Change]:
    if len(node.elts) > 1 and all(_name(one).isupper() for one in node.elts):
        for place, element in enumerate(node.elts):
            yield f"without {ast.unparse(element)}: {ast.unparse(node)}", partial(_drop, "elts", place)


def _unrecorded(node: ast.keyword) -> Iterator[Change]:
    def forget(twin: ast.keyword) -> None:
        twin.value = ast.Constant(False) if twin.arg == "unmoved" else ast.Constant(None)

    is_none = isinstance(node.value, ast.Constant) and node.value.value is None
    if node.arg in ("unmoved", "code", "reason", "absent_since", "asked_at") and not is_none:
        yield f"{node.arg} is not recorded: {ast.unparse(node)}", forget


def _counted(node: ast.Constant) -> Iterator[Change]:
    if isinstance(node.value, bool):
        yield f"{node.value} becomes {not node.value}", partial(_put, not node.value)
    elif isinstance(node.value, int | float):
        for step in (1, -1):
            yield f"{node.value} becomes {node.value + step}", partial(_put, node.value + step)


def _put(value: Any, twin: ast.Constant) -> None:
    twin.value = value


CHANGES: tuple[tuple[type[ast.AST] | UnionType, Callable[[Any], Iterator[Change]]], ...] = (
    (ast.Compare, _flipped),
    (ast.BoolOp, _joined),
    (ast.If | ast.IfExp, _negated),
    (ast.Expr, _removed),
    (ast.AugAssign, _forgotten),
    (ast.Attribute, _renamed),
    (ast.Tuple, _shortened),
    (ast.keyword, _unrecorded),
    (ast.Constant, _counted),
)
"""Kind of node -> the changes that are tried of it."""


BY_THE_CLOCK = "the clock"
"""Names what notices a mutant with which the tests do not end."""


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
        """Return what notices the mutant: a test, or the clock; None when nothing does."""
        file = None if mutant is None else self.folder / mutant.file
        if mutant is not None and file is not None:
            file.write_text(mutant.source, encoding="utf-8")
        environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(self.folder)}
        tests = [test for test in TESTS if (self.folder / test).exists()]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
        command += ["-k", "not postgresql", *tests]
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
            return BY_THE_CLOCK
        finally:
            if mutant is not None and file is not None:
                shutil.copy(ROOT / mutant.file, file)
        if mutant is None and ended.returncode:
            print(ended.stdout[-3000:])
        failed = [line for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        if not ended.returncode:
            return None
        return failed[0].partition(" ")[2].partition(" - ")[0] if failed else "an error before any test"

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def run(mutants: list[Mutant], workers: int) -> list[tuple[Mutant, str | None]]:
    """Try every mutant; returns each with what noticed it."""
    waiting: queue.SimpleQueue[tuple[int, Mutant]] = queue.SimpleQueue()
    for number, mutant in enumerate(mutants, 1):
        waiting.put((number, mutant))
    tried: list[tuple[Mutant, str | None]] = []
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
                    tried.append((mutant, how))
                    word = "SURVIVED" if how is None else "killed  "
                    by = "" if how is None else f"  [{how}]"
                    print(f"{number:4} {word} {mutant.file}:{mutant.line} {mutant.change}{by}", flush=True)
        finally:
            tree.close()

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tried


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
        mutants = random.Random(asked.seed).sample(mutants, min(asked.mutants, len(mutants)))
    calm = Copy()
    try:
        if calm.notices(None) is not None:
            print("the tests fail without any mutant")
            return 2
    finally:
        calm.close()
    began = time.monotonic()
    tried = run(mutants, asked.workers)
    return report(tried, total, time.monotonic() - began)


def report(tried: list[tuple[Mutant, str | None]], total: int, seconds: float) -> int:
    """Print what was killed and what survived; the exit code."""
    killed = sum(how is not None for _, how in tried)
    endless = sum(how == BY_THE_CLOCK for _, how in tried)
    print(f"\n{killed} of {len(tried)} mutants killed (of {total}), {endless} of them by the clock, in {seconds:.0f} s")
    for mutant, how in sorted(tried, key=lambda one: (one[0].file, one[0].line)):
        if how is None:
            print(f"survived: {mutant.file}:{mutant.line} {mutant.change}")
        elif how == BY_THE_CLOCK:
            print(f"no end: {mutant.file}:{mutant.line} {mutant.change}")
    return 0 if killed >= ENOUGH * len(tried) else 1


if __name__ == "__main__":
    sys.exit(main())
