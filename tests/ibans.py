"""IBANs whose check digits are right, and whose last digits a test chooses."""


def german_iban(number: int) -> str:
    """The IBAN of this account at a bank of a made-up branch; ends with the number's last four digits."""
    basic = f"37040044{number:010}"
    rest = int(f"{basic}131400") % 97  # D is 13, E is 14 (ISO 13616)
    return f"DE{98 - rest:02}{basic}"
