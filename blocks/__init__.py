"""Prefect blocks that an operator fills in: the account, the ledger, the policy."""

from blocks.account import PartnerAccount
from blocks.desk import open_desk
from blocks.ledger import TreasuryLedger
from blocks.policy import TreasuryPolicy

__all__ = ["PartnerAccount", "TreasuryLedger", "TreasuryPolicy", "open_desk"]
