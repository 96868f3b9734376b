"""What a page of the past says about its numbers: from when they are, and what became known later."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

TEXTS = {
    "past.none": _("No stored numbers for that time: targets only."),
    "past.as_computed": _("Usage as of %(at)s, as computed at the time."),
    "past.reconstructed": _("Usage as of %(at)s, reconstructed from the records."),
    "past.earlier_revision": _(
        "Usage as of %(at)s, computed with revision %(revision)s: no numbers are stored for the newer revision."
    ),
    "past.usage_later": _("Usage from %(since_at)s on was reported or corrected after %(at)s; it is included."),
    "past.later_unknown": _("No numbers of that time are stored, so late usage can’t be distinguished."),
    "past.corrections_later": ngettext_lazy(
        "%(n)s adjustment of earlier usage was published later; it is left out.",
        "%(n)s adjustments of earlier usage were published later; they are left out.",
        "count",
    ),
    "past.before_first_usage": _("The first usage is from %(at)s: there was none before."),
    "past.no_usage": _("No usage is known at that time."),
    "past.no_mapping": _("No account was mapped at that time, so no usage counts."),
    "past.oldest_mapping": _("The mapping of that time isn’t stored; the oldest one, of %(at)s, is used."),
}
