"""Published subtrees and their series of signed documents.

Names that readers could confuse are rejected.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

import zstandard
from django.conf import settings
from django.db import transaction

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.core.errors import Conflict, FieldProblem, Invalid, NotAllowed, NotFound, Unavailable
from apps.core.signing import digest_of, sign_document
from apps.federation import own_publishers
from apps.federation.documents.site_keys import OwnKeys, load_keys
from apps.federation.documents.wire import MOST_ISSUERS, Head, write_policy
from apps.federation.models import Mount, Publication, PublishedDocument, SiteKey, UsageFeed
from apps.policies.access.authority import Lineages
from apps.policies.access.scope import administers_within_bounds
from apps.policies.changesets.checks import confusable_form
from apps.policies.models import Entry, Policy
from apps.policies.selectors import get_policy
from apps.policies.tree.difference import mount_of
from apps.policies.tree.stored import TreeColumns, load_tree
from apps.policies.tree.terms import clean_authority

_KEPT = 100  # versions of a publication
LEAST_EXPIRY_S, MOST_EXPIRY_S = 3_600, 366 * 86_400
SUFFIX = ".fairshare"


def refuse_name(name: str) -> None:
    """Reject an invalid name of a publication or feed. Raises Invalid, with the character and the remedy."""
    try:
        clean_authority(name)
    except ValueError as error:
        raise Invalid(f"The name {error}.", fields=[FieldProblem("name", str(error))]) from error


def refuse_confusable_name(name: str, others: Iterable[str]) -> None:
    """Reject a name that resembles another one, as vo-1 and vo-l do. Raises Conflict."""
    alike = next((other for other in others if other != name and confusable_form(other) == confusable_form(name)), None)
    if alike is not None:
        message = f"looks like {alike!r}, which is published already: choose one that can't be taken for it"
        raise Conflict(f"The name {name!r} {message}.", code="name_taken", fields=[FieldProblem("name", message)])


def entry_to_publish(
    table: type[Publication | UsageFeed], what: str, policy_slug: str, entry: str, name: str, actor: Actor
) -> tuple[Policy, UUID]:
    """Policy and uid of an entry (a path) whose publication or feed may have this name.

    Raises:
        NotFound, Conflict: the entry, or the name is that of another one or resembles it.
    """
    policy = get_policy(slug=policy_slug, actor=actor, scope="federation")
    tree = load_tree(policy)
    i = tree.index_of_path(entry)
    if i is None or not is_within_bounds(policy, tree.uuid(i), actor):
        raise NotFound(f"There is no entry {entry[:200]!r} in {policy.slug}.")
    place = {"policy": policy, "entry_uid": tree.uuid(i)}
    if table.all_objects.filter(name=name).exclude(**place).exists():
        raise Conflict(f"The name {name!r} is that of another {what}: choose one of its own.", code="name_taken")
    refuse_confusable_name(name, table.objects.exclude(**place).values_list("name", flat=True))
    return policy, tree.uuid(i)


@dataclass(frozen=True)
class SignedVersion:
    """One document of a publication."""

    document: PublishedDocument

    @property
    def data(self) -> bytes:
        """The signed document as it is sent."""
        return zstandard.ZstdDecompressor().decompress(bytes(self.document.data))


def make_publication(
    *,
    policy_slug: str,
    entry: str,
    name: str,
    expires_after_s: int = 7 * 86_400,
    is_open: bool = False,
    at: datetime,
    actor: Actor,
) -> Publication:
    """Publish an entry (a path) and its subtree under a name. Its first document is signed at once.

    Raises:
        NotAllowed: not an administrator.
        Invalid, NotFound, Conflict: the name, the entry, or the name exists already.
    """
    require_publisher(actor)
    refuse_name(name)
    if not LEAST_EXPIRY_S <= expires_after_s <= MOST_EXPIRY_S:
        message = f"must be from {LEAST_EXPIRY_S} to {MOST_EXPIRY_S} seconds"
        raise Invalid(f"expires_after_s {message}.", fields=[FieldProblem("expires_after_s", message)])
    policy, uid = entry_to_publish(Publication, "publication", policy_slug, entry, name, actor)
    values = {"name": name, "expires_after_s": expires_after_s, "is_open": is_open}
    with transaction.atomic():
        publication, is_new = Publication.objects.update_or_create(
            policy=policy, entry_uid=uid, defaults=values, create_defaults={**values, "made_at": at}
        )
        verb = "federation.published" if is_new else "federation.publication_changed"
        audit.record(actor=actor, verb=verb, at=at, policy_slug=policy.slug, subject=name, details={"entry": entry})
    if given_name():
        current_document(publication, at=at)
    return publication


def stored_document(publication: Publication) -> SignedVersion:
    """The newest signed document as it was built, which is what readers get.

    Raises:
        NotFound: its entry has left the tree (code entry_gone).
        Invalid: the site has no name (code no_issuer).
        Unavailable: none is built yet (code not_built); retry.
    """
    own_name()
    require_entry(publication)
    last = _last(publication)
    if last is None:
        message = f"The document of {publication.name} is being signed. Ask again in a moment."
        raise Unavailable(message, code="not_built")
    return SignedVersion(last)


def require_entry(published: Publication | UsageFeed) -> None:
    """Raises NotFound (code entry_gone) if the entry of a publication or feed has left the tree."""
    policy = published.policy
    if not Entry.objects.filter(policy=policy, uid=published.entry_uid, until__isnull=True).exists():
        raise NotFound(f"The entry of {published.name} is no longer in {policy.slug}.", code="entry_gone")


def is_current(publication: Publication, at: datetime) -> bool:
    """Whether its newest document has the present content and less than half of its lifetime is over.

    Also if its entry has left the tree, so that there is nothing to sign. While the inputs are unchanged, no tree is
    loaded.
    """
    last = _last(publication)
    if last is not None and last.basis == _basis(publication) and _may_stay(publication, last, at):
        return True
    entry = Entry.objects.filter(policy=publication.policy, uid=publication.entry_uid, until__isnull=True)
    return not entry.exists()


def current_document(publication: Publication, *, at: datetime) -> SignedVersion:
    """Return the current document; sign a new version if the tree changed, or after half of the last one's lifetime.

    While the inputs are unchanged, no document is built and no tree is loaded.

    Raises:
        NotFound: its entry has left the tree.
        Invalid: the site has no name (code no_issuer).
    """
    row = Publication.objects.select_related("policy").get(pk=publication.pk)
    last = _last(row)
    if last is not None and last.basis == _basis(row) and _may_stay(row, last, at):
        return SignedVersion(last)
    return _sign_new_version(publication, at)


@transaction.atomic
def _sign_new_version(publication: Publication, at: datetime) -> SignedVersion:
    row = (
        Publication.objects.select_for_update(of=("self",), no_key=True).select_related("policy").get(pk=publication.pk)
    )
    keys = load_keys(at=at)
    last, basis = _last(row), _basis(row)
    tree = load_tree(row.policy)
    i = tree.index_of_uid(row.entry_uid)
    if i is None:
        raise NotFound(f"The entry of {row.name} is no longer in {row.policy.slug}.", code="entry_gone")
    document = write_policy(_head(row, last, issuers_below(row.policy, tree, i), at), tree, i)
    content = digest_of({name: document[name] for name in ("issuer", "publication", "issuers", "root")})
    if last is not None and _still_holds(last, content, keys, at):
        last.basis, last.revision_number = basis, tree.number
        last.save(update_fields=["basis", "revision_number"])
        return SignedVersion(last)
    n_entries = sum(len(level) for level in tree.subtree(i))
    made = PublishedDocument.objects.create(
        publication=row,
        version=document["version"],
        digest=digest_of(document),
        content_digest=content,
        revision_number=tree.number,
        n_entries=n_entries,
        issued_at=at,
        expires_at=at + timedelta(seconds=row.expires_after_s),
        key_fingerprint=keys.key.public.fingerprint,
        basis=basis,
        data=zstandard.ZstdCompressor(level=3).compress(sign_document(document, keys.key, keys.chain)),
    )
    PublishedDocument.objects.filter(publication=row, version__lte=made.version - _KEPT).delete()
    return SignedVersion(made)


def issuers_below(policy: Policy, tree: TreeColumns, entry: int) -> tuple[str, ...]:
    """Authorities in the published document: those of mounts at, around or below the entry, and those that they mount.

    The mounting site uses them to detect loops of any length.
    """
    below = tree.subtree_mask(entry)
    mounted = [i for i in tree.mount if below[i]]
    around = mount_of(tree, entry)
    issuers = {tree.mount[i].issuer for i in mounted} | ({tree.mount[around].issuer} if around is not None else set())
    uids = [tree.uuid(i) for i in mounted]
    nested = Mount.objects.filter(policy=policy, entry_uid__in=uids).order_by("pk").values_list("issuers", flat=True)
    for names in sorted(nested, key=len):  # a mount that would exceed the maximum is omitted
        if len(issuers.union(names)) <= MOST_ISSUERS:
            issuers.update(names)
    return tuple(sorted(issuers))


@transaction.atomic
def drop_publication(*, name: str, reason: str, at: datetime, actor: Actor) -> None:
    """Stop publishing and delete all versions. Sites that mounted it keep theirs, which grows stale.

    Raises:
        NotAllowed, NotFound.
    """
    require_publisher(actor)
    named = Publication.all_objects.select_for_update(of=("self",), no_key=True).select_related("policy")
    publication = None if "\0" in name else named.filter(name=name).first()
    if publication is None or not is_within_bounds(publication.policy, publication.entry_uid, actor):
        raise NotFound(f"There is no publication {name[:128]!r}.")
    audit.record(
        actor=actor,
        verb="federation.unpublished",
        at=at,
        policy_slug=publication.policy.slug,
        entry_uid=publication.entry_uid,
        subject=name,
        reason=reason,
    )
    publication.delete()


@dataclass(frozen=True)
class WrittenFile:
    """The file of an open publication. is_new: it wasn't there, or had another version."""

    path: Path
    document: PublishedDocument
    is_new: bool


@dataclass(frozen=True)
class WrittenFolder:
    """left_out: closed publications. removed: files of closed ones. unknown: files of no publication, which stay."""

    files: Sequence[WrittenFile]
    left_out: Sequence[Publication]
    removed: Sequence[Path]
    unknown: Sequence[Path]


def write_documents(folder: Path, *, at: datetime, actor: Actor) -> WrittenFolder:
    """Write each open document as a file for any web server, atomically.

    A web server asks for no token, so a closed publication, whose names are for its readers alone, has no file.
    """
    publications = list_publications(actor=actor)
    folder.mkdir(parents=True, exist_ok=True)
    files, removed = [], []
    for publication in publications:
        if publication.is_open:
            issued = current_document(publication, at=at)
            path = _file_of(folder, publication)
            is_new = not path.is_file() or path.read_bytes() != issued.data
            if is_new:
                _replace(path, issued.data)
            files.append(WrittenFile(path, issued.document, is_new))
    for publication in Publication.all_objects.exclude(pk__in=[row.pk for row in publications if row.is_open]):
        path = _file_of(folder, publication)
        if path.is_file():
            path.unlink()
            removed.append(path)
    unknown = sorted(set(folder.glob(f"*{SUFFIX}")).difference(file.path for file in files))
    return WrittenFolder(files, [row for row in publications if not row.is_open], removed, unknown)


def _file_of(folder: Path, publication: Publication) -> Path:
    return folder / f"{publication.name}{SUFFIX}"


def list_publications(*, actor: Actor) -> list[Publication]:
    """Those within the bounds of the actor's token, by name."""
    require_publisher(actor)
    rows = Publication.objects.select_related("policy").order_by("name")
    return [row for row in rows if is_within_bounds(row.policy, row.entry_uid, actor)]


def own_name() -> str:
    """Raises Invalid if the site has no name for other sites."""
    try:
        return clean_authority(given_name())
    except ValueError as error:
        message = f"Set FAIRSHARE_ISSUER to the name under which others know this authority: it {error}."
        raise Invalid(message, code="no_issuer", fields=[FieldProblem("FAIRSHARE_ISSUER", str(error))]) from error


def given_name() -> str:
    """FAIRSHARE_ISSUER; without it, the name that this process has registered; else ""."""
    issuer: str = settings.FAIRSHARE_ISSUER
    return issuer or own_publishers.name_without_setting()


def _head(row: Publication, last: PublishedDocument | None, issuers: tuple[str, ...], at: datetime) -> Head:
    return Head(
        issuer=own_name(),
        publication=row.name,
        version=max(last.version + 1 if last else 1, row.least_version),
        previous=last.digest if last else None,
        issued_at=at,
        expires_at=at + timedelta(seconds=row.expires_after_s),
        issuers=issuers,
    )


def _last(row: Publication) -> PublishedDocument | None:
    """The newest version without its bytes, which the caller may already have."""
    return PublishedDocument.objects.filter(publication=row).order_by("-version").defer("data").first()


def _basis(row: Publication) -> str:
    """Digest of all inputs of a document besides the time, cheap enough to compare on each fetch."""
    mounts = Mount.objects.filter(policy=row.policy).order_by("pk").values_list("entry_uid", "issuers")
    key = SiteKey.objects.order_by("-number").values_list("fingerprint", flat=True).first()
    head = [own_name(), row.name, str(row.entry_uid), row.policy_id, row.policy.head_number, key or ""]
    return digest_of({"publication": head, "mounts": [[str(uid), issuers] for uid, issuers in mounts]})


def _still_holds(last: PublishedDocument, content: str, keys: OwnKeys, at: datetime) -> bool:
    same_key = last.key_fingerprint == keys.key.public.fingerprint
    return last.content_digest == content and same_key and _may_stay(last.publication, last, at)


def _may_stay(row: Publication, last: PublishedDocument, at: datetime) -> bool:
    """Whether the last version is in the first half of its lifetime, and not older than a restore."""
    half_of_life = (last.expires_at - last.issued_at) / 2
    return last.version >= row.least_version and last.issued_at <= at < last.issued_at + half_of_life


def _replace(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)  # readable by the web server
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def require_publisher(actor: Actor) -> None:
    """Require an administrator; `is_within_bounds` asks what is within the bounds of a token."""
    if not administers_within_bounds(actor, Token.Scope.ADMIN):
        raise NotAllowed("Only administrators decide what this site publishes.")


def is_within_bounds(policy: Policy, entry_uid: UUID, actor: Actor) -> bool:
    """Whether the bounds of the actor's token include the entry; of an archived one, its last parents decide."""
    if not actor.reaches_policy(policy.slug):
        return False
    return actor.top_uid is None or actor.reaches_entry(Lineages(policy, load_tree(policy)).of(entry_uid))
