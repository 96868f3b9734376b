"""Labels of an entry's fields and of a policy's settings, as differences and conflicts name them."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from apps.priorities.selectors.history import PLACE

ENTRY_FIELDS = {
    "shares": _("Shares"),
    "name": _("Name"),
    "kind": _("Kind"),
    "scope": _("Scope"),
    "scope_sources": _("Sources"),
    "locked": _("Lock"),
    "dates": _("Dates"),
    "members": _("Members by rule"),
    "mount": _("Maintainer"),
    "is_group": _("May have entries below"),
    "parent_uid": _("Parent"),
    PLACE: _("Parent"),
    "archived": _("State"),
    "children": _("Entries below"),
    "entry": _("Entry"),
}
SETTINGS = {
    "algorithm": _("Algorithm"),
    "metric": _("Metric"),
    "window": _("Usage window"),
    "approach": _("Jobs included in usage"),
    "fallback_factor": _("Factor of unmapped accounts"),
    "tolerance": _("Tolerance"),
    "review": _("Review of large changes"),
    "units": _("Units"),
    "rules": _("Rules of allocations"),
    "limits": _("Limits ordered by rules"),
}


def entry_field(field: str) -> str:
    """Label of a field of an entry; the field's own name if it has none."""
    return str(ENTRY_FIELDS.get(field, field.replace("_", " ")))


def setting(part: str) -> str:
    """Label of a part of the settings; its own name if it has none."""
    return str(SETTINGS.get(part, part.replace("_", " ")))


def conflicting_field(field: str) -> str:
    """Label of a field that two users changed: of an entry, or of the settings with the prefix `settings.`."""
    part = field.removeprefix("settings.")
    return entry_field(field) if part == field else setting(part)
