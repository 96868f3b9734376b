"""Saving a view of a list, and changing one's own."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from apps.accounts import saved_views
from apps.core import clock
from apps.core.errors import Conflict, FieldProblem, Invalid
from apps.dashboard.saved_views.pages import WHOLE, kept_query, list_path
from apps.dashboard.shell.requests import SeeOther, actor_of


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
        view = saved_views.save_view(
            page=page, name=request.POST.get("name", ""), query=query, at=clock.now(), actor=actor_of(request)
        )
        messages.success(request, _("View “%(name)s” is saved.") % {"name": view.name})
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
            messages.success(request, _("View “%(name)s” is deleted.") % {"name": view.name})
        else:
            raise Invalid(_("Unknown action."), fields=[FieldProblem("step", step[:40])])
    except (Invalid, Conflict) as error:
        messages.error(request, error.message)
    return SeeOther(f"{list_path(view.page) or reverse('dashboard:overview')}?{view.query or WHOLE}")
