"""Which documents are accepted: newer, of the followed lineage and authority, valid, and never one's own."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from apps.core.signing import BadDocument, SigningKey, digest_of, sign_document, sign_successor
from apps.federation.documents.trust import AcceptedDocument, TrustedState, Verdict, check_document
from apps.federation.documents.wire import Head, PolicyLimits, write_policy
from apps.policies.tree.columns import Node
from apps.policies.tree.working_tree import columns_of
from tests.instants import AT

KEY, NEW_KEY = SigningKey(bytes(32)), SigningKey(bytes(range(32)))
TREE = columns_of([Node(UUID(int=1), None, "VO-A"), Node(UUID(int=2), UUID(int=1), "P", shares=2.0)])
FIRST = Head("vo-a.example", "vo-a", 1, None, AT, AT + timedelta(days=7))
UNKNOWN = TrustedState("vo-a.example", "vo-a", KEY.public.fingerprint)


def signed(head: Head, key: SigningKey = KEY) -> bytes:
    return sign_document(write_policy(head, TREE, 0), key)


def digest(head: Head) -> str:
    return digest_of(write_policy(head, TREE, 0))


def asked(
    data: bytes,
    trusted: TrustedState = UNKNOWN,
    *,
    own: str = "site.example",
    above: tuple[str, ...] = (),
    publishes: bool = True,
    at: datetime = AT,
) -> AcceptedDocument:
    return check_document(
        data, trusted, own_name=own, publishes=publishes, names_above=above, limits=PolicyLimits(), at=at
    )


SECOND = replace(FIRST, version=2, previous=digest(FIRST))
AFTER_FIRST = replace(UNKNOWN, version=1, digest=digest(FIRST))


def refusal(data: bytes, trusted: TrustedState = UNKNOWN, **more: object) -> str:
    with pytest.raises(BadDocument) as refused:
        asked(data, trusted, **more)  # type: ignore[arg-type]
    return refused.value.code


def test_the_first_document_is_accepted_at_any_version() -> None:
    assert asked(signed(FIRST)).trusted == AFTER_FIRST
    late = replace(SECOND, version=41)
    assert asked(signed(late)).verdict is Verdict.NEW


def test_a_repeated_document_is_unchanged_and_the_next_version_is_new() -> None:
    assert asked(signed(FIRST), AFTER_FIRST).verdict is Verdict.SAME
    judged = asked(signed(SECOND), AFTER_FIRST)
    assert (judged.verdict, judged.trusted.version) == (Verdict.NEW, 2)
    assert judged.document.tree.name == ["VO-A", "P"]


def test_skipped_versions_are_not_a_fork() -> None:
    fourth = replace(FIRST, version=4, previous="ab" * 32)
    assert asked(signed(fourth), AFTER_FIRST).verdict is Verdict.NEW


@pytest.mark.fault("F23")
def test_old_duplicate_and_forked_versions_are_rejected() -> None:
    after_second = replace(AFTER_FIRST, version=2, digest=digest(SECOND))
    assert refusal(signed(FIRST), after_second) == "older_version"
    other = replace(SECOND, expires_at=AT + timedelta(days=9))
    assert refusal(signed(other), after_second) == "forked"
    assert refusal(signed(replace(SECOND, previous="ab" * 32)), AFTER_FIRST) == "forked"


def test_documents_from_the_future_and_expired_ones_are_rejected() -> None:
    assert refusal(signed(FIRST), at=AT - timedelta(hours=1)) == "issued_ahead"
    assert asked(signed(FIRST), at=AT - timedelta(minutes=4)).verdict is Verdict.NEW
    assert refusal(signed(FIRST), at=AT + timedelta(days=7)) == "expired"


def test_validly_signed_documents_of_other_issuers_are_rejected() -> None:
    assert refusal(signed(replace(FIRST, publication="vo-b"))) == "other_publication"
    assert refusal(signed(replace(FIRST, issuer="vo-b.example"))) == "other_publication"
    assert refusal(signed(FIRST, NEW_KEY)) == "unknown_key"


@pytest.mark.fault("F24")
def test_a_mount_cycle_is_rejected_with_its_path() -> None:
    assert refusal(signed(FIRST), own="vo-a.example") == "mount_loop"
    with pytest.raises(BadDocument, match=r"vo-a\.example → project\.example → site\.example"):
        asked(signed(replace(FIRST, issuers=("project.example", "site.example"))))
    assert refusal(signed(replace(FIRST, issuers=("top.example",))), above=("top.example",)) == "mount_loop"


def test_a_site_that_publishes_nothing_is_never_part_of_a_cycle() -> None:
    lies = signed(replace(FIRST, issuers=("project.example", "site.example")))
    assert refusal(lies) == "mount_loop"
    assert asked(lies, publishes=False).verdict is Verdict.NEW
    assert refusal(signed(FIRST), own="vo-a.example", publishes=False) == "mount_loop"
    assert refusal(lies, above=("project.example",), publishes=False) == "mount_loop"


def test_after_a_key_handover_only_the_new_key_is_trusted() -> None:
    data = sign_document(write_policy(SECOND, TREE, 0), NEW_KEY, [sign_successor(KEY, NEW_KEY.public)])
    judged = asked(data, AFTER_FIRST)
    assert judged.trusted.fingerprint == NEW_KEY.public.fingerprint
    third = replace(SECOND, version=3, previous=judged.digest)
    assert refusal(signed(third, KEY), judged.trusted) == "unknown_key"


def test_a_rejected_document_changes_no_trusted_state() -> None:
    """The known state is outside of what a document can write: a refusal returns nothing to keep."""
    before = replace(AFTER_FIRST)
    refusal(signed(replace(SECOND, previous="ab" * 32)), AFTER_FIRST)
    assert before == AFTER_FIRST
