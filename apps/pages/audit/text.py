"""Sentences of the audit log for each verb, and labels of its topics, interfaces, outcomes and details."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.accounts.models import AuditEvent
from apps.core.plugins import keyed, with_additions
from apps.policies.audit_reading import AuditCount
from apps.policies.models import Grant
from apps.priorities.sentences import numbers

# %(what)s is the subject, with a link if it has a page.
# Verbs of several topics: the topic follows in brackets.
CREATED = gettext_lazy("created %(what)s")
CHANGED = gettext_lazy("changed %(what)s")
REMOVED = gettext_lazy("removed %(what)s")
_ARCHIVED = gettext_lazy("archived %(what)s")
_RESTORED = gettext_lazy("restored %(what)s")
PAUSED = gettext_lazy("paused %(what)s")
RESUMED = gettext_lazy("resumed %(what)s")
WITHDREW = gettext_lazy("withdrew %(what)s")
_FETCH = gettext_lazy("requested a fetch of %(what)s")
_BEGAN = gettext_lazy("started publishing %(what)s")
_STOPPED = gettext_lazy("stopped publishing %(what)s")
_OF_A_TOPIC = (
    CREATED,
    CHANGED,
    REMOVED,
    _ARCHIVED,
    _RESTORED,
    PAUSED,
    RESUMED,
    WITHDREW,
    _FETCH,
    _BEGAN,
    _STOPPED,
)
SENTENCES = {
    "policy.published": gettext_lazy("published %(what)s"),
    "policy.automatic": gettext_lazy("changed %(what)s by a membership rule"),
    "policy.file_kept": gettext_lazy("kept the imported file of %(what)s"),
    "changeset.drafted": CREATED,
    "changeset.edited": CHANGED,
    "changeset.proposed": gettext_lazy("requested review of %(what)s"),
    "changeset.approved": gettext_lazy("approved %(what)s"),
    "changeset.sent_back": gettext_lazy("requested changes of %(what)s"),
    "changeset.scheduled": gettext_lazy("scheduled %(what)s"),
    "changeset.held": gettext_lazy("could not publish %(what)s when it was due"),
    "changeset.rebased": gettext_lazy("rebased %(what)s"),
    "changeset.withdrawn": WITHDREW,
    "changeset.declined": gettext_lazy("declined %(what)s"),
    "changeset.counter_offered": gettext_lazy("offered another share for %(what)s"),
    "changeset.commented": gettext_lazy("commented on %(what)s"),
    "grant.given": gettext_lazy("assigned %(what)s the role %(role)s"),
    "grant.changed": gettext_lazy("changed the role of %(what)s to %(role)s"),
    "grant.extended": gettext_lazy("extended the role %(role)s of %(what)s"),
    "grant.ended": gettext_lazy("ended the role %(role)s of %(what)s"),
    "grant.adopted": gettext_lazy("took over the role %(role)s of %(what)s"),
    "mapping.changed": CHANGED,
    "mapping.assigned": gettext_lazy("attached accounts in %(what)s"),
    "mapping.detached": gettext_lazy("detached accounts in %(what)s"),
    "mapping.restored": _RESTORED,
    "account.attached": gettext_lazy("attached the account %(what)s"),
    "account.detached": gettext_lazy("detached the account %(what)s"),
    "account.claimed": gettext_lazy("claimed the account %(what)s"),
    "account.claim_withdrawn": gettext_lazy("withdrew the claim of %(what)s"),
    "account.claim_refused": gettext_lazy("refused the claim of %(what)s"),
    "account.owned": gettext_lazy("named the owner of an account: %(what)s"),
    "accounts.pseudonymised": gettext_lazy("replaced account names in %(what)s by pseudonyms"),
    "admin.added": CREATED,
    "admin.changed": CHANGED,
    "admin.deleted": REMOVED,
    "token.made": gettext_lazy("created the token %(what)s"),
    "token.rotated": gettext_lazy("rotated the token %(what)s"),
    "token.revoked": gettext_lazy("revoked the token %(what)s"),
    "user.made": CREATED,
    "user.linked": gettext_lazy("first signed in as %(what)s"),
    "user.groups": gettext_lazy("updated sign-in groups: %(what)s"),
    "user.password_changed": gettext_lazy("changed the password of %(what)s"),
    "user.password_reset": gettext_lazy("set a new password of %(what)s by mail"),
    "user.password_set": gettext_lazy("changed the password of %(what)s"),
    "user.unlocked": gettext_lazy("unlocked sign-in of %(what)s"),
    "user.sessions_ended": gettext_lazy("ended sessions of %(what)s"),
    "user.second_factor_added": gettext_lazy("turned two-factor authentication on for %(what)s"),
    "user.second_factor_removed": gettext_lazy("turned two-factor authentication off for %(what)s"),
    "user.second_factor_closed": gettext_lazy("entered too many wrong codes for %(what)s"),
    "user.recovery_codes_renewed": gettext_lazy("created new recovery codes for %(what)s"),
    "user.recovery_code_used": gettext_lazy("used a recovery code of %(what)s"),
    "source.made": CREATED,
    "source.changed": CHANGED,
    "source.forgotten": gettext_lazy("deleted another site’s usage of %(what)s"),
    "source.removed": REMOVED,
    "policy.removed": REMOVED,
    "policy.archived": _ARCHIVED,
    "policy.restored": _RESTORED,
    "source.archived": _ARCHIVED,
    "source.restored": _RESTORED,
    "source.paused": PAUSED,
    "source.resumed": RESUMED,
    "source.collect_asked": _FETCH,
    "usage.pushed": gettext_lazy("sent usage of %(what)s"),
    "usage.import_asked": gettext_lazy("uploaded usage of %(what)s"),
    "usage.imported": gettext_lazy("imported usage of %(what)s"),
    "usage.undo_asked": gettext_lazy("requested to undo an import of %(what)s"),
    "series.rebuild_requested": gettext_lazy("had the series built again, %(what)s"),
    "usage.import_undone": gettext_lazy("undid an import of %(what)s"),
    "usage.sources_merged": gettext_lazy("merged %(what)s into another source"),
    "usage.overlap_decided": gettext_lazy("resolved overlapping hours of %(what)s and another source"),
    "usage.repaired": gettext_lazy("rebuilt totals of %(what)s from its records"),
    "usage.open_jobs_closed": gettext_lazy("closed open jobs of the silent source %(what)s"),
    "usage.records_removed": gettext_lazy("deleted expired records: %(what)s"),
    "usage.sealed": gettext_lazy("sealed old usage of %(what)s"),
    "changeset.people_notified": gettext_lazy("notified people of their ranks: %(what)s"),
    "fallback.begun": gettext_lazy("switched to local-only usage, as peers are unreachable: %(what)s"),
    "fallback.ended": gettext_lazy("switched back to global usage: %(what)s"),
    "recompute.requested": gettext_lazy("requested a recompute of %(what)s"),
    "federation.published": _BEGAN,
    "federation.publication_changed": CHANGED,
    "federation.unpublished": _STOPPED,
    "federation.feed_made": _BEGAN,
    "federation.feed_changed": CHANGED,
    "federation.feed_dropped": _STOPPED,
    "federation.mounted": gettext_lazy("mounted %(what)s"),
    "federation.unmounted": gettext_lazy("unmounted %(what)s"),
    "federation.blocked": gettext_lazy("blocked %(what)s"),
    "federation.frozen": gettext_lazy("froze %(what)s"),
    "federation.unfrozen": gettext_lazy("unfroze %(what)s"),
    "federation.paused": PAUSED,
    "federation.resumed": RESUMED,
    "federation.fetch_asked": _FETCH,
    "federation.settings_changed": CHANGED,
    "federation.key_followed": gettext_lazy("accepted the new key of %(what)s"),
    "federation.key_trusted": gettext_lazy("trusted another key of %(what)s"),
    "federation.begun_anew": gettext_lazy("reset the document history of %(what)s"),
    "federation.subscribed": gettext_lazy("subscribed to usage of %(what)s"),
    "federation.unsubscribed": gettext_lazy("unsubscribed from usage of %(what)s"),
    "federation.usage_held": gettext_lazy("held usage above the site’s capacity: %(what)s"),
    "federation.out_of_scope_dropped": gettext_lazy("dropped usage of %(what)s for entries outside its scope"),
    "federation.capacity_agreed": gettext_lazy("approved the capacity of %(what)s"),
    "federation.key_rotated": gettext_lazy("replaced the signing key %(what)s"),
    "federation.numbers_skipped": gettext_lazy("skipped numbers of publications and feeds after a restore"),
}
_NAMED_IN_SUBJECT = ("changeset", "mapping")
# Recorded as failed, so that they are found, although the action itself succeeded.
_SUCCEEDED = ("federation.usage_held", "federation.out_of_scope_dropped", "federation.blocked")
# First parts of verbs, as options of the filter.
TOPICS = {
    "policy": gettext_lazy("Policies"),
    "changeset": gettext_lazy("Change sets"),
    "grant": gettext_lazy("Roles"),
    "account": gettext_lazy("Accounts"),
    "accounts": gettext_lazy("Pseudonyms"),
    "mapping": gettext_lazy("Mapping"),
    "usage": gettext_lazy("Usage"),
    "series": gettext_lazy("Daily series"),
    "source": gettext_lazy("Usage sources"),
    "token": gettext_lazy("Tokens"),
    "user": gettext_lazy("People"),
    "recompute": gettext_lazy("Recompute"),
    "federation": gettext_lazy("Federation"),
    "fallback": gettext_lazy("Local-only fallback"),
    "admin": gettext_lazy("Administration"),
    "request": gettext_lazy("Refused requests"),
}
VIAS = {
    "page": gettext_lazy("Web"),
    "api": gettext_lazy("API"),
    "command": gettext_lazy("Command"),
    "worker": gettext_lazy("Worker"),
    "admin": gettext_lazy("Administration"),
}
OUTCOMES = {
    "done": gettext_lazy("done"),
    "refused": gettext_lazy("refused"),
    "failed": gettext_lazy("failed"),
}
# Details left to REST and CSV; operations are shown as changes.
_NOT_SHOWN = ("operations", "n_closed", "n_opened", "tree_digest")
# Details that are shown together with their entry.
AT_AN_ENTRY = ("grant.", "account.attached", "account.detached")
_DETAILS = {
    "base": gettext_lazy("Drafted on revision"),
    "before": gettext_lazy("Before"),
    "change_set": gettext_lazy("Change set"),
    "expires_at": gettext_lazy("Expires"),
    "grant": gettext_lazy("Grant"),
    "n_operations": gettext_lazy("Changes"),
    "revision": gettext_lazy("Revision"),
    "role": gettext_lazy("Role"),
    "verbs": gettext_lazy("Rights"),
}
_ROLES = dict(Grant.Role.choices)
_VERBS = dict(Grant.Verb.choices)
_UNKNOWN = re.compile(r"[._]")


@cache
def sentences() -> dict[str, Any]:
    """Sentences by verb, also of plug-ins."""
    return {**keyed("audit_sentences"), **SENTENCES}


@cache
def topics() -> dict[str, Any]:
    """Labels by first part of a verb, also of plug-ins, in the order of the filter."""
    return with_additions(TOPICS, "audit_topics")


def sentence_of(event: AuditEvent, *, what: str) -> str:
    """Sentence after the actor's name, with `what` as its subject."""
    known = sentences().get(event.verb)
    topic = event.verb.partition(".")[0]
    sentence = str(known) if known else _UNKNOWN.sub(" ", event.verb).replace("%", "%%") + ": %(what)s"
    if event.verb == "request.refused":
        sentence = "%(what)s"
    elif known in _OF_A_TOPIC and topic not in _NAMED_IN_SUBJECT:
        sentence += f" ({topics()[topic]})"
    role = event.details.get("role") if isinstance(event.details, dict) else None
    action = sentence % {"what": what, "role": str(_ROLES.get(str(role), role or "–"))}
    if event.outcome == AuditEvent.Outcome.REFUSED:
        return _("was refused: %(action)s") % {"action": action}
    if event.outcome == AuditEvent.Outcome.FAILED and event.verb not in _SUCCEEDED:
        return _("failed: %(action)s") % {"action": action}
    return action


def revision_of(event: AuditEvent) -> int:
    """Number of the revision that the row published; 0 for other rows."""
    revision = event.details.get("revision") if isinstance(event.details, dict) else None
    return revision if isinstance(revision, int) and event.verb == "policy.published" else 0


def facts(event: AuditEvent, *, shows_all: bool, is_own: bool) -> list[tuple[str, str]]:
    """Further details of a row: addresses for administrators; requests and tokens also for the actor."""
    pairs = [(_("Action"), event.verb), (_("Outcome"), str(OUTCOMES[event.outcome])), (_("Policy"), event.policy_slug)]
    if shows_all or is_own:
        pairs += [(_("Request"), event.request_id), (_("Token"), event.token_prefix)]
    if shows_all:
        pairs.append((_("Address"), event.address or ""))
        pairs.append((_("Hash"), bytes(event.hash).hex()[:16]))
    return [(name, value) for name, value in pairs if value]


def details(event: AuditEvent) -> list[tuple[str, str]]:
    """Recorded details for a page."""
    recorded: dict[str, Any] = event.details if isinstance(event.details, dict) else {}
    return [(_label(key), value_text(value)[:300]) for key, value in recorded.items() if key not in _NOT_SHOWN]


def value_text(value: Any) -> str:
    """A JSON value as text."""
    if value is None or value == "" or value == []:
        return "–"
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, dict):
        return ", ".join(f"{_label(key)} {value_text(each)}" for key, each in value.items() if each not in (None, ""))
    if isinstance(value, list):
        return ", ".join(value_text(each) for each in value)
    text = str(value)
    return str(_ROLES.get(text) or _VERBS.get(text) or text)


def _label(key: str) -> str:
    return str(_DETAILS.get(key) or key.replace("_", " "))


def count_text(count: AuditCount) -> str:
    """Summary such as 41 events in the last 7 days, 1 refused."""
    shown = numbers.count(count.n) if count.is_all else _("Over %(n)s") % {"n": numbers.count(count.n)}
    text = ngettext(
        "%(n)s event in the last 7 days, %(refused)s refused",
        "%(n)s events in the last 7 days, %(refused)s refused",
        count.n,
    )
    return text % {"n": shown, "refused": numbers.count(count.n_refused)}
