"""The acceptance of other authorities' documents.

A document is accepted if it
is signed by the pinned key, newer than the last one, of the same lineage, valid now, and not part of a loop. The
trusted state changes only after all checks, and is stored where no document can write.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from apps.core.clock import SKEW
from apps.core.signing import BadDocument, open_document
from apps.federation.documents.wire import PolicyDocument, PolicyLimits, read_policy


class Verdict(StrEnum):
    """Whether a document is new or the one that is already accepted."""

    NEW = "new"
    SAME = "same"


@dataclass(frozen=True)
class TrustedState:
    """The trusted state of another authority.

    version 0: nothing accepted yet; digest: of the last accepted document.
    """

    issuer: str
    publication: str
    fingerprint: str
    version: int = 0
    digest: str = ""


@dataclass(frozen=True, eq=False)
class AcceptedDocument:
    """A document that may be applied; `trusted` is the trusted state afterwards, with a newer key if there is one."""

    verdict: Verdict
    document: PolicyDocument
    trusted: TrustedState
    digest: str


def check_document(
    data: bytes,
    trusted: TrustedState,
    *,
    own_name: str,
    publishes: bool,
    names_above: Collection[str],
    limits: PolicyLimits,
    at: datetime,
) -> AcceptedDocument:
    """Check a fetched document against the trusted state.

    own_name: this authority's. publishes: whether it publishes policies; if not, no other site can mount it, so a
    document that claims this is wrong, but must not be able to block other documents. names_above: authorities whose
    documents contain this mount.

    Raises:
        BadDocument: codes of signing, and older_version, forked, expired, issued_ahead, other_publication, mount_loop.
    """
    opened = open_document(data, trusted={trusted.fingerprint})
    document = read_policy(opened.document, limits)
    head = document.head
    document_name = f"{head.issuer}, {head.publication}"
    if (head.issuer, head.publication) != (trusted.issuer, trusted.publication):
        wanted = f"{trusted.issuer}, {trusted.publication}"
        raise _refused("other_publication", f"This is a document of {document_name}; what is mounted here is {wanted}.")
    if head.issued_at > at + SKEW:
        ahead_s = (head.issued_at - at).total_seconds()
        message = f"It was issued {ahead_s:.0f} s ahead of our clock: one of the two clocks is wrong."
        raise _refused("issued_ahead", message)
    if head.expires_at <= at:
        message = f"It expired at {head.expires_at:%Y-%m-%d %H:%M} UTC, and no newer one was published."
        raise _refused("expired", message)
    in_circles = {own_name, *names_above} if publishes else {*names_above}
    circle = (in_circles & {head.issuer, *head.issuers}) | ({own_name} & {head.issuer})
    if circle:
        way = " → ".join([*names_above, head.issuer, *sorted(head.issuers)])
        raise _refused("mount_loop", f"{sorted(circle)[0]} would be mounted in itself: {way}.")
    now = replace(trusted, fingerprint=opened.key.fingerprint, version=head.version, digest=opened.digest)
    return AcceptedDocument(_follows(trusted, document, opened.digest), document, now, opened.digest)


def _follows(trusted: TrustedState, document: PolicyDocument, digest: str) -> Verdict:
    """Check the version: versions only grow, and each names its predecessor.

    A gap is a missed version, which is accepted; a fork is rejected.
    """
    version = document.head.version
    if version == trusted.version and digest == trusted.digest:
        return Verdict.SAME
    if version < trusted.version:
        message = (
            f"This is version {version}, and version {trusted.version} was accepted before: this is an old document."
        )
        raise _refused("older_version", message)
    if version == trusted.version:
        message = (
            f"There are two different versions {version}: ask its site over a separate channel which one is right."
        )
        raise _refused("forked", message)
    if version == trusted.version + 1 and document.head.previous != (trusted.digest or None):
        message = (
            f"Version {version} doesn't follow the version {trusted.version}: its history was forked. "
            "Ask its site over a separate channel which one is right."
        )
        raise _refused("forked", message)
    return Verdict.NEW


def _refused(code: str, message: str) -> BadDocument:
    return BadDocument(message, code=code)
