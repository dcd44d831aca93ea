"""The ledger's place, as a Prefect block."""

from pathlib import Path

from prefect.blocks.core import Block
from pydantic import Field, SecretStr


class TreasuryLedger(Block):
    """The place of the ledger. Its key stays a file: a key in Prefect's database would lie beside what it protects.

    Example:
        ```python
        from blocks import TreasuryLedger

        TreasuryLedger(url="sqlite:////srv/treasury/ledger.db", key_file="/srv/treasury/ledger.key").save("main")
        ```
    """

    _block_type_name = "Treasury Ledger"
    _block_type_slug = "treasury-ledger"
    _description = (
        "The database that remembers every order, and the file with the key that its payloads are kept under."
    )

    url: SecretStr = Field(description="Database URL: sqlite:////path/to/ledger.db or postgresql://user@host/name.")
    key_file: Path = Field(description="File with the ledger's key, on the machine that runs the flows.")
