"""State of outgoing mail for monitoring: Prometheus metrics, and what readiness says."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from apps.contrib.notices.mail import count_mails, failing_mail
from apps.pages.monitoring.gauges import gauge


def mail_families() -> Iterator[Metric]:
    mails = gauge("fairshare_mails", "Mails about notices", "state")
    for state, n in count_mails().items():
        mails.add_metric([state], n)
    failing = gauge("fairshare_mail_failing", "1: the last attempt to send a mail failed")
    failing.add_metric([], float(failing_mail() is not None))
    yield from (mails, failing)


def mail_degradations() -> Iterator[dict[str, str]]:
    failing = failing_mail()
    if failing is not None:
        message = f"{failing.n} unsent since {failing.since_at:%FT%TZ}"
        yield {"code": "mail_failing", "subject": "mail", "message": message}
