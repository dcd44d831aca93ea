"""The account as a Prefect block: the service table is a part of it, and what is no entry of it is refused."""

from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from blocks import BLOCKS, PartnerAccount, TreasuryPolicy
from blocks.desk import with_settings
from treasury.errors import ConfigurationError, InputError
from treasury.settings import read_settings

ACCOUNT = {"base_url": "http://127.0.0.1:1", "partner_id": "1", "private_key": SecretStr("key")}


def test_a_block_says_what_the_service_does() -> None:
    block = PartnerAccount(**ACCOUNT, service={"buy": "quote", "no_such_order": ["9001"]})
    rules = block.get_account().rules
    assert (rules.buy, rules.no_such_order, rules.hash) == ("quote", {"9001"}, "SHA1")


def test_what_the_environment_says_goes_before_the_block(tmp_path: Path) -> None:
    block = PartnerAccount(**ACCOUNT, service={"buy": "quote", "hash": "SHA256"}).get_account()
    settings = read_settings({"TREASURY_HOME": str(tmp_path), "TREASURY_BUY": "base", "TREASURY_NO_SUCH_ORDER": "9001"})
    rules = with_settings(block, settings).rules
    assert (rules.buy, rules.hash, rules.no_such_order) == ("base", "SHA256", {"9001"})
    assert with_settings(block, read_settings({"TREASURY_HOME": str(tmp_path)})).rules == block.rules


@pytest.mark.parametrize("service", [{"bye": "quote"}, {"buy": "both"}, {"no_such_order": ["429"]}])
def test_an_entry_that_is_unknown_or_not_allowed_is_refused(service: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=next(iter(service))):
        PartnerAccount(**ACCOUNT, service=service)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hash", "hash is not known; did you mean service.hash?"),
        ("null_text_is_blank", "did you mean service.null_text_is_blank?"),
        ("private_kye", "private_kye is not known; did you mean private_key?"),
    ],
)
def test_an_entry_beside_those_of_a_block_is_refused_and_no_value_is_repeated(name: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        PartnerAccount(**ACCOUNT, **{name: "4711"})
    assert said in str(raised.value)
    assert "4711" not in str(raised.value)


def test_what_a_block_says_makes_the_same_block() -> None:
    block = PartnerAccount(**ACCOUNT, service={"hash": "SHA256"})
    assert PartnerAccount.model_validate(block.model_dump()).model_dump() == block.model_dump()


@pytest.mark.parametrize("partner_id", ["", "  "])
def test_an_account_without_a_partner_is_refused(partner_id: str) -> None:
    with pytest.raises(ValidationError, match="partner_id"):
        PartnerAccount(**{**ACCOUNT, "partner_id": partner_id})


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("[payouts", "the Treasury Policy block: the policy is not valid TOML"),
        ("[payouts]\nmax_per_run = 5\n", "the Treasury Policy block"),
        ("[payout]\n", "payout"),
    ],
)
def test_a_policy_that_is_none_is_refused_with_the_place(toml: str, said: str) -> None:
    with pytest.raises(InputError, match=said.replace("[", r"\[")):
        TreasuryPolicy(toml=toml)


def test_prefect_finds_the_blocks_of_the_package_and_what_they_are() -> None:
    from importlib.metadata import entry_points

    from prefect.blocks.abstract import CredentialsBlock

    [found] = [each for each in entry_points(group="prefect.collections") if each.name == "treasury_flows"]
    assert all(getattr(found.load(), block.__name__) is block for block in BLOCKS)
    assert issubclass(PartnerAccount, CredentialsBlock)
    for block in BLOCKS:
        assert f"import {block.__name__}" in str(block.get_code_example())
        assert block.get_description()
