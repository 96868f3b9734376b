"""My group and the inbox."""

from __future__ import annotations

from django.urls import path

from apps.dashboard.group import views as group
from apps.dashboard.requests import views as inbox

_GROUP = "policy/<slug:policy>/group/<uuid:uid>"

urlpatterns = [
    path("start/", group.start, name="start"),
    path("group/", group.my_group, name="my-group"),
    path(f"{_GROUP}/", group.group, name="group"),
    path(f"{_GROUP}/_form", group.form, name="group-form"),
    path(f"{_GROUP}/_effect", group.effect, name="group-effect"),
    path(f"{_GROUP}/_ask_effect", group.ask_effect, name="group-ask-effect"),
    path(f"{_GROUP}/ask/", group.ask, name="group-ask"),
    path(f"{_GROUP}/undo/", group.undo, name="group-undo"),
    path("inbox/", inbox.inbox, name="inbox"),
    path("inbox/_news", inbox.news, name="inbox-news"),
    path("inbox/<int:change_set>/_ranks", inbox.ranks, name="request-ranks"),
    path("inbox/<int:change_set>/answer/", inbox.answer, name="request-answer"),
]
