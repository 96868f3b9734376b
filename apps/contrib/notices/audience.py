"""For whom a notice is: it must hide from a reader what pages hide from them."""

from __future__ import annotations

from apps.contrib.notices.models import Notice
from apps.contrib.notices.visibility import Reader
from apps.federation.mounts.services import may_mount_at
from apps.policies.access.scope import Verb
from apps.policies.models import ChangeSet


def administrators(reader: Reader, _notice: Notice) -> bool:
    """Administrators alone, because errors may contain host names and paths."""
    return reader.is_admin


def deciders(reader: Reader, notice: Notice) -> bool:
    """Users who can decide the change set now."""
    sight = reader.of(notice.policy)
    change_set = ChangeSet.objects.filter(pk=notice.facts["change_set"]).first() if sight else None
    if sight is None or change_set is None or not sight.decider.may_decide_at_all:
        return False
    if notice.facts["is_request"]:
        return change_set.asks_entry_uid is not None and sight.decider.decides_shares_of(change_set.asks_entry_uid)
    return sight.decider.may_approve(change_set) or (
        change_set.author_id != reader.user_id and sight.decider.may_publish(change_set)
    )


def subject(reader: Reader, notice: Notice) -> bool:
    """The person whom the notice is about, signed in, while they see the policy."""
    is_own = reader.user_id is not None and notice.facts["user"] == reader.user_id
    return is_own and reader.actor.token is None and reader.of(notice.policy) is not None


def affected(reader: Reader, notice: Notice) -> bool:
    """Users with an account or a role below the entry, but not who published; shares are visible wherever it is."""
    sight = reader.of(notice.policy)
    return (
        sight is not None
        and reader.user_id is not None
        and reader.user_id != notice.facts["author"]
        and sight.has_place_below(notice.entry_uid)
    )


def concerned(reader: Reader, notice: Notice) -> bool:
    """Users concerned with the entry: allocations are visible wherever it is."""
    sight = reader.of(notice.policy)
    return sight is not None and sight.concerns(notice.entry_uid)


def concerned_with_numbers(reader: Reader, notice: Notice) -> bool:
    """Users concerned with the entry whose pages show its exact usage."""
    sight = reader.of(notice.policy)
    return sight is not None and sight.concerns(notice.entry_uid) and sight.sees_exact_numbers(notice.entry_uid)


def mappers_of_all(reader: Reader, notice: Notice) -> bool:
    """Users who map accounts for the whole policy."""
    sight = reader.of(notice.policy)
    return sight is not None and sight.holds_over_all(Verb.MAP_ACCOUNTS)


def mappers_of_entry(reader: Reader, notice: Notice) -> bool:
    """Users who may decide the claim: they map accounts at the entry, and it isn't their own."""
    sight = reader.of(notice.policy)
    if sight is None or (reader.user_id == notice.facts["user"] and not reader.is_admin):
        return False
    return sight.maps_accounts_at(notice.entry_uid)


def who_mounts(reader: Reader, notice: Notice) -> bool:
    """Managers who decide about the peer: addresses and problems of peers are hidden from others."""
    uid = notice.entry_uid
    return notice.policy is not None and uid is not None and may_mount_at(notice.policy, uid, reader.actor, reader.at)
