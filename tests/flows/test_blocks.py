"""The account as a Prefect block: the service table is a part of it, and a block that was saved before still reads."""

from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from blocks import PartnerAccount
from blocks.desk import with_settings
from treasury.settings import read_settings

ACCOUNT = {"base_url": "http://127.0.0.1:1", "partner_id": "1", "private_key": SecretStr("key")}


def test_a_block_says_what_the_service_does() -> None:
    block = PartnerAccount(**ACCOUNT, service={"buy": "quote", "no_such_order": ["9001"]})
    rules = block.get_account().rules
    assert (rules.buy, rules.no_such_order, rules.hash) == ("quote", {"9001"}, "SHA1")


def test_a_block_of_before_keeps_its_choices() -> None:
    block = PartnerAccount(**ACCOUNT, hash="SHA256", timestamp_unit="s", null_text_is_blank=False)
    rules = block.get_account().rules
    assert (rules.hash, rules.timestamp_unit, rules.null_text_is_blank) == ("SHA256", "s", False)


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
