"""PromptPay codes, good and mangled, as we read them and as npm's `promptparse` does: never two readings of one code.

Ours may refuse what the judge takes, for a reason that is listed here; what ours takes, the judge takes, and both name
the same payee, references and amount. Wants `node`, `npm` and the packages of npm.
"""

import json
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.proofs import tries
from treasury.errors import InputError
from treasury.promptpay import BILL, TRANSFER, PromptPayCode, build_promptpay, checksum, read_promptpay

CODES = tries("CODES", 2_000, 20_000)
JUDGE = "promptparse@1.6.0"
KINDS = {"MSISDN": "phone", "NATID": "national_id", "EWALLETID": "ewallet"}
"""The judge's word for a kind of account -> ours."""

STRICTER = (
    "not well-formed EMV data",  # the judge reads what lengths that are no numbers, or too long, leave
    "not a Thai PromptPay code",  # neither country nor currency is looked at
    "not a PromptPay code that names an account",  # an account may be of any letters, or reserved (tag 04)
    "the amount of the QR code",  # any beginning of a number is one
    "the checksum of the QR code is wrong",  # its tag is not looked at
    "names something twice",  # the first one counts
    "names more than one account",  # it has a reading for each
)
"""Parts of our reasons for refusing a code that the judge reads, each with what the judge does."""

pytestmark = [
    pytest.mark.proof,
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed (apt-get install nodejs npm)"),
    pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed (apt-get install npm)"),
]

Asked = dict[str, Any]
Ask = Callable[[Sequence[Asked]], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Ask the judge about many codes at once."""
    folder = tmp_path_factory.mktemp("judge")
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--no-update-notifier")
    command = ["npm", "install", *quiet, "--prefix", str(folder), JUDGE]
    fetched = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    if fetched.returncode != 0:
        pytest.skip(f"npm does not get {JUDGE}: {fetched.stderr.strip()[-200:]}")
    script = shutil.copy(Path(__file__).with_name("judge_codes.mjs"), folder)

    def ask(lines: Sequence[Asked]) -> list[dict[str, Any]]:
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        done = subprocess.run(["node", script], input=text, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        said = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(said) == len(lines)
        return said

    return ask


def number(dice: random.Random, digits: int) -> str:
    return "".join(dice.choices("0123456789", k=digits))


def tlv(tag: str, value: str) -> str:
    return f"{tag}{len(value):02d}{value}"


def sealed(body: str) -> str:
    """A code of its body, with the checksum that belongs to it."""
    return f"{body}6304{checksum(body + '6304')}"


def amount(dice: random.Random) -> Decimal | None:
    return dice.choice((None, Decimal(dice.randint(1, 9_999_999)).scaleb(-2), Decimal(dice.randint(1, 5_000))))


def bill(dice: random.Random) -> str:
    """A bill's code, as shops print it: with references, sometimes a city and a terminal."""
    paid = amount(dice)
    inner = tlv("00", BILL) + tlv("01", number(dice, 15)) + tlv("02", f"REF{number(dice, dice.randint(1, 17))}")
    inner += dice.choice(("", tlv("03", number(dice, 4))))
    body = tlv("00", "01") + tlv("01", dice.choice(("11", "12"))) + tlv("30", inner) + tlv("53", "764")
    body += ("" if paid is None else tlv("54", f"{paid:f}")) + tlv("58", "TH")
    body += dice.choice(("", tlv("59", "EXAMPLE SHOP"))) + dice.choice(("", tlv("60", "BANGKOK")))
    return sealed(body + dice.choice(("", tlv("62", tlv("07", number(dice, 8))))))


def transfer(dice: random.Random) -> str:
    account = number(dice, dice.choice((10, 13, 15)))
    return build_promptpay(account, amount(dice), dice.choice((None, "Example Person")))


def mangled(dice: random.Random, code: str) -> str:
    """A code with one to three changes; in most cases with a checksum that fits, as a forger would make it."""
    body = list(code[:-8])
    for _ in range(dice.randint(1, 3)):
        place, width = dice.randrange(len(body)), dice.randint(1, 12)
        match dice.choice(("digit", "letter", "out", "twice", "swap", "tag", "second")):
            case "digit":
                body[place] = dice.choice("0123456789")
            case "letter":
                body[place] = dice.choice("AaTH .+e²")  # no minus: with a length of -4 the judge never ends
            case "out":
                del body[place : place + width]
            case "twice":
                body[place:place] = body[place : place + width]
            case "swap":
                other = dice.randrange(len(body))
                body[place], body[other] = body[other], body[place]
            case "tag":
                tag = dice.choice(("53", "54", "58", "59", "62", "91"))
                body += tlv(tag, dice.choice(("764", "1.5", "TH", "", "x")))
            case "second":
                inner = tlv("00", TRANSFER) + tlv(dice.choice(("01", "02", "03", "04")), number(dice, 13))
                body += tlv("29", inner)
        if not body:
            break
    text = "".join(body)
    return sealed(text) if dice.random() < 0.85 else text + code[-8:]


@dataclass(frozen=True)
class Reading:
    """A code as one of the two reads it: kind, account, references, amount."""

    kind: str
    account: str
    references: str
    amount: Decimal | None


def ours(code: PromptPayCode) -> Reading:
    account = code.account
    if code.account_type == "phone" and len(account) == 13 and account.startswith("0066"):
        account = f"0{account[-9:]}"
    references = code.reference if code.account_type == "biller" else ""
    return Reading(code.account_type, account, references, code.amount)


def theirs(said: dict[str, Any]) -> Iterator[Reading]:
    """Yield what the judge may take a code for: a transfer, a bill, or both."""
    if found := said.get("transfer"):
        yield Reading(KINDS.get(found["type"], found["type"]), found["target"], "", paid(found))
    if found := said.get("bill"):
        references = "|".join(found[name] for name in ("ref1", "ref2") if name in found)
        yield Reading("biller", found["billerId"], references, paid(found))


def paid(found: dict[str, Any]) -> Decimal | None:
    given = found.get("amount")
    return None if given is None else Decimal(str(given))


def is_same(mine: Reading, judged: Reading) -> bool:
    """Tell whether both name one payee and amount; the terminal (tag 62) is left out."""
    same = (mine.kind, mine.account, mine.amount) == (judged.kind, judged.account, judged.amount)
    return same and mine.references.startswith(judged.references)


def test_codes_that_the_judge_writes_are_read_as_they_were_meant(ask: Ask) -> None:
    dice = random.Random(1)
    asked: list[Asked] = []
    for _ in range(CODES // 10):
        given = amount(dice)
        more = {} if given is None else {"amount": float(given)}
        digits = {"MSISDN": 10, "NATID": 13, "EWALLETID": 15}
        kind = dice.choice(list(digits))
        asked.append({"make": "anyId", "args": {"type": kind, "target": "0" + number(dice, digits[kind] - 1), **more}})
        refs = {"ref1": number(dice, 12), **dice.choice(({}, {"ref2": number(dice, 4)}))}
        asked.append({"make": "billPayment", "args": {"billerId": number(dice, 15), **refs, **more}})
    for line, said in zip(asked, ask(asked), strict=True):
        args, read = line["args"], ours(read_promptpay(said["code"]))
        assert read.account == args.get("target", args.get("billerId")), said
        assert read.amount == (None if "amount" not in args else Decimal(str(args["amount"]))), said
        assert read.kind == KINDS.get(args.get("type"), "biller")
        assert read.references == "|".join(args[name] for name in ("ref1", "ref2") if name in args)


def test_what_we_write_and_shops_print_the_judge_reads_alike(ask: Ask) -> None:
    dice = random.Random(2)
    codes = [dice.choice((bill, transfer))(dice) for _ in range(CODES // 2)]
    for code, said in zip(codes, ask([{"code": code} for code in codes]), strict=True):
        mine = ours(read_promptpay(code))
        assert [is_same(mine, judged) for judged in theirs(said)] == [True], (code, mine, said)


def test_of_a_mangled_code_there_are_never_two_readings(ask: Ask) -> None:
    dice = random.Random(3)
    codes = [mangled(dice, dice.choice((bill, transfer))(dice)) for _ in range(CODES)]
    verdicts: Counter[str] = Counter()
    for code, said in zip(codes, ask([{"code": code} for code in codes]), strict=True):
        judged = list(theirs(said))
        try:
            mine = ours(read_promptpay(code))
        except InputError as refused:
            verdicts["only ours refuses" if judged else "both refuse"] += 1
            if judged and not any(reason in str(refused) for reason in STRICTER):
                pytest.fail(f"{code}: refused ({refused}), and the judge reads {judged}")
            continue
        verdicts["both read"] += 1
        needless = mine.kind == "biller" and said["read"] and not said.get("reference")
        assert judged or needless, (code, mine)  # the judge wants a first reference of every bill
        assert all(is_same(mine, each) for each in judged), (code, mine, judged)
    print(dict(verdicts))
    assert min(verdicts[name] for name in ("both read", "both refuse", "only ours refuses")) > CODES // 50, verdicts
