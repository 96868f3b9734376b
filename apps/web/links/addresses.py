"""Addresses of pages that other features link to."""

from __future__ import annotations

from uuid import UUID

from django.http import QueryDict
from django.urls import reverse


def group_url(policy_slug: str, uid: UUID | None) -> str:
    """URL of a group's page for its managers; empty without a group."""
    return reverse("pages:group", kwargs={"policy": policy_slug, "uid": uid}) if uid else ""


def shares_url(policy_slug: str, uid: UUID, focus: UUID | None = None) -> str:
    """URL of an entry's page with the side panel of its shares open, or of those of its child `focus`."""
    page = reverse("pages:entry-find", kwargs={"policy": policy_slug, "uid": uid})
    return f"{page}?panel=shares&focus={focus}" if focus else f"{page}?panel=shares"


def draft_url(change_set_id: int, back: str = "") -> str:
    """URL of the editor's page. back: query with its state."""
    state = QueryDict(back)
    url = reverse("pages:draft", kwargs={"change_set": change_set_id})
    return f"{url}?{state.urlencode()}" if state else url


def review_url(change_set_id: int) -> str:
    return reverse("pages:change", kwargs={"change_set": change_set_id})
