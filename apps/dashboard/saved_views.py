"""Saved views of lists: the part of a URL's query that a view stores, and the endpoints to save and change views."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import parse_qsl, urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, resolve, reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from apps.accounts import saved_views
from apps.accounts.saved_views import default_query
from apps.core import clock
from apps.core.errors import Conflict, FieldProblem, Invalid
from apps.dashboard.shell.forms import read_action
from apps.dashboard.shell.requests import SeeOther, actor_of, is_htmx

# --- Lists and their stored queries -----------------------------------------------------------------------------------
WHOLE = "view=all"  # query that shows the list without the user's default view
LISTS: set[str] = set()  # URL names of pages whose views can be saved, filled by `keeps_views`
_NOT_STORED = {"after", "cursor", "page", "entry", "toggle", "view", "csrfmiddlewaretoken"}  # positions in a list

View = Callable[..., HttpResponse]


def keeps_views(name: str) -> Callable[[View], View]:
    """Mark the view of a list page: users can save views of it, and it redirects to their default view."""
    LISTS.add(name)

    def decorate(view: View) -> View:
        @wraps(view)
        def answer(request: HttpRequest, **kwargs: Any) -> HttpResponse:
            if request.method == "GET" and not request.META.get("QUERY_STRING") and not is_htmx(request):
                query = default_query(page=request.path, actor=actor_of(request))
                if query:
                    return SeeOther(f"{request.path}?{query}")
            return view(request, **kwargs)

        return answer

    return decorate


def list_path(text: str) -> str:
    """The path if it is that of a list; empty otherwise, so that it is safe to redirect to."""
    if not text.startswith("/") or len(text) > 200:
        return ""
    try:
        found = resolve(text)
    except Resolver404:
        return ""
    return text if found.app_name == "dashboard" and found.url_name in LISTS else ""


def stored_query(text: str) -> str:
    """The part of a query that a view stores; raises ValueError for more than 500 parameters."""
    pairs = parse_qsl(text.removeprefix("?"), max_num_fields=500)
    return urlencode([pair for pair in pairs if pair[0] not in _NOT_STORED])


# --- Views ------------------------------------------------------------------------------------------------------------
@require_http_methods(["GET", "HEAD", "POST"])
def save(request: HttpRequest) -> HttpResponse:
    """Save the posted `query` of a list `page` under a `name`; redirect to the list with this view."""
    if request.method != "POST":
        return SeeOther(reverse("dashboard:overview"))
    page = list_path(request.POST.get("page", ""))
    if not page:
        raise Invalid(_("This page has no views to save."), fields=[FieldProblem("page", "is not a list")])
    try:
        query = stored_query(request.POST.get("query", ""))
    except ValueError:
        raise Invalid(
            _("This view has too many parts to be saved."), fields=[FieldProblem("query", "is too long")]
        ) from None
    try:
        saved_views.save_view(
            page=page, name=request.POST.get("name", ""), query=query, at=clock.now(), actor=actor_of(request)
        )
        messages.success(request, _("Saved"))
    except (Invalid, Conflict) as error:
        messages.error(request, error.message)
    return SeeOther(f"{page}?{query or WHOLE}")


@require_http_methods(["GET", "HEAD", "POST"])
def change(request: HttpRequest, view_id: int) -> HttpResponse:
    """Rename or delete a saved view, or set whether it is the default, as the button `step` says."""
    if request.method != "POST":
        return SeeOther(reverse("dashboard:overview"))
    actor, step = actor_of(request), read_action(request).step
    view = saved_views.get_view(id=view_id, actor=actor)
    try:
        if step == "rename":
            view = saved_views.rename_view(id=view_id, name=request.POST.get("name", ""), actor=actor)
        elif step in ("default", "not-default"):
            view = saved_views.set_default(id=view_id, is_default=step == "default", actor=actor)
        elif step == "delete":
            saved_views.delete_view(id=view_id, actor=actor)
            messages.success(request, _("Removed"))
        else:
            raise Invalid(_("Choose an action."), fields=[FieldProblem("step", step[:40])])
    except (Invalid, Conflict) as error:
        messages.error(request, error.message)
    return SeeOther(f"{list_path(view.page) or reverse('dashboard:overview')}?{view.query or WHOLE}")
