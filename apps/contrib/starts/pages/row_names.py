"""Names of the rows of a group's level."""

from __future__ import annotations

from django.utils.translation import gettext as _

from apps.contrib.starts.now.level import RowKind


def name_of_row(kind: RowKind, path: str) -> str:
    """A group's name, which is alone at its level, or what the row holds."""
    names = {"members": _("Users"), "direct": _("At the group itself"), "unmapped": _("Unmapped accounts")}
    return path.rpartition("/")[2] or names[kind]
