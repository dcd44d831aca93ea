"""`deploy/`: the compose file fits its schema, the units are read by systemd, and what they name is there."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from treasury.ledger.holder import SHARED_FOLDER
from treasury.settings import read_settings

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
OURS = {name: each for name, each in SERVICES.items() if each.get("image") == "treasury-flows"}


def test_the_compose_file_fits_the_schema_of_compose() -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*check, str(DEPLOY / "compose.yaml")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_is_read_by_systemd(unit: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    text = unit.read_text().replace("/opt/treasury/bin", str(Path(sys.executable).parent))
    (tmp_path / unit.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / unit.name)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if unit.name in line]) == (0, [])


@pytest.mark.parametrize("name", ["treasury", "treasury-worker"])
def test_a_unit_that_pays_sees_the_locks_of_all_homes_of_its_machine(name: str) -> None:
    """In a /tmp of its own it paid a run that a command of another home was paying."""
    lines = (DEPLOY / "systemd" / f"{name}.service").read_text().splitlines()
    assert "PrivateTmp=yes" not in lines
    assert f"ReadWritePaths={SHARED_FOLDER.parent}" in lines


def test_every_secret_is_a_file_that_a_setting_names() -> None:
    assert set(COMPOSE["secrets"]) == {name for each in SERVICES.values() for name in each.get("secrets", ())}
    for name, each in OURS.items():
        named = {
            value.rpartition("/")[2] for value in each["environment"].values() if value.startswith("/run/secrets/")
        }
        assert named == set(each["secrets"]), name
    told = {**OURS["worker"]["environment"], "TREASURY_HOME": "/var/lib/treasury"}
    settings = read_settings(told)
    assert settings.private_key_file == Path("/run/secrets/private_key")
    assert settings.ledger_key_file == Path("/run/secrets/ledger_key")
    assert settings.ledger_url == "postgresql://treasury@database/treasury"


def test_nothing_listens_beyond_this_machine_and_no_secret_is_in_the_files() -> None:
    ports = [port for each in SERVICES.values() for port in each.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    environments = [each.get("environment", {}) for each in SERVICES.values()]
    assert not [name for each in environments for name in each if re.search("PASSWORD$|AUTH_STRING$", name)]


def test_what_the_image_is_made_of_is_there() -> None:
    left = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert all((ROOT / line[1:]).exists() for line in left if line.startswith("!"))
    commands = [each["command"][0] for each in OURS.values()]
    assert all(word == "sh" or (Path(sys.executable).parent / word).exists() for word in commands)
