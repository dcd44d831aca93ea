"""Headers that people gave their own columns: proposed where they can mean one thing, used once confirmed, and said."""

from pathlib import Path

import pytest

from tests.sheets.books import BANK, PERSON, csv_text, table, write
from treasury.errors import InputError, InvalidSheet, UnknownHeaders
from treasury.pay.payout_plans import read_plan
from treasury.sheets.card_users_sheet import read_card_users
from treasury.sheets.headers import FILE, read_mappings, remember_mapping


def named(folder: Path, names: dict[str, str], row: dict[str, str] = BANK, file: str = "own.csv") -> Path:
    """A sheet with other names for some columns."""
    return write(folder, csv_text(table([{names.get(name, name): value for name, value in row.items()}])), file)


def test_a_name_that_can_mean_one_column_is_proposed_and_not_taken(tmp_path: Path) -> None:
    own = named(tmp_path, {"account_no": "Konto", "row_ref": "Reference", "email": "emails"})
    with pytest.raises(UnknownHeaders, match=r"did you mean account_no\? Say so once on a terminal") as raised:
        read_plan(own, "run", home=tmp_path)
    assert raised.value.proposal == {"Konto": "account_no", "Reference": "row_ref", "emails": "email"}
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize(
    "names",
    [
        {"account_no": "Nummer"},
        {"account_no": "Konto", "bank_code": "IBAN"},
        {"account_no": "Konto", "remark": "Kommentar"},
        {"account_no": "Konto", "country": "Konto "},
        {"account_no": "Kon\u200bto"},
        {"remark": "IBAN"},
    ],
    ids=["nothing like it", "two for one", "another unknown", "the same twice", "unseen character", "is there already"],
)
def test_what_is_not_clear_is_never_proposed(names: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(InvalidSheet) as raised:
        read_plan(named(tmp_path, names), "run", home=tmp_path)
    assert not isinstance(raised.value, UnknownHeaders)


def test_a_confirmed_mapping_is_used_said_and_part_of_the_plan(tmp_path: Path) -> None:
    own, plain = named(tmp_path, {"account_no": "Konto"}), named(tmp_path, {}, file="plain.csv")
    with pytest.raises(UnknownHeaders) as raised:
        read_plan(own, "run", home=tmp_path)
    remember_mapping(tmp_path, raised.value.headers, raised.value.proposal, "ada")
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    plan, same = read_plan(own, "run", home=tmp_path), read_plan(plain, "run", home=tmp_path)
    assert [row.bound_content for row in plan.rows] == [row.bound_content for row in same.rows]
    assert plan.sha256 != same.sha256
    assert plan.summary()["headers"] == {"Konto": "account_no"}
    assert plan.rows.notes[0] == "the column Konto was read as account_no, as somebody confirmed"  # type: ignore[attr-defined]
    turned = named(tmp_path, {"account_no": "Konto"}, dict(reversed(BANK.items())), "turned.csv")
    assert read_plan(turned, "run", home=tmp_path).sha256 == plan.sha256
    noted = named(tmp_path, {"account_no": "Konto"}, BANK | {"note": "mine", "_problem": ""}, "noted.csv")
    assert read_plan(noted, "run", home=tmp_path).sha256 == plan.sha256


def test_it_counts_for_these_headers_alone(tmp_path: Path) -> None:
    own = named(tmp_path, {"account_no": "Konto"})
    with pytest.raises(UnknownHeaders) as raised:
        read_plan(own, "run", home=tmp_path)
    remember_mapping(tmp_path, raised.value.headers, raised.value.proposal, "ada")
    more = named(tmp_path, {"account_no": "Konto"}, BANK | {"duplicate_ok": ""}, "more.csv")
    other = named(tmp_path, {"account_no": "Konto"}, PERSON, "other.csv")
    for file in (more, other):
        with pytest.raises(UnknownHeaders):
            read_plan(file, "run", home=tmp_path)
    with pytest.raises(UnknownHeaders):
        read_plan(own, "run", home=tmp_path / "another")


@pytest.mark.parametrize(
    "text", ["[", "{}x", '[{"headers": ["a"]}]', '[{"headers": ["a"], "columns": {"b": "c"}}]', "5"]
)
def test_a_damaged_file_of_mappings_stops(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(InputError, match=r"mappings\.json cannot be read"):
        read_plan(named(tmp_path, {}), "run", home=tmp_path)


def test_card_users_have_headers_of_ones_own_too(tmp_path: Path) -> None:
    sheet = write(tmp_path, "External ID,Mail,note\nu-1,jo@example.com,x\n")
    with pytest.raises(UnknownHeaders) as raised:
        read_card_users(sheet, mappings=read_mappings(tmp_path))
    assert raised.value.proposal == {"External ID": "user_xid", "Mail": "email"}
    remember_mapping(tmp_path, raised.value.headers, raised.value.proposal, "ada")
    users = read_card_users(sheet, mappings=read_mappings(tmp_path))
    assert [(user.user_xid, user.email) for user in users] == [("u-1", "jo@example.com")]
    assert users.notes == (
        "the column External ID was read as user_xid, as somebody confirmed",
        "the column Mail was read as email, as somebody confirmed",
    )


def test_what_was_confirmed_of_one_kind_of_sheet_says_nothing_of_another(tmp_path: Path) -> None:
    own = named(tmp_path, {"row_ref": "Reference"})
    remember_mapping(tmp_path, frozenset({*BANK, "Reference"} - {"row_ref"}), {"Reference": "user_xid"}, "ada")
    with pytest.raises(UnknownHeaders) as raised:
        read_plan(own, "run", home=tmp_path)
    assert raised.value.proposal == {"Reference": "row_ref"}
