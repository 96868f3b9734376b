"""Pages to create, rotate and revoke API tokens; all users, also administrators, manage only their own."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from apps.accounts import selectors, services
from apps.accounts.models import Token, User
from apps.core import clock
from apps.core.errors import FieldProblem, Invalid, NotFound
from apps.mapping.permissions import load_visibility
from apps.pages.tokens.confirmation import has_confirmed
from apps.pages.tokens.forms import ConfirmForm, TokenForm
from apps.pages.tokens.presenters import example, scope_choices, summary, token_row
from apps.pages.tokens.tickets import make_ticket
from apps.policies import selectors as policies
from apps.policies.tree.stored import load_tree
from apps.usage import selectors as usage
from apps.web.links.terminal_client import installing
from apps.web.shell.requests import SeeOther, actor_of
from apps.web.shell.sign_in_state import asks_password


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    """List tokens, with a form for a new one; the response to a POST shows the new token, which is not shown again."""
    if request.method != "POST":
        return _page(request, _form(request))
    form = _form(request, request.POST)
    if not form.is_valid() or not has_confirmed(request, form):
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
    if not form.is_valid() or not has_confirmed(request, form):
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
    return SeeOther(reverse("pages:tokens"))


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
        "terminal": installing(request.build_absolute_uri(reverse("pages:terminal"))),
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
        crumbs[0]["url"] = reverse("pages:tokens")
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
