"""Saved views of lists: named query strings, private to a user and therefore not logged."""

from __future__ import annotations

from datetime import datetime

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.accounts.models import SavedView
from apps.core.errors import Conflict, FieldProblem, Invalid, NotAllowed, NotFound

MOST_VIEWS = 30  # per list
LONGEST_NAME = 60
LONGEST_QUERY = 4_000


def list_views(*, page: str, actor: Actor) -> list[SavedView]:
    """The actor's views of a list, by name."""
    return [] if actor.user is None else list(SavedView.objects.filter(user=actor.user, page=page).order_by("name"))


def list_all_views(*, actor: Actor) -> list[SavedView]:
    """The actor's views of all lists, by list and name."""
    return [] if actor.user is None else list(SavedView.objects.filter(user=actor.user).order_by("page", "name"))


def default_query(*, page: str, actor: Actor) -> str:
    """Query string of the default view of a list; empty without one."""
    if actor.user is None:
        return ""
    found = SavedView.objects.filter(user=actor.user, page=page, is_default=True)
    return found.values_list("query", flat=True).first() or ""


def save_view(*, page: str, name: str, query: str, at: datetime, actor: Actor) -> SavedView:
    """Save a view; an existing view of the same name is overwritten.

    Raises:
        Invalid: an invalid name or a query that is too long.
        Conflict: too many views.
    """
    if actor.user is None:
        raise NotAllowed(_("Only users can save views."))
    name = _clean_name(name)
    if len(query) > LONGEST_QUERY:
        message = _("This view is too long to be saved: %(n)d characters, at most %(most)d.") % {
            "n": len(query),
            "most": LONGEST_QUERY,
        }
        raise Invalid(message, fields=[FieldProblem("query", message)])
    mine = SavedView.objects.filter(user=actor.user, page=page)
    if not mine.filter(name=name).exists() and mine.count() >= MOST_VIEWS:
        message = _("You have %(n)d views of this list: delete one first.") % {"n": MOST_VIEWS}
        raise Conflict(message, code="too_many_views")
    view, _is_new = SavedView.objects.update_or_create(
        user=actor.user,
        page=page,
        name=name,
        defaults={"query": query},
        create_defaults={"query": query, "created_at": at},
    )
    return view


def rename_view(*, id: int, name: str, actor: Actor) -> SavedView:
    """Rename a view of the actor.

    Raises:
        NotFound: there is no such view of the actor.
        Invalid: an invalid name.
        Conflict: the name is in use.
    """
    view = get_view(id=id, actor=actor)
    view.name = _clean_name(name)
    try:
        with transaction.atomic():
            view.save(update_fields=["name"])
    except IntegrityError:
        message = _("You have a view named %(name)s already.") % {"name": view.name}
        raise Conflict(message, code="name_taken") from None
    return view


def set_default(*, id: int, is_default: bool, actor: Actor) -> SavedView:
    """Make a view the default of its list, or clear the default. A list has at most one."""
    view = get_view(id=id, actor=actor)
    with transaction.atomic():
        SavedView.objects.filter(user=view.user_id, page=view.page).update(is_default=False)
        view.is_default = is_default
        view.save(update_fields=["is_default"])
    return view


def delete_view(*, id: int, actor: Actor) -> SavedView:
    """Delete a view of the actor.

    Raises:
        NotFound: there is no such view of the actor.
    """
    view = get_view(id=id, actor=actor)
    SavedView.objects.filter(pk=view.pk).delete()
    return view


def get_view(*, id: int, actor: Actor) -> SavedView:
    found = None if actor.user is None else SavedView.objects.filter(pk=id, user=actor.user).first()
    if found is None:
        raise NotFound(_("Not found, or not visible to you."))
    return found


def _clean_name(name: str) -> str:
    cleaned = " ".join(name.replace("\0", "").split())
    if not 1 <= len(cleaned) <= LONGEST_NAME:
        message = _("Enter a name of 1 to %(most)d characters.") % {"most": LONGEST_NAME}
        raise Invalid(message, fields=[FieldProblem("name", message)])
    return cleaned
