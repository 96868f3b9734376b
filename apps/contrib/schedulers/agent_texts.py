"""What is said about an agent that sends nothing: by its notice, and by `manage.py doctor`."""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.contrib.schedulers.waiting import FROZEN


def frozen_text(name: str, code: str, detail: str) -> str:
    text = _("The agent of %(name)s froze.") % {"name": name}
    return f"{text} {FROZEN.get(code, code)} {detail}".strip()


def silent_text(name: str, minutes: int | None) -> str:
    """minutes: since its last pass; None before the first."""
    if minutes is None:
        return _("The agent of %(name)s has reported no pass yet.") % {"name": name}
    text = ngettext(
        "The agent of %(name)s has been silent for %(n)s minute.",
        "The agent of %(name)s has been silent for %(n)s minutes.",
        minutes,
    )
    return text % {"name": name, "n": minutes}
