"""Words for rows of the audit log: a sentence for each verb, and names for what was written down beside it."""

from __future__ import annotations

import re
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.accounts.models import AuditEvent
from apps.policies.history.audit_reading import AuditCount
from apps.policies.models import Grant

# %(what)s is what it was done to, with a link where there is something to open.
SENTENCES = {
    "policy.published": gettext_lazy("published %(what)s"),
    "policy.automatic": gettext_lazy("changed %(what)s by rule"),
    "changeset.drafted": gettext_lazy("drafted %(what)s"),
    "changeset.edited": gettext_lazy("edited %(what)s"),
    "changeset.proposed": gettext_lazy("asked for review of %(what)s"),
    "changeset.approved": gettext_lazy("approved %(what)s"),
    "changeset.sent_back": gettext_lazy("asked for changes of %(what)s"),
    "changeset.scheduled": gettext_lazy("scheduled %(what)s"),
    "changeset.held": gettext_lazy("could not put %(what)s in force when it was due"),
    "changeset.rebased": gettext_lazy("set %(what)s upon the newest revision"),
    "changeset.withdrawn": gettext_lazy("withdrew %(what)s"),
    "changeset.declined": gettext_lazy("declined %(what)s"),
    "changeset.counter_offered": gettext_lazy("offered another share in answer to %(what)s"),
    "changeset.commented": gettext_lazy("commented on %(what)s"),
    "grant.given": gettext_lazy("gave %(what)s the role %(role)s"),
    "grant.changed": gettext_lazy("changed the role of %(what)s to %(role)s"),
    "grant.extended": gettext_lazy("extended the role %(role)s of %(what)s"),
    "grant.ended": gettext_lazy("ended the role %(role)s of %(what)s"),
    "grant.adopted": gettext_lazy("took over the role %(role)s of %(what)s"),
    "allocation.given": gettext_lazy("promised core-hours: %(what)s"),
    "allocation.changed": gettext_lazy("changed a promise of core-hours: %(what)s"),
    "allocation.withdrawn": gettext_lazy("withdrew a promise of core-hours: %(what)s"),
    "capacity.stated": gettext_lazy("stated a capacity: %(what)s"),
    "capacity.changed": gettext_lazy("changed a capacity: %(what)s"),
    "capacity.removed": gettext_lazy("removed a capacity: %(what)s"),
    "mapping.changed": gettext_lazy("changed which account counts where, in %(what)s"),
    "mapping.assigned": gettext_lazy("attached accounts in %(what)s"),
    "mapping.let_go": gettext_lazy("let attached accounts go in %(what)s"),
    "mapping.restored": gettext_lazy("brought an earlier mapping back as %(what)s"),
    "account.attached": gettext_lazy("attached an account: %(what)s"),
    "account.detached": gettext_lazy("detached an account: %(what)s"),
    "account.claimed": gettext_lazy("claimed the account %(what)s"),
    "account.claim_taken_back": gettext_lazy("took the claim of %(what)s back"),
    "account.claim_refused": gettext_lazy("refused the claim of %(what)s"),
    "account.owned": gettext_lazy("said whose an account is: %(what)s"),
    "accounts.pseudonymised": gettext_lazy("replaced names of accounts in %(what)s by pseudonyms"),
    "admin.added": gettext_lazy("added %(what)s in the administration"),
    "admin.changed": gettext_lazy("changed %(what)s in the administration"),
    "admin.deleted": gettext_lazy("deleted %(what)s in the administration"),
    "setup.tree_read": gettext_lazy("read a scheduler’s tree, for a first policy: %(what)s"),
    "setup.accounts_decided": gettext_lazy("placed accounts for a first policy: %(what)s"),
    "setup.given_up": gettext_lazy("gave a first policy up: %(what)s"),
    "token.made": gettext_lazy("made the token %(what)s"),
    "token.rotated": gettext_lazy("rotated the token %(what)s"),
    "token.revoked": gettext_lazy("revoked the token %(what)s"),
    "user.made": gettext_lazy("added the person %(what)s"),
    "user.linked": gettext_lazy("signed in anew as %(what)s"),
    "user.groups": gettext_lazy("brought other groups along: %(what)s"),
    "user.second_factor_added": gettext_lazy("set up a second step of sign-in for %(what)s"),
    "user.second_factor_removed": gettext_lazy("took away the second step of sign-in of %(what)s"),
    "user.second_factor_closed": gettext_lazy("was asked for a code of %(what)s too often"),
    "user.recovery_codes_renewed": gettext_lazy("made new recovery codes for %(what)s"),
    "user.recovery_code_used": gettext_lazy("used a recovery code of %(what)s"),
    "source.made": gettext_lazy("made the usage source %(what)s"),
    "source.changed": gettext_lazy("changed the usage source %(what)s"),
    "source.forgotten": gettext_lazy("forgot the usage of another site, of %(what)s"),
    "source.paused": gettext_lazy("paused the collection of %(what)s"),
    "source.resumed": gettext_lazy("resumed the collection of %(what)s"),
    "source.collect_asked": gettext_lazy("asked to collect %(what)s now"),
    "usage.pushed": gettext_lazy("sent usage of %(what)s"),
    "usage.import_asked": gettext_lazy("handed in usage of %(what)s"),
    "usage.imported": gettext_lazy("imported usage of %(what)s"),
    "usage.undo_asked": gettext_lazy("asked to undo an import of %(what)s"),
    "usage.import_undone": gettext_lazy("undid an import of %(what)s"),
    "usage.overlap_decided": gettext_lazy("decided about hours that %(what)s shares with another source"),
    "usage.repaired": gettext_lazy("rebuilt sums of %(what)s from its records"),
    "usage.records_let_go": gettext_lazy("let old records go: %(what)s"),
    "usage.sealed": gettext_lazy("sealed old usage of %(what)s"),
    "notice_rule.set": gettext_lazy("set what is watched: %(what)s"),
    "notice_rule.removed": gettext_lazy("removed a rule of notices: %(what)s"),
    "webhook.made": gettext_lazy("made the webhook %(what)s"),
    "webhook.changed": gettext_lazy("changed the webhook %(what)s"),
    "webhook.removed": gettext_lazy("removed the webhook %(what)s"),
    "webhook.secret_renewed": gettext_lazy("gave the webhook %(what)s a new secret"),
    "webhook.turned_on": gettext_lazy("turned the webhook %(what)s on"),
    "webhook.turned_off": gettext_lazy("turned the webhook %(what)s off"),
    "webhook.tested": gettext_lazy("sent a test to the webhook %(what)s"),
    "webhook.gave_up": gettext_lazy("turned the webhook %(what)s off, because nobody took what it brought"),
    "statement.closed": gettext_lazy("closed the statements of %(what)s"),
    "fallback.begun": gettext_lazy("compares by this site’s usage alone, as others aren’t heard: %(what)s"),
    "fallback.ended": gettext_lazy("compares by everybody’s usage again: %(what)s"),
    "recompute.requested": gettext_lazy("asked for a recompute of %(what)s"),
    "federation.published": gettext_lazy("began to tell others of a subtree: %(what)s"),
    "federation.publication_changed": gettext_lazy("changed how others are told of %(what)s"),
    "federation.unpublished": gettext_lazy("stopped telling others of %(what)s"),
    "federation.feed_made": gettext_lazy("began to tell others of usage: %(what)s"),
    "federation.feed_changed": gettext_lazy("changed how others are told of the usage %(what)s"),
    "federation.feed_dropped": gettext_lazy("stopped telling others of the usage %(what)s"),
    "federation.mounted": gettext_lazy("mounted what %(what)s publishes"),
    "federation.unmounted": gettext_lazy("unmounted what %(what)s publishes"),
    "federation.blocked": gettext_lazy("stopped following %(what)s until somebody looks"),
    "federation.frozen": gettext_lazy("froze %(what)s: it is looked at, and not put in force"),
    "federation.thawed": gettext_lazy("thawed %(what)s, which is put in force again"),
    "federation.paused": gettext_lazy("paused %(what)s, which isn’t fetched any more"),
    "federation.resumed": gettext_lazy("resumed %(what)s, which is fetched again"),
    "federation.fetch_asked": gettext_lazy("asked for a look at %(what)s now"),
    "federation.settings_changed": gettext_lazy("changed the limits or the rhythm of %(what)s"),
    "federation.key_followed": gettext_lazy("followed %(what)s to its new key"),
    "federation.key_trusted": gettext_lazy("trusted another key of %(what)s"),
    "federation.begun_anew": gettext_lazy("took what %(what)s tells now as a new beginning"),
    "federation.subscribed": gettext_lazy("began to take usage from %(what)s"),
    "federation.unsubscribed": gettext_lazy("stopped taking usage from %(what)s, which counts no more"),
    "federation.usage_held": gettext_lazy("held usage of %(what)s: it is more than that site has"),
    "federation.strangers_dropped": gettext_lazy("dropped what %(what)s told of entries that it isn’t asked about"),
    "federation.capacity_agreed": gettext_lazy("agreed to the capacity of %(what)s"),
    "federation.key_rotated": gettext_lazy("replaced the %(what)s, which signs what others are told"),
}
# The same for attempts that were refused.
WANTED = {
    "policy.published": gettext_lazy("wanted to publish %(what)s"),
    "grant.given": gettext_lazy("wanted to give %(what)s a role"),
    "grant.changed": gettext_lazy("wanted to change the role of %(what)s"),
    "grant.extended": gettext_lazy("wanted to extend the role of %(what)s"),
    "grant.ended": gettext_lazy("wanted to end the role of %(what)s"),
    "grant.adopted": gettext_lazy("wanted to take over the role of %(what)s"),
    "allocation.given": gettext_lazy("wanted to promise core-hours: %(what)s"),
    "allocation.changed": gettext_lazy("wanted to change a promise of core-hours: %(what)s"),
    "allocation.withdrawn": gettext_lazy("wanted to withdraw a promise of core-hours: %(what)s"),
    "capacity.stated": gettext_lazy("wanted to state a capacity: %(what)s"),
    "capacity.changed": gettext_lazy("wanted to change a capacity: %(what)s"),
    "capacity.removed": gettext_lazy("wanted to remove a capacity: %(what)s"),
    "mapping.changed": gettext_lazy("wanted to change which account counts where, in %(what)s"),
    "mapping.assigned": gettext_lazy("wanted to attach accounts in %(what)s"),
    "mapping.let_go": gettext_lazy("wanted to detach accounts in %(what)s"),
    "mapping.restored": gettext_lazy("wanted to restore an earlier mapping as %(what)s"),
    "user.second_factor_closed": gettext_lazy("handed in too many wrong codes for %(what)s"),
}
# The first words of verbs, as the filter offers them.
TOPICS = {
    "policy": gettext_lazy("published"),
    "changeset": gettext_lazy("change sets"),
    "grant": gettext_lazy("roles"),
    "account": gettext_lazy("accounts"),
    "accounts": gettext_lazy("pseudonyms"),
    "mapping": gettext_lazy("mapping rules"),
    "allocation": gettext_lazy("allocations"),
    "capacity": gettext_lazy("capacities"),
    "usage": gettext_lazy("usage"),
    "source": gettext_lazy("usage sources"),
    "setup": gettext_lazy("first steps"),
    "token": gettext_lazy("tokens"),
    "user": gettext_lazy("people"),
    "notice_rule": gettext_lazy("rules of notices"),
    "webhook": gettext_lazy("webhooks"),
    "statement": gettext_lazy("statements"),
    "recompute": gettext_lazy("recomputes"),
    "federation": gettext_lazy("federation"),
    "fallback": gettext_lazy("local-only fallback"),
    "admin": gettext_lazy("administration"),
}
VIAS = {
    "page": gettext_lazy("page"), "api": gettext_lazy("API"), "command": gettext_lazy("command"),
    "worker": gettext_lazy("worker"), "admin": gettext_lazy("administration"),
}  # fmt: skip
OUTCOMES = {
    "done": gettext_lazy("done"), "refused": gettext_lazy("refused"), "failed": gettext_lazy("failed"),
}  # fmt: skip
# What is told with the entry that it was done at.
AT_AN_ENTRY = ("grant.", "allocation.", "account.attached", "account.detached")
_DETAILS = {
    "base": gettext_lazy("Drafted on revision"),
    "before": gettext_lazy("Before"),
    "change_set": gettext_lazy("Change set"),
    "expires_at": gettext_lazy("Ends"),
    "grant": gettext_lazy("Grant"),
    "n_closed": gettext_lazy("Rows closed"),
    "n_opened": gettext_lazy("Rows written"),
    "n_operations": gettext_lazy("Changes"),
    "revision": gettext_lazy("Revision"),
    "role": gettext_lazy("Role"),
    "tree_digest": gettext_lazy("Tree digest"),
    "verbs": gettext_lazy("Rights"),
}
_ROLES = dict(Grant.Role.choices)
_VERBS = dict(Grant.Verb.choices)
_UNKNOWN = re.compile(r"[._]")


def told(event: AuditEvent, *, what: str) -> str:
    """The sentence after the name, with `what` where its subject stands."""
    is_refused = event.outcome == AuditEvent.Outcome.REFUSED
    known = (WANTED if is_refused else SENTENCES).get(event.verb)
    sentence = str(known) if known else _UNKNOWN.sub(" ", event.verb).replace("%", "%%") + ": %(what)s"
    if is_refused and not known:
        sentence = _("was refused: ") + sentence
    if event.outcome == AuditEvent.Outcome.FAILED:
        sentence = _("failed: ") + sentence
    return sentence % {"what": what, "role": _role(event)}


def revision_of(event: AuditEvent) -> int:
    """The revision that it put in force; 0 where it is about something else."""
    given = event.details.get("revision") if isinstance(event.details, dict) else None
    return given if isinstance(given, int) and event.verb == "policy.published" else 0


def facts(event: AuditEvent, *, shows_all: bool, is_own: bool) -> list[tuple[str, str]]:
    """What else is known of a row: addresses for administrators, requests and tokens also for whoever made them."""
    found = [(_("Verb"), event.verb), (_("Outcome"), str(OUTCOMES[event.outcome])), (_("Policy"), event.policy_slug)]
    if shows_all or is_own:
        found += [(_("Request"), event.request_id), (_("Token"), event.token_prefix)]
    if shows_all:
        found.append((_("Address"), event.address or ""))
        found.append((_("Hash"), bytes(event.hash).hex()[:16]))
    return [(name, value) for name, value in found if value]


def details(event: AuditEvent) -> list[tuple[str, str]]:
    """What was written down beside it, but for the operations, which are told as what they changed."""
    given: dict[str, Any] = event.details if isinstance(event.details, dict) else {}
    given = {**given, **({"tree_digest": str(given["tree_digest"])[:16]} if "tree_digest" in given else {})}
    return [(_label(key), plain(value)[:300]) for key, value in given.items() if key != "operations"]


def plain(value: Any) -> str:
    """What JSON says, as people read it."""
    if value is None or value == "" or value == []:
        return "–"
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, dict):
        return ", ".join(f"{_label(key)} {plain(each)}" for key, each in value.items() if each not in (None, ""))
    if isinstance(value, list):
        return ", ".join(plain(each) for each in value)
    text = str(value)
    return str(_ROLES.get(text) or _VERBS.get(text) or text)


def _label(key: str) -> str:
    return str(_DETAILS.get(key) or key.replace("_", " "))


def _role(event: AuditEvent) -> str:
    given = event.details.get("role") if isinstance(event.details, dict) else None
    return str(_ROLES.get(str(given), given or "–"))


def count_words(found: AuditCount) -> str:
    """41 events in 7 days, one refused."""
    shown = f"{found.n:,}" if found.is_all else _("Over %(n)s") % {"n": f"{found.n:,}"}
    told = ngettext("%(n)s event in 7 days", "%(n)s events in 7 days", found.n) % {"n": shown}
    if not found.n:
        return _("Nothing happened in 7 days")
    if not found.n_refused:
        return told + _(", none refused")
    return told + _(", %(n)s refused") % {"n": f"{found.n_refused:,}"}
