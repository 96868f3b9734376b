"""Checks of what the site serves, gets and keeps: sources of usage, peers, priorities, and the audit log."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import chain

from django.db.models import Max, Q

from apps.accounts.audit_log import check_newest, last_check
from apps.cli.doctor.check import Finding
from apps.core.code_paths import command_name
from apps.core.counts import counted
from apps.core.errors import Unavailable
from apps.federation.conditions import NEEDS_ATTENTION, Condition, condition_of, is_held
from apps.federation.documents.site_keys import list_keys, load_keys
from apps.federation.models import Mount, Subscription
from apps.pages.monitoring.degradations import damaged_snapshots, failed_recomputes, late_sources, stale_policies
from apps.policies.models import Policy
from apps.usage.models import Source
from apps.usage.timeliness import is_collection_failing

_MOST_AUDIT_ROWS = 100_000  # of the audit log: about three seconds; a task verifies all of them each hour
_LONGEST_COLLECT_ERROR = 300  # characters, as in notices
_PEERS = {
    Condition.BLOCKED: "isn't fetched until an administrator decides",
    Condition.EXPIRED: "has expired",
    Condition.STALE: "has been unreachable for longer than its maximum age",
    Condition.HELD: "holds something that waits for a decision",
}


def check_sources(at: datetime) -> Iterator[str | Finding]:
    sources = list(Source.objects.order_by("slug"))
    yield counted(len(sources), "source")
    for each in late_sources(at):
        command = f"`{command_name('collect_usage')} --source {each['subject']}`"
        remedy = f"Check what sends its usage and its token, or collect it: {command}. See docs/sources.md."
        yield Finding(each["code"], "warn", f"The source {each['subject']} is late: {each['message']}.", remedy)
    for source in sources:
        if is_collection_failing(source):
            error = " ".join(source.collect_error.split())[:_LONGEST_COLLECT_ERROR].rstrip(".")
            message = f"The last collection of {source.slug} failed: {error}."
            remedy = f"Mend it and try: `{command_name('collect_usage')} --source {source.slug}`. See docs/sources.md."
            yield Finding("collection_failing", "warn", message, remedy)


def check_peers(at: datetime) -> Iterator[str | Finding]:
    mounts = Mount.objects.select_related("policy", "held").order_by("pk")
    subscriptions = Subscription.objects.select_related("policy").order_by("pk")
    yield f"{counted(mounts.count(), 'mount')}, {counted(subscriptions.count(), 'subscription')} to usage"
    for remote in chain[Mount | Subscription](mounts, subscriptions):
        condition = condition_of(remote, is_held=is_held(remote), at=at)
        if condition in NEEDS_ATTENTION:
            message = f"{remote} {_PEERS[condition]}."
            remedy = f"`{command_name('federation status')}` has its error; decide on its page under Federation."
            yield Finding(f"peer_{condition.value}", "warn", message, remedy)
    if list_keys():
        try:
            load_keys(at=at)
        except Unavailable:
            message = "The site's signing key can't be read with this SECRET_KEY: nothing can be published."
            remedy = "Put the former key into SECRET_KEY_FALLBACKS: see Back up and restore in docs/operate.md."
            yield Finding("signing_key_unreadable", "bad", message, remedy)


def check_snapshots(at: datetime) -> Iterator[str | Finding]:
    newest = Max("snapshots__computed_at", filter=Q(snapshots__is_live=True))
    policies = Policy.objects.filter(head_number__gt=0).annotate(newest=newest).order_by("slug")
    ages = [
        f"{slug} {(at - computed_at).total_seconds():,.0f} s" if computed_at else f"{slug} none"
        for slug, computed_at in policies.values_list("slug", "newest")
    ]
    yield f"ages: {', '.join(ages)}" if ages else "no policies"
    for each in chain(stale_policies(at), failed_recomputes(), damaged_snapshots()):
        remedy = f"Run `{command_name('recompute')} {each['subject']}`, and check the workers. See docs/monitoring.md."
        yield Finding(each["code"], "bad", f"The policy {each['subject']}: {each['message']}.", remedy)


def check_audit(at: datetime) -> Iterator[str | Finding]:
    """The chain of the newest rows now, and what the last check of all rows said."""
    verdict, whole = check_newest(_MOST_AUDIT_ROWS), last_check()
    yield f"{counted(verdict.n_rows, 'row')}; the newest {_MOST_AUDIT_ROWS:,} were verified now"
    if problem := verdict.problem or (whole.problem if whole is not None and whole.broken_id is not None else ""):
        remedy = (
            f"`{command_name('verify_audit')}` checks it from its first row. Somebody with the database's password "
            "changed it: compare it with a backup. See docs/operate.md."
        )
        yield Finding("audit_broken", "bad", f"The audit log is broken: {problem}.", remedy)
