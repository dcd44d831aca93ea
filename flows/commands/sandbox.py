"""`treasury sandbox`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from flows.commands.common import DONE
from treasury.errors import InputError
from treasury.files import write_text
from treasury.sandbox import FAULTS, SandboxSettings, generate_key_pair, read_switches, serve
from treasury.settings import read_key_file, read_settings


def sandbox(
    *,
    port: int = 0,
    seed: int = 1,
    state: Path | None = None,
    partner_id: str = "900001",
    public_key: Path | None = None,
    fault: Annotated[list[str] | None, Parameter(negative=())] = None,
    behave: Annotated[list[str] | None, Parameter(negative=())] = None,
    settle: float = 3.0,
) -> int:
    """Start a stand-in for the service on 127.0.0.1: real signatures, real balances, faults on purpose.

    Runs until Ctrl-C. What to type where is in docs/sandbox.md.

    Parameters
    ----------
    port:
        The port; 0 takes a free one outside 8000-8999.
    seed:
        What rates and faults follow from.
    state:
        A file that survives restarts; without it everything is forgotten.
    partner_id:
        The partner that may call.
    public_key:
        File with the partner's public key; without it a key pair is made under TREASURY_HOME.
    fault:
        NAME=RATE, for example drop_after=0.05; may be repeated.
    behave:
        NAME=VALUE, for example hash=SHA256 or fee_on_top=withdraw,payout; may be repeated.
    settle:
        Seconds from acceptance to the final status.

    """
    behaviour = read_switches(behave or [])
    faults = dict(_read_fault(text) for text in fault or [])
    key = read_key_file(public_key, "public key") if public_key is not None else _made_key(partner_id)
    serve(
        SandboxSettings(
            partner_id=partner_id,
            public_key=key,
            port=port,
            seed=seed,
            state=state,
            settle_seconds=settle,
            faults=faults,
            behaviour=behaviour,
        )
    )
    return DONE


def _made_key(partner_id: str) -> str:
    """The public key of the sandbox's own pair, made on first use; prints where the private key is."""
    folder = read_settings().home / "sandbox"
    private, public = folder / "private_key.pem", folder / "public_key.pem"
    if not private.exists():
        for file, text in zip((private, public), generate_key_pair(), strict=True):
            write_text(file, text)
    print(f"partner {partner_id}, private key {private}", flush=True)
    return read_key_file(public, "public key")


def _read_fault(text: str) -> tuple[str, float]:
    name, _, rate = text.partition("=")
    try:
        share = float(rate or "1")
    except ValueError:
        share = -1.0
    if name not in FAULTS or not 0 <= share <= 1:
        raise InputError(f"--fault is NAME=RATE, a rate from 0 to 1; names: {', '.join(sorted(FAULTS))} (got {text!r})")
    return name, share
