"""Settings: the only module that reads the environment.

Where a setting comes from: environment, else the account file that `treasury connect` writes; in a deployment a
Prefect block may stand in for the account (see `blocks`).
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast, get_args

from pydantic import ValidationError

from treasury.account_file import explain, read_account_file
from treasury.errors import ConfigurationError, InputError
from treasury.orders.payment_decisions import EvidenceRules
from treasury.private_files import read_bounded, read_private, why_unread
from treasury.provider.client import Account
from treasury.provider.engine import EXCHANGE_SECONDS, MAX_BYTES, EngineLimits, EngineName
from treasury.provider.service_rules import ServiceRules
from treasury.provider.signing import load_private_key, load_public_key

RESEND_AFTER_SECONDS = 600.0
"""How far apart two "no such order" answers must be before an order is sent again under the same id."""

MAX_CLOCK_SKEW_SECONDS = 120.0
"""How far our clock may be off the service's before nothing is sent."""

IN_FLIGHT = 64
"""Requests on their way at once: the rate times the latency, 640 a second at 100 ms. Also how many payments may leave
after trouble began and before it shows."""

PROCESSES = 4
"""Processes that a sweep uses, unless there are fewer cores or it is told otherwise; each has its own requests."""

RunnerName = Literal["threads", "processes", "dask"]
"""Who asks the parts of a sweep: threads of the run's process, processes beside it, or workers of a Dask cluster."""

PING_JOB = "{job}"
"""Stands for the name of the job in the URL that is told of starts and ends."""

MAX_COUNT = 1_000

REPLY_BYTES = (1_000, 100_000_000)
"""Least and most bytes that an answer may be allowed."""

EXCHANGES = (0.1, 3_600.0)
"""Least and most seconds that an exchange may be allowed."""


@dataclass(frozen=True)
class AlarmHours:
    """Hours after which what is still not done is an alarm."""

    report: float = 26.0
    """Without a report of everything: a night, and two hours for it."""
    waiting: float = 24.0
    """That a run waits for approvals."""
    unknown: float = 4.0
    """That an order is of unknown outcome."""
    late: float = 0.25
    """That a scheduled run did not start."""
    silent: float = 0.15
    """That a run gave no sign of life: three times as long as one takes (`PREFECT_FLOWS_HEARTBEAT_FREQUENCY`)."""


LEAST_ALARM_HOURS = 10 / 3600
"""Prefect waits at least ten seconds for what it expects."""


@dataclass(frozen=True)
class Settings:
    """The settings of a home. Paths are absolute."""

    home: Path
    base_url: str | None
    partner_id: str | None
    private_key_file: Path | None
    platform_key_file: Path | None
    ledger_url: str
    ledger_key_file: Path
    resend_after_seconds: float = RESEND_AFTER_SECONDS
    max_clock_skew_seconds: float = MAX_CLOCK_SKEW_SECONDS
    processes: int = 1
    """How many processes a sweep may use."""
    runner: RunnerName | None = None
    """Who asks the parts of a sweep; when left out its size decides, between threads and processes."""
    dask_scheduler: str | None = None
    """The address of the Dask cluster; a cluster of this machine is made where there is none."""
    in_flight: int = IN_FLIGHT
    """Requests that a process has on their way at once."""
    quote_margin_seconds: float | None = None
    """How long after its end a quote may still be confirmed; None is `resend_after_seconds`."""
    tokens: Path | None = None
    """Folder of the tokens that count what this machine sent; None is `tokens` in the home."""
    limits: EngineLimits = EngineLimits()
    """How much of an answer is taken, and how long for."""
    http_engine: EngineName | None = None
    """None is pyreqwest where it is installed, else httpx."""
    service: ServiceRules = ServiceRules()
    """The behaviour of this account's service where the interface document leaves it open."""
    service_in_environment: frozenset[str] = frozenset()
    """Entries of it that the environment says, whatever the account file says."""
    notify_url: str | None = None
    """The address that the service reports to, of payments whose sheet names none; None: it reports nothing."""
    out_folders: tuple[Path, ...] = ()
    """Folders besides the home that the form of a deployed flow may name for its files."""
    ping_url: str | None = None
    """A healthchecks-compatible URL that is told when a scheduled job starts and how it ends."""
    notices: tuple[str, ...] = ()
    """Who is told of each morning and of what waits for people: addresses of Apprise, or blocks, TYPE/NAME."""
    alarm_block: str | None = None
    """The notification block, TYPE/NAME, that alarms are sent by; None: Prefect shows them, and sends nothing."""
    alarm_hours: AlarmHours = AlarmHours()

    @property
    def token_folder(self) -> Path:
        """Return where the tokens are."""
        return self.home / "tokens" if self.tokens is None else self.tokens

    def evidence(self, service: ServiceRules) -> EvidenceRules:
        """Return what counts as evidence about a payment whose fate is unknown, at a service that does so."""
        margin = self.resend_after_seconds if self.quote_margin_seconds is None else self.quote_margin_seconds
        return EvidenceRules(self.resend_after_seconds, margin, service)

    def check_windows(self, account: Account) -> str | None:
        """Raise `ConfigurationError` when a request may still be read after its order was sent again.

        On loopback it is returned as a warning instead.
        """
        least = account.rules.timestamp_window_seconds + self.max_clock_skew_seconds
        if self.resend_after_seconds > least:
            return None
        problem = (
            f"TREASURY_RESEND_AFTER_SECONDS ({self.resend_after_seconds:g}) must be more than "
            f"TREASURY_TIMESTAMP_WINDOW_SECONDS plus TREASURY_MAX_CLOCK_SKEW_SECONDS ({least:g}): a request that "
            "was held up could be read after its order was sent again"
        )
        if not account.is_loopback:
            raise ConfigurationError(f"{problem}; nothing was sent")
        return problem

    @property
    def account_file(self) -> Path:
        """Return what `treasury connect` writes."""
        return self.home / "account.json"

    def run_folder(self, run_key: str) -> Path:
        """Return where a run's results go unless said otherwise."""
        return self.home / "runs" / run_key

    def night_folder(self, day: str) -> Path:
        """Return where the reconciliations of a day (ISO date) go unless said otherwise."""
        return self.home / "nights" / day

    def check_out(self, out: str | None) -> None:
        """Raise `InputError` for a folder that the form of a deployed flow names and no setting allows."""
        allowed = [folder.resolve() for folder in (self.home, *self.out_folders)]
        if out is not None and not any(Path(out).resolve().is_relative_to(each) for each in allowed):
            named = ", ".join(map(str, allowed))
            raise InputError(
                f"out: {out} is not inside {named}; nothing was done: leave it out, or name the folder in "
                "TREASURY_OUT_FOLDERS where the deployments are served"
            )

    @property
    def has_account(self) -> bool:
        """Tell whether environment or account file name an account."""
        return bool(self.base_url or self.partner_id or self.private_key_file)

    def account(self) -> Account:
        """The account. Raises `ConfigurationError` that says what is missing and how to give it."""
        if not (self.base_url and self.partner_id and self.private_key_file):
            missing = [each for each in ("base_url", "partner_id", "private_key_file") if not getattr(self, each)]
            named = ", ".join(f"TREASURY_{each.upper()}" for each in missing)
            raise ConfigurationError(f"no account: run `treasury connect`, or set {named}")
        platform_key = read_key_file(self.platform_key_file, "platform key") if self.platform_key_file else None
        private_key = read_private_key(self.private_key_file)
        return Account(self.base_url, self.partner_id, private_key, platform_key, self.service)


def os_user() -> str:
    """The name of the operating system's user that runs this process."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def read_key_file(path: Path, what: str) -> str:
    """The text of the file with a public key. Raises `ConfigurationError`, also when it is none."""
    return _key_text(path, what, read_bounded, load_public_key)


def read_private_key(path: Path) -> str:
    """The text of the file with the private key. Raises `ConfigurationError`, also when others can read the file, or
    nothing can be signed with it."""
    return _key_text(path, "private key", partial(read_private, what="private key file"), load_private_key)


def _key_text(path: Path, what: str, read: Callable[[Path], bytes], load: Callable[[str], object]) -> str:
    try:
        text = read(path).decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the {what} file {path} cannot be read: {why_unread(error)}") from None
    try:
        load(text)
    except ConfigurationError as error:
        raise ConfigurationError(f"the {what} file {path}: {error}") from None
    return text


def home_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where this program keeps everything."""
    return whole_path(environ.get("TREASURY_HOME") or "~/.treasury")


def whole_path(text: str) -> Path:
    """The path that a setting names. Raises `ConfigurationError` for a `~` of nobody's, `OSError` for a lost folder."""
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:  # no HOME, and a user that the machine does not list, or a name that it does not
        raise ConfigurationError(
            f"{text}: this machine knows no such user's home; set HOME, or write the whole path in place of ~ "
            "(TREASURY_HOME, PREFECT_HOME and other paths)"
        ) from None


def _beside(home: Path) -> str:
    """The address of the ledger in a home. Raises `ConfigurationError` where none can be written of it."""
    if "?" in str(home):
        raise ConfigurationError(
            f"the folder {home} has a question mark in its name, where the address of a ledger in it would end: set "
            "another TREASURY_HOME, or TREASURY_LEDGER_URL as well"
        )
    return f"sqlite:///{home / 'ledger.db'}"


def read_settings(environ: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings. Raises `ConfigurationError` for an account file or a number that cannot be read."""
    home = home_folder(environ)
    saved = read_account_file(home / "account.json")

    def path(variable: str, key: str) -> Path | None:
        text = environ.get(variable) or getattr(saved, key)
        return whole_path(text) if text else None

    return Settings(
        home=home,
        base_url=environ.get("TREASURY_BASE_URL") or saved.base_url,
        partner_id=environ.get("TREASURY_PARTNER_ID") or saved.partner_id,
        private_key_file=path("TREASURY_PRIVATE_KEY_FILE", "private_key_file"),
        platform_key_file=path("TREASURY_PLATFORM_KEY_FILE", "platform_key_file"),
        ledger_url=environ.get("TREASURY_LEDGER_URL") or _beside(home),
        ledger_key_file=path("TREASURY_LEDGER_KEY_FILE", "ledger_key_file") or home / "ledger.key",
        resend_after_seconds=_seconds(environ, "TREASURY_RESEND_AFTER_SECONDS", RESEND_AFTER_SECONDS),
        quote_margin_seconds=(
            _seconds(environ, "TREASURY_QUOTE_MARGIN_SECONDS", RESEND_AFTER_SECONDS)
            if environ.get("TREASURY_QUOTE_MARGIN_SECONDS")
            else None
        ),
        tokens=path("TREASURY_TOKEN_FOLDER", "token_folder"),
        processes=_count(environ, "TREASURY_PROCESSES", min(os.cpu_count() or 1, PROCESSES)),
        runner=cast(RunnerName | None, _one_of(environ, "TREASURY_RUNNER", RunnerName)),
        dask_scheduler=environ.get("TREASURY_DASK_SCHEDULER") or None,
        in_flight=_count(environ, "TREASURY_IN_FLIGHT", IN_FLIGHT),
        max_clock_skew_seconds=_seconds(environ, "TREASURY_MAX_CLOCK_SKEW_SECONDS", MAX_CLOCK_SKEW_SECONDS),
        limits=_limits(environ),
        http_engine=cast(EngineName | None, _one_of(environ, "TREASURY_HTTP_ENGINE", EngineName)),
        service=_service(environ, saved.service),
        service_in_environment=frozenset(_given(environ)),
        notify_url=environ.get("TREASURY_NOTIFY_URL") or None,
        out_folders=tuple(map(whole_path, filter(None, environ.get("TREASURY_OUT_FOLDERS", "").split(os.pathsep)))),
        ping_url=_ping_url(environ),
        notices=_notices(environ),
        alarm_block=environ.get("TREASURY_ALARM_BLOCK") or None,
        alarm_hours=AlarmHours(
            report=_hours(environ, "TREASURY_ALARM_REPORT_HOURS", AlarmHours.report),
            waiting=_hours(environ, "TREASURY_ALARM_WAITING_HOURS", AlarmHours.waiting),
            unknown=_hours(environ, "TREASURY_ALARM_UNKNOWN_HOURS", AlarmHours.unknown),
            late=_hours(environ, "TREASURY_ALARM_LATE_HOURS", AlarmHours.late),
            silent=_hours(environ, "TREASURY_ALARM_SILENT_HOURS", AlarmHours.silent),
        ),
    )


def _ping_url(environ: Mapping[str, str]) -> str | None:
    url = environ.get("TREASURY_PING_URL") or None
    if url is not None and not re.fullmatch(r"https?://[^\s/?#]+(/[^\s#]*)?", url):
        raise ConfigurationError("TREASURY_PING_URL must be an address that begins with https:// or http://")
    return url


def _notices(environ: Mapping[str, str]) -> tuple[str, ...]:
    places = tuple(environ.get("TREASURY_NOTICES", "").split())
    if any("://" not in each and not re.fullmatch(r"[\w-]+/[\w-]+", each) for each in places):
        raise ConfigurationError(
            "TREASURY_NOTICES must be addresses (mailtos://...) or notification blocks (TYPE/NAME), with spaces between"
        )
    return places


def _hours(environ: Mapping[str, str], variable: str, default: float) -> float:
    hours = _seconds(environ, variable, default, "hours")
    if hours < LEAST_ALARM_HOURS:
        raise ConfigurationError(f"{variable} must be at least {LEAST_ALARM_HOURS:.4f} hours, ten seconds")
    return hours


def _count(environ: Mapping[str, str], variable: str, default: int) -> int:
    return _whole(environ, variable, default, 1, MAX_COUNT)


def _whole(environ: Mapping[str, str], variable: str, default: int, least: int, most: int) -> int:
    text = environ.get(variable) or str(default)
    if not text.isascii() or not text.isdigit() or not least <= int(text[:20]) <= most:
        raise ConfigurationError(f"{variable} must be a number from {least} to {most} (got {text!r})")
    return int(text)


def _one_of(environ: Mapping[str, str], variable: str, names: Any) -> str | None:
    """The name that is set, one of a `Literal`; None where none is."""
    name, known = environ.get(variable) or None, get_args(names)
    if name is not None and name not in known:
        raise ConfigurationError(f"{variable} must be {', '.join(known[:-1])} or {known[-1]} (got {name!r})")
    return name


def _limits(environ: Mapping[str, str]) -> EngineLimits:
    max_bytes = _whole(environ, "TREASURY_MAX_REPLY_BYTES", MAX_BYTES, *REPLY_BYTES)
    least, most = EXCHANGES
    seconds = _seconds(environ, "TREASURY_EXCHANGE_SECONDS", EXCHANGE_SECONDS)
    if not least <= seconds <= most:
        raise ConfigurationError(f"TREASURY_EXCHANGE_SECONDS must be from {least:g} to {most:g} (got {seconds:g})")
    return EngineLimits(max_bytes, seconds)


def _seconds(environ: Mapping[str, str], variable: str, default: float, unit: str = "seconds") -> float:
    text = environ.get(variable)
    if not text:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise ConfigurationError(f"{variable} must be a number of {unit} (got {text!r})")
    return seconds


def service_variable(name: str) -> str:
    """The environment variable of an entry of the service table."""
    return f"TREASURY_{name.upper()}"


def _given(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name in ServiceRules.model_fields if (text := environ.get(service_variable(name)))}


def _service(environ: Mapping[str, str], saved: ServiceRules) -> ServiceRules:
    """The service table: the account file's, with what the environment says instead."""
    given = _given(environ)
    if not given:
        return saved
    try:
        return ServiceRules.model_validate({**saved.model_dump(exclude_unset=True), **given})
    except ValidationError as error:
        said = explain(error, ServiceRules)
        place = next((str(part) for part in error.errors()[0]["loc"]), None)  # none: the rule is about several entries
        where = ", ".join(map(service_variable, given)) if place is None else service_variable(place)
        raise ConfigurationError(f"{where}: {said.removeprefix(f'{place}: ')}") from None
