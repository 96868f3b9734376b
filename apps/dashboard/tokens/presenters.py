"""A token as its owner reads it: what it may, where, until when, and how to try it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts.models import Token
from apps.dashboard.shell import presentation

SOON = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class ScopeChoice:
    """One checkbox: the scope, what it means, and one line of consequence."""

    scope: str
    title: str
    consequence: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One line of the table. `state` is active, ending, ended or revoked."""

    token_id: int
    name: str
    shown: str
    scopes: Sequence[str]
    place: str
    created_at: datetime
    last_used_at: datetime | None
    last_used: str
    expires_at: datetime
    state: str
    badge: str
    icon: str
    words: str
    old_until: datetime | None

    @property
    def works(self) -> bool:
        return self.state in {"active", "ending"}


def token_row(token: Token, now: datetime) -> TokenRow:
    state, badge, icon, words = _state(token, now)
    rotated = token.previous_until if token.previous_until and token.previous_until > now else None
    return TokenRow(
        token_id=token.pk,
        name=token.name,
        shown=shown_as(token),
        scopes=token.scopes,
        place=_place(token),
        created_at=token.created_at,
        last_used_at=token.last_used_at,
        last_used=_last_used(token.last_used_at, now),
        expires_at=token.expires_at,
        state=state,
        badge=badge,
        icon=icon,
        words=words,
        old_until=rotated if state in {"active", "ending"} else None,
    )


def shown_as(token: Token) -> str:
    """Enough to recognise it in a log, too little to use it."""
    return f"fsh_{token.public_id}…{token.last_four}"


def summary(rows: Sequence[TokenRow]) -> str:
    """4 work, one ends in 13 days."""
    working = [row for row in rows if row.works]
    if not working:
        return _("No active tokens.") if rows else _("No tokens yet")
    text = ngettext("%(n)s active token", "%(n)s active tokens", len(working)) % {"n": len(working)}
    ending = [row for row in working if row.state == "ending"]
    if ending:
        first = min(ending, key=lambda row: row.expires_at)
        text += ", " + _("“%(name)s” %(words)s") % {"name": first.name, "words": first.words}
    return text + "."


def scope_choices(scopes: Sequence[str], chosen: Sequence[str]) -> list[ScopeChoice]:
    words = _scope_words()
    return [ScopeChoice(scope, *words[scope], scope in chosen) for scope in scopes]


def example(token: Token, base: str, username: str) -> str:
    """A command that shows the token at work. The token itself stays out of the shell's history."""
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


def _place(token: Token) -> str:
    parts = []
    if token.policy_slug:
        below = _("part of policy %(slug)s") if token.subtree_uid else _("policy %(slug)s")
        parts.append(below % {"slug": token.policy_slug})
    if token.source_slug:
        parts.append(_("source %(slug)s") % {"slug": token.source_slug})
    return ", ".join(parts) or _("all your rights")


def _last_used(at: datetime | None, now: datetime) -> str:
    if at is None:
        return _("never")
    seconds = presentation.seconds_between(at, now)
    if seconds < 60:
        return _("just now")
    if seconds < 3600:
        return _("%(age)s ago") % {"age": presentation.age(seconds)}
    return presentation.clock_time(at, now)


def _scope_words() -> dict[str, tuple[str, str]]:
    return {
        "self:read": (_("Read my own priority"), _("your accounts and their usage")),
        "priorities:read": (_("Serve a scheduler"), _("looks up the priority of any account")),
        "usage:write": (_("Send usage"), _("job records; choose the source below")),
        "policies:read": (_("Read policies"), _("trees, shares and revisions visible to you")),
        "policies:write": (_("Change policies"), _("proposes and publishes within your rights")),
        "federation": (_("Talk to a peer"), _("exchanges policies and usage with another site")),
        "admin": (_("All your rights"), _("for emergencies; choose an early expiry")),
    }
