"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.pages.group import views as group
from apps.pages.group.inbox import views as requests

_GROUP = "policy/<slug:policy>/group/<uuid:uid>"


urlpatterns: list[URLPattern] = [
    path("start/", group.start, name="start"),
    path("group/", group.my_group, name="my-group"),
    path(f"{_GROUP}/", group.group, name="group"),
    path(f"{_GROUP}/_form", group.form, name="group-form"),
    path(f"{_GROUP}/_effect", group.effect, name="group-effect"),
    path(f"{_GROUP}/_ask_effect", group.ask_effect, name="group-ask-effect"),
    path(f"{_GROUP}/ask/", group.ask, name="group-ask"),
    path(f"{_GROUP}/undo/", group.undo, name="group-undo"),
    path("inbox/", requests.inbox, name="inbox"),
    path("inbox/_news", requests.news, name="inbox-news"),
    path("inbox/<int:change_set>/_ranks", requests.ranks, name="request-ranks"),
    path("inbox/<int:change_set>/answer/", requests.answer, name="request-answer"),
]
rest: list[URLPattern] = []
