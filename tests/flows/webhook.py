"""A notification block of Prefect's own kinds, saved on a server by a process of an office."""

from tests.commands.office import Office

CODE = """
import sys
from prefect.blocks.notifications import CustomWebhookNotificationBlock
fields = {"subject": "{{subject}}", "body": "{{body}}"}
CustomWebhookNotificationBlock(name="alarms", url=sys.argv[1], json_data=fields).save("alarms", overwrite=True)
"""


def save_webhook(office: Office, api: str, auth: tuple[str, str], url: str) -> None:
    """Save `custom-webhook/alarms`, which posts subject and body to a URL."""
    script = office.file("webhook.py", CODE)
    told = {"PREFECT_API_URL": api, "PREFECT_API_AUTH_STRING": ":".join(auth)}
    assert office.process(script, url, runs="", **told).code == 0
