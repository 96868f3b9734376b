"""Rows of tokens, choices of scopes, and an example of a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts.models import Token
from apps.web.shell import presentation

SOON = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class ScopeChoice:
    """One checkbox: a scope, its title, and its consequence."""

    scope: str
    title: str
    consequence: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One row of the table of tokens. `state` is active, ending, ended or revoked.

    ending: sentence on the day on which it expires; empty unless that is soon.
    """

    token: Token
    shown: str
    place: str
    last_used: str
    state: str
    badge: str
    icon: str
    words: str
    ending: str
    old_until: datetime | None

    @property
    def works(self) -> bool:
        return self.state in {"active", "ending"}


def token_row(token: Token, now: datetime) -> TokenRow:
    state, badge, icon, words = _state(token, now)
    rotated = token.previous_until if token.previous_until and token.previous_until > now else None
    return TokenRow(
        token=token,
        shown=shown_as(token),
        place=_place(token),
        last_used=_last_used(token.last_used_at, now),
        state=state,
        badge=badge,
        icon=icon,
        words=words,
        ending=_ending_sentence(token, now) if state == "ending" else "",
        old_until=rotated if state in {"active", "ending"} else None,
    )


def shown_as(token: Token) -> str:
    """Parts of a token that identify it in a log but don't allow its use."""
    return f"fsh_{token.public_id}…{token.last_four}"


def summary(rows: Sequence[TokenRow]) -> str:
    """Number of active tokens, and the one that expires next if it is soon."""
    working = [row for row in rows if row.works]
    if not working:
        return _("No tokens yet")
    text = ngettext("%(n)s active token.", "%(n)s active tokens.", len(working)) % {"n": len(working)}
    ending = [row for row in working if row.state == "ending"]
    if not ending:
        return text
    return f"{text} {min(ending, key=lambda row: row.token.expires_at).ending}"


def scope_choices(scopes: Sequence[str], chosen: Sequence[str]) -> list[ScopeChoice]:
    words = _scope_text()
    return [ScopeChoice(scope, *words[scope], scope in chosen) for scope in scopes]


def example(token: Token, base: str, username: str) -> str:
    """Example command that uses the token; it keeps the token out of the shell's history."""
    if "usage:write" in token.scopes:
        source = token.source_slug or "SOURCE"
        target, more = f"usage/records?source={source}", ["-H 'Content-Type: application/x-ndjson'"]
        more.append("--data-binary @records.ndjson")
    elif {"priorities:read", "self:read"} & set(token.scopes) and "admin" not in token.scopes:
        target, more = f"policies/{token.policy_slug or 'POLICY'}/priorities?account={username}", []
    else:
        target, more = (f"policies/{token.policy_slug}/tree" if token.policy_slug else "policies"), []
    call = ['curl -H "Authorization: Bearer $FAIRSHARE_TOKEN"', *more, f"'{base}api/v1/{target}'"]
    return "read -rs FAIRSHARE_TOKEN   # " + _("paste it here, it stays invisible") + "\n" + " \\\n  ".join(call)


def _state(token: Token, now: datetime) -> tuple[str, str, str, str]:
    if token.revoked_at:
        return "revoked", "", "x", _("revoked")
    if token.expires_at <= now:
        return "ended", "", "clock", _("expired")
    left = token.expires_at - now
    if left <= SOON:
        days = left // timedelta(days=1)
        words = (
            ngettext("expires in %(n)s day", "expires in %(n)s days", days) % {"n": days}
            if days
            else _("expires today")
        )
        return "ending", "warn", "clock", words
    return "active", "ok", "check", _("active")


def _ending_sentence(token: Token, now: datetime) -> str:
    days = (token.expires_at - now) // timedelta(days=1)
    if not days:
        return _("“%(name)s” expires today.") % {"name": token.name}
    text = ngettext("“%(name)s” expires in %(n)s day.", "“%(name)s” expires in %(n)s days.", days)
    return text % {"name": token.name, "n": days}


def _place(token: Token) -> str:
    parts = []
    if token.policy_slug:
        parts.append(_("Policy %(slug)s") % {"slug": token.policy_slug})
        if token.subtree_uid:
            parts.append(_("Subtree"))
    if token.source_slug:
        parts.append(_("Source %(slug)s") % {"slug": token.source_slug})
    if token.scheduler_name:
        parts.append(_("Scheduler %(name)s") % {"name": token.scheduler_name})
    return ", ".join(parts) or _("All policies")


def _last_used(at: datetime | None, now: datetime) -> str:
    if at is None:
        return _("never")
    seconds = presentation.seconds_between(at, now)
    if seconds < 60:
        return _("now")
    if seconds < 3600:
        return _("%(age)s ago") % {"age": presentation.age(seconds)}
    return presentation.clock_time(at, now)


def _scope_text() -> dict[str, tuple[str, str]]:
    return {
        "self:read": (_("Read my own priority"), _("your accounts and their usage")),
        "priorities:read": (_("Serve a scheduler"), _("looks up the priority of any account")),
        "usage:write": (_("Send usage"), _("job records; choose the source below")),
        "policies:read": (_("Read policies"), _("trees, shares and revisions visible to you")),
        "policies:write": (_("Change policies"), _("proposes and publishes within your rights")),
        "federation": (_("Exchange data with a peer"), _("exchanges policies and usage with another site")),
        "schedulers": (_("Run an agent"), _("fetches the settings of a scheduler and reports its queue")),
        "admin": (_("All your rights"), _("for emergencies; choose an early expiry")),
    }
