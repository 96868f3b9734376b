"""The section of `manage.py doctor` about mail of notices."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from apps.cli.doctor.check import Check, Finding
from apps.contrib.notices.gauges import mail_degradations
from apps.contrib.notices.mail import count_mails


def check_mail(at: datetime) -> Iterator[str | Finding]:
    yield ", ".join(f"{n} {state}" for state, n in count_mails().items()) or "no mail"
    for each in mail_degradations():
        remedy = "Check the mail server and FAIRSHARE_EMAIL_HOST: docs/settings.md; the log has the last error."
        yield Finding(each["code"], "warn", f"Mail can't be sent: {each['message']}.", remedy)


CHECK = Check(check_mail)
