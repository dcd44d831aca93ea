"""Prefect blocks that an operator fills in: the account, the ledger, the policy."""

from blocks.account import PartnerAccount
from blocks.desk import open_desk
from blocks.ledger import TreasuryLedger
from blocks.policy import TreasuryPolicy

BLOCKS = (PartnerAccount, TreasuryLedger, TreasuryPolicy)
"""The block types of this package, which `treasury serve` registers."""

__all__ = ["BLOCKS", "PartnerAccount", "TreasuryLedger", "TreasuryPolicy", "open_desk"]
