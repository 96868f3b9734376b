"""What kinds about other authorities share: the mounts and feeds of a policy, and who gets notices of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from apps.federation.models import Mount, Subscription
from apps.federation.mounts.services import may_mount_at
from apps.notices.kinds.base import PolicyPlace, Terms

if TYPE_CHECKING:
    from apps.notices.models import Notice
    from apps.notices.visibility import Reader

Other = Mount | Subscription


def watched(place: PolicyPlace) -> Iterator[tuple[Other, Terms]]:
    """Those at whose entry a rule is on; of one whose entry is gone the rule of the whole policy decides."""
    for table in (Mount, Subscription):
        for remote in table._default_manager.filter(policy=place.policy).select_related("policy").order_by("pk"):
            terms = place.terms_at(place.tree.index_of_uid(remote.entry_uid) or 0)
            if terms is not None:
                yield remote, terms


def key_of(remote: Other) -> str:
    return f"{'mount' if isinstance(remote, Mount) else 'usage'}:{remote.pk}"


def facts_of(remote: Other) -> dict[str, Any]:
    """What leads to its page, and what it is called."""
    place = "mount" if isinstance(remote, Mount) else "subscription"
    return {"what": str(remote), place: remote.pk, "is_usage": place == "subscription"}


def is_for(reader: Reader, notice: Notice) -> bool:
    """The managers who decide about it: peers' addresses and troubles are hidden from others."""
    uid = notice.entry_uid
    return notice.policy is not None and uid is not None and may_mount_at(notice.policy, uid, reader.actor, reader.at)


def what(facts: Mapping[str, Any]) -> str:
    return str(facts["what"])
