"""Pages to create, rotate and revoke API tokens; all users, also administrators, manage only their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from secrets import token_hex
from typing import Any, cast
from uuid import UUID

from django.contrib import messages
from django.contrib.auth import authenticate
from django.core import signing
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from apps.accounts import selectors, services
from apps.accounts.models import Token, User
from apps.core import clock
from apps.core.errors import FieldProblem, Invalid, NotFound
from apps.mapping.permissions import load_visibility
from apps.pages.tokens.forms import ConfirmForm, TokenForm
from apps.policies import selectors as policies
from apps.policies.tree.stored import load_tree
from apps.usage import selectors as usage
from apps.web.shell import presentation
from apps.web.shell.requests import SeeOther, actor_of
from apps.web.sign_in_state import asks_password, is_fresh
from apps.web.terminal_client import installing

_SALT = "dashboard.once"
_SPENT = "spent_tickets"
_MOST_SPENT = 50
MAX_AGE_S = 12 * 3600


def make_ticket(request: HttpRequest) -> str:
    """A signed number for a hidden field; nothing is stored, since GET must not write."""
    return signing.dumps([request.user.pk, token_hex(8)], salt=_SALT)


def spend_ticket(request: HttpRequest, ticket: str) -> bool:
    """Whether the ticket is the user's, valid, and used for the first time."""
    try:
        owner, number = signing.loads(ticket, salt=_SALT, max_age=MAX_AGE_S)
    except (signing.BadSignature, ValueError, TypeError):
        return False
    spent: list[str] = request.session.get(_SPENT, [])
    if owner != request.user.pk or number in spent:
        return False
    request.session[_SPENT] = [*spent, number][-_MOST_SPENT:]
    return True


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


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    """List tokens, with a form for a new one; the response to a POST shows the new token, which is not shown again."""
    if request.method != "POST":
        return _page(request, _form(request))
    form = _form(request, request.POST)
    if not form.is_valid() or not _has_confirmed(request, form):
        return _page(request, form, status=422)
    try:
        token, text = services.make_token(
            services.NewToken(
                name=form.cleaned_data["name"],
                scopes=form.cleaned_data["scopes"],
                user=_user(request),
                policy_slug=form.cleaned_data["policy"],
                subtree_uid=_entry_uid(request, form.cleaned_data["policy"], form.cleaned_data["entry"]),
                source_slug=form.cleaned_data["source"],
                days=form.cleaned_data["days"],
            ),
            at=clock.now(),
            actor=actor_of(request),
        )
    except Invalid as refusal:
        form.add_refusal(refusal)
        return _page(request, form, status=422)
    return _page(request, _form(request), made=token, text=text)


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def rotate(request: HttpRequest, token_id: int) -> HttpResponse:
    """Replace the secret of a token; the old one remains valid for a day."""
    token = _own_token(request, token_id)
    if request.method != "POST":
        return _decision(request, "rotate", token, ConfirmForm(asks_password=asks_password(request)))
    form = ConfirmForm(request.POST, asks_password=asks_password(request))
    if not form.is_valid() or not _has_confirmed(request, form):
        return _decision(request, "rotate", token, form, status=422)
    token, text = services.rotate_token(token_id=token.pk, at=clock.now(), actor=actor_of(request))
    return _page(request, _form(request), made=token, text=text, is_rotated=True)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def revoke(request: HttpRequest, token_id: int) -> HttpResponse:
    """Revoke a token after a confirmation; it stops working within five seconds."""
    token = _own_token(request, token_id)
    if request.method != "POST":
        return _decision(request, "revoke", token, None)
    services.revoke_token(token_id=token.pk, at=clock.now(), actor=actor_of(request))
    messages.success(request, _("“%(name)s” is revoked. It stops within 5 seconds.") % {"name": token.name})
    return SeeOther(reverse("dashboard:tokens"))


def _page(
    request: HttpRequest, form: TokenForm, *, made: Token | None = None, text: str = "", status: int = 200, **more: Any
) -> HttpResponse:
    now = clock.now()
    rows = [token_row(token, now) for token in selectors.list_tokens(actor=actor_of(request))]
    context = {
        "rows": rows,
        "summary": summary(rows),
        "form": form,
        "ticket": make_ticket(request),
        "scopes": scope_choices(services.allowed_scopes(actor_of(request)), form["scopes"].value() or []),
        "made": made,
        "text": text,
        "example": example(made, request.build_absolute_uri("/"), _user(request).username) if made else "",
        "terminal": installing(request.build_absolute_uri(reverse("dashboard:terminal"))),
        "crumbs": _crumbs(_("API tokens")),
        **more,
    }
    return render(request, "pages/tokens/tokens.html", context, status=status)


def _decision(
    request: HttpRequest, what: str, token: Token, form: ConfirmForm | None, *, status: int = 200
) -> HttpResponse:
    titles = {"rotate": _("Rotate"), "revoke": _("Revoke")}
    crumbs = _crumbs(_("API tokens"), titles[what])
    context = {"row": token_row(token, clock.now()), "form": form, "ticket": make_ticket(request), "crumbs": crumbs}
    return render(request, f"pages/tokens/{what}.html", context, status=status)


def _crumbs(*labels: str) -> list[dict[str, str]]:
    crumbs = [{"label": label, "url": ""} for label in labels]
    if len(crumbs) > 1:
        crumbs[0]["url"] = reverse("dashboard:tokens")
    return crumbs


def _form(request: HttpRequest, data: Any = None) -> TokenForm:
    actor = actor_of(request)
    scopes = services.allowed_scopes(actor)
    wanted = [scope for scope in request.GET.getlist("scope") if scope in scopes]  # a link can preselect them
    bounds = {name: request.GET.get(name, "")[:8192] for name in ("policy", "entry")}
    return TokenForm(
        data,
        initial={"scopes": wanted, **bounds},
        scopes=scopes,
        policies=[(policy.slug, policy.name) for policy in policies.list_policies(actor=actor)],
        sources=usage.list_source_names(actor=actor),
        asks_password=asks_password(request),
    )


def _has_confirmed(request: HttpRequest, form: TokenForm | ConfirmForm) -> bool:
    """Whether the user has confirmed with the password, or signed in recently without one, and the ticket is unused.

    `authenticate` counts wrong passwords for the lockout, so that a stolen session can't guess the password.
    """
    if not asks_password(request):
        if not is_fresh(request):
            message = _("You signed in over ten minutes ago: sign out and in again, then return here.")
            form.add_error(None, ValidationError(message, code="sign_in_again"))
            return False
    else:
        user = authenticate(request, username=_user(request).get_username(), password=form.cleaned_data["password"])
        if user is None or user.pk != request.user.pk:
            form.add_error("password", _("Wrong password."))
            return False
    if not spend_ticket(request, form.cleaned_data["ticket"]):
        message = _(
            "This form was submitted before, or is too old; nothing was changed. Check your tokens, then try again."
        )
        form.add_error(None, message)
        return False
    return True


def _own_token(request: HttpRequest, token_id: int) -> Token:
    own = selectors.list_tokens(actor=actor_of(request))
    token = next((token for token in own if token.pk == token_id), None)
    if token is None:
        raise NotFound(_("Not found, or not visible to you."))
    return token


def _entry_uid(request: HttpRequest, policy_slug: str, path: str) -> UUID | None:
    """UID of the entry with a path, None for the whole tree; raises Invalid if the actor sees no such entry."""
    path = "/" + path.strip().strip("/")
    if path == "/":
        return None
    actor = actor_of(request)
    policy = policies.get_policy(slug=policy_slug, actor=actor)
    tree = load_tree(policy)
    index = tree.index_of_path(path)
    if index is not None and load_visibility(policy=policy, tree=tree, at=clock.now(), actor=actor).may_see(index):
        return tree.uuid(index)
    message = _("There is no entry %(path)s in this policy.") % {"path": path}
    raise Invalid(message, fields=[FieldProblem("entry", message)])


def _user(request: HttpRequest) -> User:
    return cast("User", request.user)
