"""Which documents are accepted: newer, of the followed lineage and authority, valid, and never one's own."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from apps.core.signing import BadDocument, SigningKey, digest_of, hand_over, sign_document
from apps.federation.documents.trust import Judged, Trusted, Verdict, judge
from apps.federation.documents.wire import Head, PolicyLimits, write_policy
from apps.policies.tree.columns import Node
from apps.policies.tree.working_tree import columns_of

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
KEY, NEW_KEY = SigningKey(bytes(32)), SigningKey(bytes(range(32)))
TREE = columns_of([Node(UUID(int=1), None, "VO-A"), Node(UUID(int=2), UUID(int=1), "P", shares=2.0)])
FIRST = Head("vo-a.example", "vo-a", 1, None, AT, AT + timedelta(days=7))
UNKNOWN = Trusted("vo-a.example", "vo-a", KEY.public.fingerprint)


def signed(head: Head, key: SigningKey = KEY) -> bytes:
    return sign_document(write_policy(head, TREE, 0), key)


def digest(head: Head) -> str:
    return digest_of(write_policy(head, TREE, 0))


def asked(
    data: bytes,
    trusted: Trusted = UNKNOWN,
    *,
    own: str = "site.example",
    above: tuple[str, ...] = (),
    publishes: bool = True,
    at: datetime = AT,
) -> Judged:
    return judge(data, trusted, own_name=own, publishes=publishes, names_above=above, limits=PolicyLimits(), at=at)


SECOND = replace(FIRST, version=2, previous=digest(FIRST))
AFTER_FIRST = replace(UNKNOWN, version=1, digest=digest(FIRST))


def refusal(data: bytes, trusted: Trusted = UNKNOWN, **more: object) -> str:
    with pytest.raises(BadDocument) as refused:
        asked(data, trusted, **more)  # type: ignore[arg-type]
    return refused.value.code


def test_the_first_document_is_taken_whatever_its_version() -> None:
    assert asked(signed(FIRST)).trusted == AFTER_FIRST
    late = replace(SECOND, version=41)
    assert asked(signed(late)).verdict is Verdict.NEW


def test_the_same_again_is_the_same_and_the_next_is_new() -> None:
    assert asked(signed(FIRST), AFTER_FIRST).verdict is Verdict.SAME
    judged = asked(signed(SECOND), AFTER_FIRST)
    assert (judged.verdict, judged.trusted.version) == (Verdict.NEW, 2)
    assert judged.document.tree.name == ["VO-A", "P"]


def test_versions_that_were_missed_are_no_fork() -> None:
    fourth = replace(FIRST, version=4, previous="ab" * 32)
    assert asked(signed(fourth), AFTER_FIRST).verdict is Verdict.NEW


def test_an_old_version_a_second_one_of_a_number_and_another_line_are_refused() -> None:
    after_second = replace(AFTER_FIRST, version=2, digest=digest(SECOND))
    assert refusal(signed(FIRST), after_second) == "older_version"
    other = replace(SECOND, expires_at=AT + timedelta(days=9))
    assert refusal(signed(other), after_second) == "forked"
    assert refusal(signed(replace(SECOND, previous="ab" * 32)), AFTER_FIRST) == "forked"


def test_a_clock_that_runs_ahead_and_a_time_that_is_over_are_refused() -> None:
    assert refusal(signed(FIRST), at=AT - timedelta(hours=1)) == "issued_ahead"
    assert asked(signed(FIRST), at=AT - timedelta(minutes=4)).verdict is Verdict.NEW
    assert refusal(signed(FIRST), at=AT + timedelta(days=7)) == "expired"


def test_documents_of_others_are_refused_though_their_signature_holds() -> None:
    assert refusal(signed(replace(FIRST, publication="vo-b"))) == "other_publication"
    assert refusal(signed(replace(FIRST, issuer="vo-b.example"))) == "other_publication"
    assert refusal(signed(FIRST, NEW_KEY)) == "unknown_key"


def test_a_circle_is_refused_with_the_way_it_goes() -> None:
    assert refusal(signed(FIRST), own="vo-a.example") == "mount_loop"
    with pytest.raises(BadDocument, match=r"vo-a\.example → project\.example → site\.example"):
        asked(signed(replace(FIRST, issuers=("project.example", "site.example"))))
    assert refusal(signed(replace(FIRST, issuers=("top.example",))), above=("top.example",)) == "mount_loop"


def test_who_publishes_nothing_is_in_no_circle_whatever_a_list_says() -> None:
    lies = signed(replace(FIRST, issuers=("project.example", "site.example")))
    assert refusal(lies) == "mount_loop"
    assert asked(lies, publishes=False).verdict is Verdict.NEW
    assert refusal(signed(FIRST), own="vo-a.example", publishes=False) == "mount_loop"
    assert refusal(lies, above=("project.example",), publishes=False) == "mount_loop"


def test_a_key_that_was_handed_over_is_trusted_from_then_on_and_the_old_one_no_more() -> None:
    data = sign_document(write_policy(SECOND, TREE, 0), NEW_KEY, [hand_over(KEY, NEW_KEY.public)])
    judged = asked(data, AFTER_FIRST)
    assert judged.trusted.fingerprint == NEW_KEY.public.fingerprint
    third = replace(SECOND, version=3, previous=judged.digest)
    assert refusal(signed(third, KEY), judged.trusted) == "unknown_key"


def test_nothing_is_trusted_of_a_document_that_was_refused() -> None:
    """What is known lies outside of what a document can write: a refusal returns nothing to keep."""
    before = replace(AFTER_FIRST)
    refusal(signed(replace(SECOND, previous="ab" * 32)), AFTER_FIRST)
    assert before == AFTER_FIRST
