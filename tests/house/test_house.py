"""The rules of the house, read from the code itself."""

import ast
import importlib
import importlib.util
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from treasury import errors

ROOT = Path(__file__).resolve().parents[2]
FLOORS = ("flows", "tasks", "blocks", "treasury")
"""Top to bottom: imports run down only."""

MODULES = sorted(file for floor in FLOORS for file in (ROOT / floor).rglob("*.py"))


@cache
def uses(file: Path) -> tuple[ast.Import | ast.ImportFrom | ast.Attribute, ...]:
    """Every import and every attribute in a module, also inside functions; a file is read once for most rules."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom | ast.Attribute))


def imports_of(file: Path) -> Iterator[str]:
    """The modules and names that a module imports anywhere, written in full."""
    for node in uses(file):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are written in full"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported(file: Path) -> set[str]:
    """The top-level packages that a module imports anywhere."""
    return {name.partition(".")[0] for name in imports_of(file)}


def attributes(file: Path, *names: str) -> Iterator[ast.Attribute]:
    """Everything in a module that is written `.name`, called or handed on."""
    return (node for node in uses(file) if isinstance(node, ast.Attribute) and node.attr in names)


def shown(file: Path) -> str:
    return str(file.relative_to(ROOT))


FOR_TESTS = "treasury/testing.py"
"""Fixtures for tests of people's own flows: it alone in the domain starts the sandbox, sets the environment and needs
pytest. Nothing imports it."""


@pytest.mark.parametrize("floor", FLOORS)
def test_imports_run_down_only(floor: str) -> None:
    above = set(FLOORS[: FLOORS.index(floor)])
    wrong = [shown(file) for file in (ROOT / floor).rglob("*.py") if above & imported(file)]
    assert not wrong, f"{wrong} import from a floor above"


def test_the_domain_knows_no_prefect_and_one_module_the_environment() -> None:
    for file in (ROOT / "treasury").rglob("*.py"):
        assert not imported(file) & {"prefect", "cyclopts", "tests"}, shown(file)
        reads = [node.lineno for node in attributes(file, "environ", "getenv", "environb", "putenv")]
        if shown(file) not in ("treasury/settings.py", FOR_TESTS):
            assert not reads, f"{shown(file)} reads the environment: {reads}"


def functions(file: Path) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            yield node


def room_of(name: str) -> str:
    """The room of a module of `treasury`: its folder, or the file itself where it stands in the hall."""
    return name.split(".")[1]


def graph_of_rooms(files: list[Path]) -> dict[str, dict[str, set[str]]]:
    """Room -> room that it imports -> the files that do so."""
    graph: dict[str, dict[str, set[str]]] = {}
    for file in files:
        room = room_of(".".join(file.relative_to(ROOT).with_suffix("").parts))
        for name in imports_of(file):
            if name.startswith("treasury.") and room_of(name) != room:
                graph.setdefault(room, {}).setdefault(room_of(name), set()).add(shown(file))
    return graph


DOMAIN = [file for file in MODULES if file.relative_to(ROOT).parts[0] == "treasury" and file.name != "__init__.py"]


def test_rooms_form_no_circle() -> None:
    graph = graph_of_rooms(DOMAIN)
    try:
        order = list(TopologicalSorter({room: set(others) for room, others in graph.items()}).static_order())
    except CycleError as error:
        circle = error.args[1]
        steps = [f"{inner} <- {outer}: {graph[outer][inner]}" for inner, outer in pairwise(circle)]
        pytest.fail("rooms form a circle: " + "; ".join(steps))
    assert sorted(SPINE, key=order.index) == list(SPINE)
    assert min(order.index(feature) for feature in FEATURES) > order.index(SPINE[-1])


SPINE = ("provider", "orders", "policy", "planning", "ledger", "sending", "payments")

FEATURES = {
    "pay": {"rebalance"},  # a run that is funded converts
    "rebalance": set[str](),
    "collect": {"nights"},  # what arrived is what a night read
    "cards": set[str](),
    "nights": {"cards"},  # a night asks about their checks
    "call": {"pay", "rebalance", "collect"},  # a single payment, conversion, invoice
}
"""Room of a feature -> the other features that it builds on."""


def test_a_feature_builds_on_the_spine_and_on_no_other_feature_than_it_says() -> None:
    graph = graph_of_rooms(DOMAIN)
    assert {room: graph[room].keys() & FEATURES.keys() for room in FEATURES} == FEATURES
    assert [room for room in SPINE if graph[room].keys() & FEATURES.keys()] == []


def test_modules_form_no_circle() -> None:
    modules = {".".join(file.relative_to(ROOT).with_suffix("").parts): file for file in MODULES}
    graph = {
        module: {known for name in imports_of(file) if (known := name if name in modules else name.rpartition(".")[0])}
        for module, file in modules.items()
    }
    TopologicalSorter({module: others & modules.keys() for module, others in graph.items()}).prepare()


PURE = ("orders", "policy", "planning", "reconciliation")
TOUCHES_THE_WORLD = {"sqlalchemy", "httpx", "pyreqwest", "asyncio", "socket", "os", "io", "tempfile", "time", "pathlib"}
CLOCKS_AND_FILES = {"now", "today", "utcnow", "open", "read_text", "write_text", "to_csv", "to_excel", "to_parquet"}


@pytest.mark.parametrize("room", PURE)
def test_a_pure_room_touches_no_database_network_file_or_clock(room: str) -> None:
    for file in (ROOT / "treasury" / room).rglob("*.py"):
        assert not {name.partition(".")[0] for name in imports_of(file)} & TOUCHES_THE_WORLD, shown(file)
        assert not [name for name in imports_of(file) if name.startswith("treasury.clock")], shown(file)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                assert called not in CLOCKS_AND_FILES, f"{shown(file)}:{node.lineno} calls {called}"


CLOCK = "treasury/clock.py"


def test_the_machine_is_asked_for_the_time_in_one_place() -> None:
    """The clock itself takes no time from settings, files or the environment: it imports nothing of ours."""
    assert imported(ROOT / CLOCK) == {"time", "datetime"}
    for file in MODULES:
        asks = [
            node.lineno
            for node in attributes(file, "now", "utcnow", "today")
            if getattr(node.value, "attr", getattr(node.value, "id", "")) in ("datetime", "date")
        ]
        if shown(file) != CLOCK:
            assert "time" not in imported(file), shown(file)
            assert not asks, f"{shown(file)}:{asks}"


def test_pure_rooms_are_imported_without_a_database_or_an_engine() -> None:
    modules = [
        ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for room in PURE
        for file in sorted((ROOT / "treasury" / room).rglob("*.py"))
        if file.name != "__init__.py"
    ]
    code = (
        f"import importlib, sys\nfor name in {modules}: importlib.import_module(name)\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules}"
        " & {'sqlalchemy', 'httpx', 'pyreqwest', 'prefect', 'openpyxl', 'alembic'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_nothing_in_the_domain_imports_the_sandbox() -> None:
    for file in DOMAIN:
        if "sandbox" not in file.relative_to(ROOT).parts and shown(file) != FOR_TESTS:
            assert not [name for name in imports_of(file) if name.startswith("treasury.sandbox")], shown(file)


def test_pytest_is_needed_by_the_fixtures_for_tests_alone_and_they_by_nothing() -> None:
    for file in MODULES:
        names = list(imports_of(file))
        assert not [name for name in names if name.startswith("treasury.testing")], shown(file)
        if shown(file) != FOR_TESTS:
            assert not [name for name in names if name.partition(".")[0] in ("pytest", "_pytest")], shown(file)


def test_what_tests_share_stands_in_modules_of_its_own() -> None:
    """Test modules and conftests are imported by pytest alone. `bench` may use what tests share; not the reverse."""
    for file in [each for folder in ("tests", "bench") for each in (ROOT / folder).rglob("*.py")]:
        modules = [name for name in imports_of(file) if name.partition(".")[0] in ("tests", "bench")]
        for name in modules:
            assert not re.search(r"\.(test_\w+|conftest)(\.|$)", name), f"{shown(file)} imports {name}"
            assert not (shown(file).startswith("tests/") and name.startswith("bench")), f"{shown(file)} imports {name}"


def body_lines(function: ast.FunctionDef) -> int:
    """Lines of the body, the docstring and blank ones left out."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return 0 if not body else (body[-1].end_lineno or 0) - body[0].lineno + 1


def test_tasks_are_a_decorator_and_a_call() -> None:
    for file in (ROOT / "tasks").glob("*.py"):
        for function in functions(file):
            limit = 12 if any("task" in ast.dump(each) for each in function.decorator_list) else 20
            assert body_lines(function) <= limit, f"{shown(file)}: {function.name}"
        names = imported(file)
        assert not names & {"httpx", "sqlalchemy", "requests"}, shown(file)


def test_flows_have_no_http_no_sql_and_no_classes() -> None:
    files = [file for file in (ROOT / "flows").glob("*.py") if not file.name.startswith("_")]
    assert len(files) >= 4
    for file in files:
        assert not imported(file) & {"httpx", "sqlalchemy", "requests", "pandas"}, shown(file)
        tree = ast.parse(file.read_text(encoding="utf-8"))
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)], shown(file)
        for function in functions(file):
            assert body_lines(function) <= 40, f"{shown(file)}: {function.name}"


def test_money_leaves_through_transmission_alone() -> None:
    """`transmit` is the door that money leaves by: only `transmission.py` opens it, and the client itself."""
    users = {shown(file) for file in MODULES if any(attributes(file, "transmit"))}
    assert users == {"treasury/sending/transmission.py", "treasury/provider/client.py"}


def test_a_client_sends_for_quotes_and_what_cannot_move_money_alone() -> None:
    """Only `submission.py`, and what cannot move money, calls `send` of a client."""
    allowed = {"treasury/sending/submission.py"}
    allowed |= {"treasury/call/calls.py", "treasury/cards/provisioning.py"}
    allowed |= {"treasury/collect/issuing_addresses.py", "treasury/collect/collecting.py"}
    callers = {
        shown(file)
        for file in MODULES
        if "sandbox" not in file.parts
        for node in attributes(file, "send")
        if isinstance(node.value, ast.Attribute) and node.value.attr.strip("_") == "client"
    }
    assert callers <= allowed, callers - allowed


def test_every_module_says_what_it_is_for() -> None:
    for file in MODULES:
        text = file.read_text(encoding="utf-8")
        assert not text.strip() or ast.get_docstring(ast.parse(text)), shown(file)


def test_modules_stay_small() -> None:
    for file in MODULES:
        assert len(file.read_text(encoding="utf-8").splitlines()) <= 450, shown(file)


def project_files() -> list[Path]:
    """Every text file that is, or is about to be, in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    names = listed.stdout.splitlines()
    if not names:  # an sdist has no git
        names = [shown(file) for folder in (*FLOORS, "tests", "docs", "data") for file in (ROOT / folder).rglob("*")]
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def test_no_file_names_a_package_registry_or_holds_a_private_key() -> None:
    hosts = [".".join(parts) for parts in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"))]
    # A key is a header that is followed by base64 in the same file; writing about headers is fine.
    key = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----\s*[A-Za-z0-9+/=]{40}")
    bare = re.compile(r"MII[A-Za-z0-9+/]{600,}")
    for file in project_files():
        text = file.read_text(encoding="utf-8", errors="replace")
        for host in hosts:
            assert host not in text, f"{shown(file)} names {host}"
        assert not key.search(text), f"{shown(file)} holds a private key"
        assert not bare.search(text), f"{shown(file)} holds a private key"
        for option in ("--index-" + "url", "--extra-index" + "-url", "--find" + "-links"):
            assert option not in text, f"{shown(file)} says where packages come from"


def pins() -> dict[str, str]:
    found = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pinned = re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([0-9][A-Za-z0-9.+!]*)", line)
            assert pinned, f"constraints.txt holds more than a name and a version: {line}"
            found[pinned[1]] = pinned[2]
    return found


def test_the_pins_are_what_is_installed() -> None:
    """All but pip, which comes with Python."""
    installed = {}
    for name in pins().keys() - {"pip"}:
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            continue  # for another platform
    differ = {name: (pins()[name], found) for name, found in installed.items() if pins()[name] != found}
    assert not differ
    for name in ("prefect", "fastapi", "httpx", "pandas", "cryptography", "pytest", "certifi", "pydantic"):
        assert name in installed


@pytest.mark.prefect
def test_the_pinned_prefects_server_starts(prefect_url: str) -> None:
    """A plain installation resolves a FastAPI that Prefect's server cannot be imported with."""
    assert httpx.get(f"{prefect_url}/admin/version").json() == pins()["prefect"]
    import yaml

    assert yaml.safe_load((ROOT / "prefect.yaml").read_text())["prefect-version"] == pins()["prefect"]


def test_flows_tasks_and_blocks_are_packages() -> None:
    for floor in FLOORS:
        assert (ROOT / floor / "__init__.py").is_file(), floor


def test_every_command_word_of_the_design_is_a_make_target_or_a_file() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in ("install", "demo", "test", "lint", "format", "clean"):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_no_two_modules_of_the_domain_have_one_name() -> None:
    """Commands and tasks are named as what they start; the sandbox is another program."""
    names = Counter(file.name for file in DOMAIN if "sandbox" not in file.parts)
    assert not [name for name, count in names.items() if count > 1]


def test_no_two_public_classes_of_the_product_have_one_name() -> None:
    """The sandbox is a service of its own, with its own orders, quotes and requests."""
    places: dict[str, list[str]] = {}
    for file in MODULES:
        for each in ast.parse(file.read_text()).body:
            if isinstance(each, ast.ClassDef) and not each.name.startswith("_") and "sandbox" not in file.parts:
                places.setdefault(each.name, []).append(shown(file))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


NOT_FIRST = re.compile(r'^ *"""\s*(The same|What|Whether|Where)\b.*', re.MULTILINE)


def test_a_docstring_begins_with_a_verb_or_a_noun() -> None:
    """Those of modules, classes, functions, constants and fields alike."""
    for folder in (*FLOORS, "data", "tests", "bench"):
        for file in (ROOT / folder).rglob("*.py"):
            found = NOT_FIRST.search(file.read_text())
            assert not found, f"{shown(file)}: {found[0]}"


IMPORT = re.compile(r"^\s*from ((?:treasury|flows|tasks|blocks|data|tests)[\w.]*) import ([\w, ]+)$", re.MULTILINE)


def test_what_programs_in_strings_import_is_there() -> None:
    """Tests hand programs to other processes as text, which no type checker reads."""
    for file in [each for folder in ("tests", "bench") for each in (ROOT / folder).rglob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                continue
            for module, names in IMPORT.findall(node.value):
                found = importlib.import_module(module)
                for name in (each.split(" as ")[0].strip() for each in names.split(",")):
                    is_module = importlib.util.find_spec(f"{module}.{name}") if hasattr(found, "__path__") else None
                    assert hasattr(found, name) or is_module, f"{shown(file)}: from {module} import {name}"


def test_every_error_of_ours_stands_in_the_tree() -> None:
    ours = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.TreasuryError)]
    lost = [each.__name__ for each in ours if not re.search(rf"(^| ){each.__name__}( |$)", str(errors.__doc__), re.M)]
    assert not lost
