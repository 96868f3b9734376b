"""Views of lists that people keep: what of an address is kept, how one is saved and changed."""

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
from apps.dashboard.shell.requests import SeeOther, actor_of, is_htmx

# --- Lists and what of their address is kept --------------------------------------------------------------------------
WHOLE = "view=all"  # the list as it is without a default view
LISTS: set[str] = set()  # names of pages whose views can be saved, filled by `keeps_views`
_NOT_KEPT = {"after", "cursor", "page", "entry", "toggle", "view", "csrfmiddlewaretoken"}  # places, not views

View = Callable[..., HttpResponse]


def keeps_views(name: str) -> Callable[[View], View]:
    """Mark the page of a list: its views can be saved, and it opens with the default one."""
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
    """The path if it is that of a list; empty otherwise, so that nobody is led elsewhere."""
    if not text.startswith("/") or len(text) > 200:
        return ""
    try:
        found = resolve(text)
    except Resolver404:
        return ""
    return text if found.app_name == "dashboard" and found.url_name in LISTS else ""


def kept_query(text: str) -> str:
    """What of an address makes the view."""
    pairs = parse_qsl(text.removeprefix("?"), max_num_fields=500)
    return urlencode([pair for pair in pairs if pair[0] not in _NOT_KEPT])


# --- Views ------------------------------------------------------------------------------------------------------------
@require_http_methods(["GET", "HEAD", "POST"])
def save(request: HttpRequest) -> HttpResponse:
    """`page`, `query` and `name`; back to the list, which shows the view."""
    if request.method != "POST":
        return SeeOther(reverse("dashboard:overview"))
    page = list_path(request.POST.get("page", ""))
    if not page:
        raise Invalid(_("This page has no views to save."), fields=[FieldProblem("page", "is not a list")])
    try:
        query = kept_query(request.POST.get("query", ""))
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
    """`step`: rename, default, not-default or delete."""
    if request.method != "POST":
        return SeeOther(reverse("dashboard:overview"))
    actor, step = actor_of(request), request.POST.get("step", "")
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
            raise Invalid(_("Unknown action."), fields=[FieldProblem("step", step[:40])])
    except (Invalid, Conflict) as error:
        messages.error(request, error.message)
    return SeeOther(f"{list_path(view.page) or reverse('dashboard:overview')}?{view.query or WHOLE}")
