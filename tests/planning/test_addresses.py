"""Addresses: the vectors that the chains' own documents publish, and one wrong character of each."""

import pytest

from treasury.addresses import canonical_address, is_checked, why_no_address
from treasury.payees import look_of_payee, payee_key, payee_of_address

EIP_55 = (
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
    "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
    "0x52908400098527886E0F7030069857D2E4169EE7",
    "0xde709f2102306220921060314715629080e2fb77",
)
"""EIP-55: checksummed, all capitals, all small letters."""

BECH32 = (
    "BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4",
    "bc1pw508d6qejxtdg4y5r3zarvary0c5xw7kw508d6qejxtdg4y5r3zarvary0c5xw7kt5nd6y",
    "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",
)
"""BIP-173 and BIP-350, on the main net."""

VALID = {
    **dict.fromkeys(EIP_55, "ETH"),
    **dict.fromkeys(BECH32, "BTC"),
    "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2": "BTC",
    "3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy": "BTC",
    "TDBaAMzsQ3d7xqqgw8CWCzbAZGPdARHsMa": "USDT_TRC20",
    "DP6EQ8PQNQCGXHVjUH9tcdgmhbm5YBaMrW": "DOGE",
    "Lg7EvUMHYyzGrmV9oUtKSDMDxNjtYhApAB": "LTC",
    "bitcoincash:qpm2qsznhks23z7629mms6s4cwef74vcwvy22gdx6a": "BCH",
    "qpm2qsznhks23z7629mms6s4cwef74vcwvy22gdx6a": "BCH",
    "1BpEi6DfDAUFd7GtittLSdBeYJvcoaVggu": "BCH",
    "rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh": "XRP",
}


@pytest.mark.parametrize(("address", "currency"), VALID.items())
def test_a_valid_address_is_one_and_no_character_of_it_may_differ(address: str, currency: str) -> None:
    assert why_no_address(currency, address) is None
    place = len(address) - 7
    for character in "37":
        changed = address[:place] + character + address[place + 1 :]
        is_without_checksum = currency == "ETH" and address in (address.lower(), "0x" + address[2:].upper())
        assert (why_no_address(currency, changed) is None) == (changed == address or is_without_checksum), changed


@pytest.mark.parametrize(
    ("currency", "address"),
    [
        ("ETH", "TDBaAMzsQ3d7xqqgw8CWCzbAZGPdARHsMa"),
        ("USDT_TRC20", "0xde709f2102306220921060314715629080e2fb77"),
        ("USDT_TRC20", "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2"),
        ("BTC", "Lg7EvUMHYyzGrmV9oUtKSDMDxNjtYhApAB"),
        ("BTC", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kV8F3T4"),
        ("ETH", "0xde709f2102306220921060314715629080e2fb7"),
        ("ETH", "de709f2102306220921060314715629080e2fb77"),
        ("BTC", ""),
        ("BTC", "bc1"),
        ("BCH", "bitcoincash:"),
        ("XRP", "0"),
    ],
)
def test_an_address_of_another_chain_or_of_none_is_refused(currency: str, address: str) -> None:
    assert why_no_address(currency, address) is not None


def test_an_asset_that_names_no_chain_is_not_judged() -> None:
    assert (is_checked("USDT"), why_no_address("USDT", "anything")) == (False, None)


def test_letter_case_is_no_part_of_some_addresses() -> None:
    assert canonical_address(EIP_55[0]) == canonical_address(EIP_55[0].lower())
    assert canonical_address(BECH32[0]) == BECH32[0].lower()
    assert canonical_address("TDBaAMzsQ3d7xqqgw8CWCzbAZGPdARHsMa") == "TDBaAMzsQ3d7xqqgw8CWCzbAZGPdARHsMa"


def test_a_prefix_is_no_part_of_a_cash_address() -> None:
    """A service that writes it where the sheet does not held the withdrawal; two spellings were paid as two payees."""
    bare = "qpm2qsznhks23z7629mms6s4cwef74vcwvy22gdx6a"
    forms = (bare, bare.upper(), f"bitcoincash:{bare}", f"bitcoincash:{bare}".upper())
    assert {canonical_address(each) for each in forms} == {bare}
    assert len({payee_of_address(each, None) for each in forms}) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            ("1BpEi6DfDAUFd7GtittLSdBeYJvcoaVggu", None),
            ("bitcoincash:qpm2qsznhks23z7629mms6s4cwef74vcwvy22gdx6a", None),
        ),
        (("3CWFddi6m4ndiGyKqzYvsFYagqDLPVMTzC", None), ("ppm2qsznhks23z7629mms6s4cwef74vcwvn0h829pq", None)),
        (("3CDJNfdWX8m2NwuGUV3nhXHXEeLygMXoAj", None), ("MJRSgZ3UUFcTBTBAaN38XAXvZLwRe8WVw7", None)),
        (("rPT1Sjq2YGrBMTttX4GZHjKu9dyfzbpAYe", "7"), ("rPT1Sjq2YGrBMTttX4GZHjKu9dyfzbpAYe", "007")),
    ],
    ids=["key of Bitcoin Cash", "script of Bitcoin Cash", "script of Litecoin", "tag"],
)
def test_an_address_in_another_form_looks_alike(first: tuple[str, str | None], second: tuple[str, str | None]) -> None:
    """Each was paid a second time; a policy's list and the hold of new payees still take it for another one."""
    assert look_of_payee(payee_of_address(*first)) == look_of_payee(payee_of_address(*second))
    assert payee_of_address(*first) != payee_of_address(*second)


@pytest.mark.parametrize(
    ("paid", "chosen"),
    [
        (payee_of_address("alice1111111", None), payee_of_address("alicelllllll", None)),
        (
            payee_of_address("rPT1Sjq2YGrBMTttX4GZHjKu9dyfzbpAYe", "love"),
            payee_of_address("rPT1Sjq2YGrBMTttX4GZHjKu9dyfzbpAYe", "l0ve"),
        ),
        (payee_key("oil@example.com", "PH", "2000506"), payee_key("0il@example.com", "PH", "2000506")),
        (payee_key("oil@example.com", "PH", "2000506"), payee_key("oil@exam.plecom", "PH", "2000506")),
    ],
)
def test_a_name_that_somebody_chose_to_look_like_a_payees_is_another_payee(paid: str, chosen: str) -> None:
    """It was known as the one that was paid before; for duplicates it is still the same one, mistyped."""
    assert paid != chosen
    assert look_of_payee(paid) == look_of_payee(chosen)


def test_an_account_is_one_payee_however_it_is_written() -> None:
    assert payee_key("Jo@Example.com ", "PH", "1") == payee_key("jo@example.com", "PH", "1")
    assert payee_key("0481-926 357", "ID", "1") == payee_key("０481926357", "ID", "1")
    assert payee_of_address("alice1111111", "0012") == payee_of_address("alice1111111 ", " 0012")
