"""What a page of the past says about its numbers: from when they are, and what became known later."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

TEXTS = {
    "past.none": _("No numbers of then are kept: targets only."),
    "past.as_computed": _("Usage as of %(at)s, as it was computed then."),
    "past.reconstructed": _("Usage as of %(at)s, reconstructed from the records."),
    "past.earlier_revision": _(
        "Usage as of %(at)s, computed on revision %(revision)s: no numbers of the newer revision are kept from then."
    ),
    "past.usage_later": _(
        "Usage of the time from %(since_at)s on was reported or corrected after %(at)s; it is included."
    ),
    "past.later_unknown": _("No numbers that were computed then are kept, so late usage can’t be told apart."),
    "past.corrections_later": ngettext_lazy(
        "%(n)s adjustment of usage before then was published later; it is left out.",
        "%(n)s adjustments of usage before then were published later; they are left out.",
        "count",
    ),
    "past.before_first_usage": _("The first usage is of %(at)s: nobody had used anything."),
    "past.no_usage": _("No usage is known: nobody had used anything."),
    "past.no_mapping": _("No account was mapped then, so no usage counts."),
    "past.oldest_mapping": _("The mapping of then isn’t kept; the oldest one that is kept, of %(at)s, is used."),
}
