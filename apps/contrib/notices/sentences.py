"""What notices say: one whole sentence for each case of a kind, from the facts that were found."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts.selectors import display_name
from apps.contrib.notices.kind import Sentence
from apps.priorities.sentences.numbers import number

Facts = Mapping[str, Any]


def waiting_decisions(facts: Facts) -> Sentence:
    days = int(facts["days"])
    if facts["is_request"]:
        key = "waiting_decisions.request"
        text = ngettext(
            "A request for shares by %(who)s has been pending for %(n)s day.",
            "A request for shares by %(who)s has been pending for %(n)s days.",
            days,
        )
    else:
        key = "waiting_decisions.review"
        text = ngettext(
            "A change by %(who)s has been pending for %(n)s day.",
            "A change by %(who)s has been pending for %(n)s days.",
            days,
        )
    return Sentence(key, facts, text % {"who": display_name(facts["who"]), "n": days})


def request_decided(facts: Facts) -> Sentence:
    texts = {
        "granted": _("Your request for shares of %(path)s was granted."),
        "granted_other": _("Your request for shares of %(path)s was granted with other terms."),
        "declined": _("Your request for shares of %(path)s was declined."),
    }
    outcome = facts["outcome"]
    return Sentence(f"request_decided.{outcome}", _shown(facts), texts[outcome] % {"path": facts["path"]})


def shares_changed(facts: Facts) -> Sentence:
    values = {"path": facts["path"], "n": facts["revision"], "day": day_text(facts["published_at"])}
    text = _("Revision %(n)s of %(day)s changed how shares are divided below %(path)s.") % values
    return Sentence("shares_changed", _shown(facts), text)


def late_source(facts: Facts) -> Sentence:
    source, hours = facts["source"], int(facts["hours"])
    if facts.get("is_uncollected"):  # notices from before this kind had the fact lack it
        text = _("%(source)s was never collected.") % {"source": source}
        if facts["error"]:
            text += " " + _("The last error: %(error)s") % {"error": facts["error"]}
        return Sentence("late_source.uncollected", facts, text)
    if hours < 48:
        text = ngettext(
            "%(source)s is late: it had no contact for %(n)s hour.",
            "%(source)s is late: it had no contact for %(n)s hours.",
            hours,
        ) % {"source": source, "n": hours}
    else:
        days = hours // 24
        text = ngettext(
            "%(source)s is late: it had no contact for %(n)s day.",
            "%(source)s is late: it had no contact for %(n)s days.",
            days,
        ) % {"source": source, "n": days}
    return Sentence("late_source.never" if facts["is_never"] else "late_source.late", facts, text)


def unmapped_usage(facts: Facts) -> Sentence:
    n = int(facts["n"])
    text = ngettext(
        "%(part)s %% of the usage in %(policy)s is from %(n)s unmapped account.",
        "%(part)s %% of the usage in %(policy)s is from %(n)s unmapped accounts.",
        n,
    )
    part = number(facts["fraction"] * 100, 1)
    return Sentence("unmapped_usage", facts, text % {"part": part, "policy": facts["policy"], "n": n})


def account_claimed(facts: Facts) -> Sentence:
    values = {"who": display_name(facts["who"]), "account": facts["account"], "path": facts["path"]}
    text = _("%(who)s claims the account %(account)s, which counts at %(path)s.") % values
    return Sentence("account_claimed", _shown(facts), text)


def recompute_failed(facts: Facts) -> Sentence:
    text = _("The priorities of %(policy)s are no longer computed; the last ones stay. %(error)s") % dict(facts)
    return Sentence("recompute_failed", facts, text)


def backup_failing(facts: Facts) -> Sentence:
    if facts["made_at"]:
        good = _("The last good backup is of %(day)s.") % {"day": day_text(facts["made_at"])}
    else:
        good = _("There has been no good backup yet.")
    n = int(facts["n"])
    if not n:
        return Sentence("backup_failing.late", facts, good)
    text = ngettext("The last try of a backup failed.", "The last %(n)s tries of a backup failed.", n) % {"n": n}
    error = _("The last error: %(error)s") % {"error": facts["error"]}
    return Sentence("backup_failing", facts, f"{text} {good} {error}")


def stale_peer(facts: Facts) -> Sentence:
    what = {"what": str(facts["what"])}
    if "blocked_for" in facts:
        texts = {
            "forked": _(
                "%(what)s published two different documents with one version number: it isn’t fetched until an "
                "administrator decides."
            ),
            "unknown_key": _("%(what)s signs with an untrusted key: it isn’t fetched until an administrator decides."),
        }
        text = texts.get(facts["blocked_for"], _("%(what)s isn’t fetched until an administrator decides."))
        return Sentence("stale_peer.blocked", facts, text % what)
    hours = int(facts["hours"])
    text = ngettext(
        "%(what)s has been unreachable for %(n)s hour.", "%(what)s has been unreachable for %(n)s hours.", hours
    ) % {**what, "n": hours}
    actions = {
        "keep": _("Its last data stays active."),
        "freeze": _("It is frozen until you unfreeze it."),
        "local": _("Until contact returns, only local usage counts there."),
    }
    return Sentence(f"stale_peer.{facts['action']}", facts, f"{text} {actions[facts['action']]}")


def _shown(facts: Facts) -> Facts:
    """The facts without the ids of people, by which readers are chosen."""
    return {name: value for name, value in facts.items() if name not in ("user", "author")}


def day_text(text: str) -> str:
    """A day in facts as text: 31 Dec 2026."""
    return str(formats.date_format(date.fromisoformat(text[:10]), "j M Y"))
