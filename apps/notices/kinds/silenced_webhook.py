"""Webhooks that were turned off because their receiver accepted nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.notices.kinds.base import Finding, Kind, Sentence, SitePlace

if TYPE_CHECKING:
    from apps.notices.models import Notice
    from apps.notices.visibility import Reader


def find(_place: SitePlace) -> Iterable[Finding]:
    """Present until the webhook is turned on, changed or removed."""
    from apps.notices.models import Webhook

    for webhook in Webhook.objects.filter(is_on=False).exclude(off_because="").order_by("pk"):
        facts = {"webhook": webhook.pk, "name": webhook.name, "owner": webhook.owner_id, "why": webhook.off_because}
        yield Finding(str(webhook.pk), "warn", facts, person_id=webhook.owner_id)


def is_for(reader: Reader, notice: Notice) -> bool:
    """The owner and administrators."""
    is_own = reader.user_id is not None and notice.facts.get("owner") == reader.user_id
    return reader.is_admin or (is_own and reader.actor.token is None)


def describe(facts: Mapping[str, Any]) -> Sentence:
    given = {"name": facts["name"], "why": facts["why"]}
    text = _("The webhook %(name)s was turned off. %(why)s") % given
    return Sentence("silenced_webhook", {"webhook": facts["webhook"], **given}, text)


KIND = Kind(
    name="silenced_webhook",
    title=gettext_lazy("Webhooks turned off"),
    watches="site",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="webhook",
)
