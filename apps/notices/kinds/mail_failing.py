"""Mail rejected by the mail server, or a mail server that does not respond."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.notices.kinds.base import Finding, Kind, Sentence, SitePlace
from apps.notices.mail import failing_mail

if TYPE_CHECKING:
    from apps.notices.models import Notice
    from apps.notices.visibility import Reader


def find(_place: SitePlace) -> Iterable[Finding]:
    """Shown on the page, since mail about it wouldn't arrive."""
    found = failing_mail()
    if found is not None:
        yield Finding("mail", "bad", {"n": found.n, "error": found.error})


def is_for(reader: Reader, _notice: Notice) -> bool:
    """Administrators, because errors may contain host names."""
    return reader.is_admin


def describe(facts: Mapping[str, Any]) -> Sentence:
    n = int(facts["n"])
    text = ngettext("%(n)s mail can’t be sent.", "%(n)s mails can’t be sent.", n) % {"n": n}
    if facts["error"]:
        text += " " + _("The last one: %(error)s") % {"error": facts["error"]}
    return Sentence("mail_failing", facts, text)


KIND = Kind(
    name="mail_failing",
    title=gettext_lazy("Failing mail"),
    watches="site",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="site",
)
