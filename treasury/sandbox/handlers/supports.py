"""Look-ups: countries, banks, networks, fields, purposes, payout channels (public facts 5.3-5.7, 5.10)."""

from collections.abc import Mapping
from typing import Any

from treasury.provider.fiat_payouts import (
    RemittancePurposes,
    SupportedBanks,
    SupportedCountries,
    SupportedFields,
    SupportedNetworks,
)
from treasury.provider.funds import PayoutChannels
from treasury.sandbox.answers import Refusal
from treasury.sandbox.routes import BANK_FIELDS, CHANNELS, PURPOSES, ROUTES, Channel, find_route
from treasury.sandbox.world import World


def countries(_: World, asked: SupportedCountries) -> dict[str, Any]:
    """Countries and their currencies, sorted by country."""
    found: dict[str, list[str]] = {}
    for route in ROUTES:
        if asked.receive_currency in (None, route.currency):
            found.setdefault(route.country, []).append(route.currency)
    return {"countries": [{"country": country, "currencies": found[country]} for country in sorted(found)]}


def banks(_: World, asked: SupportedBanks) -> dict[str, Any]:
    """Banks and wallets of a route; none when the amount is above its limit."""
    route = find_route(asked.country, asked.currency)
    if route is None or (asked.amount is not None and asked.amount > route.limit):
        return {"banks": []}
    kinds = (("bank", route.banks), ("wallet", route.wallets))
    return {
        "banks": [
            {"bank_code": code, "bank_name": name, "type": kind, "clearing_networks": list(route.networks)}
            for kind, codes in kinds
            for code, name in codes.items()
        ]
    }


def networks(_: World, asked: SupportedNetworks) -> dict[str, Any]:
    """Clearing networks of a route."""
    route = find_route(asked.country, asked.currency)
    return {"networks": [] if route is None else list(route.networks)}


def fields(_: World, asked: SupportedFields) -> dict[str, Any]:
    """Return what a bank asks of a beneficiary: over one network, or over any it has."""
    route = find_route(asked.country, asked.currency)
    if route is None or not any(route.reaches(asked.bank_code, network) for network in route.networks):
        raise Refusal(206003, f"{asked.bank_code} in {asked.country}")
    scoped = route.networks if asked.network is None else (asked.network,)
    return {
        "fields": [
            {"key": key, "label": label, "required": True}
            for network in scoped
            for key, label in BANK_FIELDS.get(network, {}).items()
        ]
    }


def purposes(_: World, __: RemittancePurposes) -> dict[str, Any]:
    """Remittance purposes by code."""
    return dict(PURPOSES)


def payout_channels(_: World, asked: PayoutChannels) -> dict[str, Any]:
    """Banks and wallets that `payout` reaches."""
    channel = CHANNELS.get(asked.country)
    if channel is None or channel.currency != asked.currency:
        channel = Channel(asked.currency)
    return {"banks": _named(channel.banks), "wallets": _named(channel.wallets)}


def _named(codes: Mapping[str, str]) -> list[dict[str, str]]:
    return [
        {"code": code, "enName": name, "enShortName": name, "localName": name, "localShortName": name}
        for code, name in codes.items()
    ]
