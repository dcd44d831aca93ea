"""What an operator fills in, and sees in Prefect's UI: the account and the ledger."""

from blocks.account import PartnerAccount
from blocks.desk import open_desk
from blocks.ledger import TreasuryLedger

__all__ = ["PartnerAccount", "TreasuryLedger", "open_desk"]
