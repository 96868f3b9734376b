"""Export a revision in any format, and store the file of the last import for exports that update such a file.

A stored file is not part of the policy and not versioned with it. It becomes active when the change set of its import
is published, or at once if the import changes nothing.

Also computes the shares to set in a scheduler, by (account, user) for Slurm, or by (share tree path, "") for Grid
Engine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from io import BytesIO
from typing import Any, NamedTuple

import zstandard
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce

from apps.accounts.actor import Actor
from apps.accounts.audit_log import record
from apps.core.errors import FieldProblem, Invalid, NotAllowed
from apps.policies.access.scope import Rights, administers_policies, visible_entries
from apps.policies.files.parsed_document import ParsedDocument
from apps.policies.files.sections import section_values
from apps.policies.formats import gridengine
from apps.policies.formats.base import Difference, Format, LastImport
from apps.policies.formats.decoding import text_of
from apps.policies.formats.registry import FORMATS, dropped, get_format, write_file
from apps.policies.formats.sacctmgr_against import Compared, associations_of, fit_to
from apps.policies.formats.sacctmgr_dump import Dump, Line
from apps.policies.formats.slurm_tree import ROOT, Associations, slurm_shares
from apps.policies.formats.whole_shares import plain_word
from apps.policies.models import ChangeSet, Grant, ImportedFile, Policy
from apps.policies.selectors import get_policy, get_revision
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.slurm_associations import association_name
from apps.policies.tree.stored import load_tree

# Longest file that is stored; of longer ones, only the cluster's name is.
LONGEST_STORED_FILE = 32 * 2**20
_READ, _WRITE = "policies:read", "policies:write"
_LONGEST_CLUSTER = 128


def imported_cluster(policy: Policy) -> str:
    """Name of the cluster of the active import file; "" if there is no file, or it names none."""
    return _active(policy).values_list("cluster", flat=True).first() or ""


def last_import_of(policy: Policy, tree: TreeColumns, *, at: datetime, actor: Actor) -> LastImport | None:
    """Return the active import file; its text only if the actor may publish the whole policy."""
    row = _active(policy).first()
    if row is None:
        return None
    if not row.text or not _may_publish_all(policy, tree, actor, at, _READ):
        return LastImport(row.cluster)
    text = decompress_text(bytes(row.text))
    number = row.number if row.change_set is None else row.change_set.revision.number
    return LastImport(row.cluster, text, load_tree(policy, number))


def store_import_file(
    policy: Policy, left: LastImport, tree: TreeColumns, *, change_set: ChangeSet | None, at: datetime, actor: Actor
) -> bool:
    """Store the file with the change set of its import; with None, it is active at once. Returns whether it is stored.

    Requires the right to publish the whole policy: users who load an export into Slurm trust the file's contents. tree:
    the head's tree.
    """
    if not _may_publish_all(policy, tree, actor, at, _WRITE):
        return False
    text = left.text if len(left.text) <= LONGEST_STORED_FILE else ""
    digest = hashlib.sha256(text.encode()).hexdigest()
    last = _active(policy).first()
    if last is not None and (last.cluster, last.digest) == (left.cluster, digest) and change_set is None:
        return True
    with transaction.atomic():
        ImportedFile.objects.create(
            policy=policy,
            change_set=change_set,
            number=policy.head_number,
            cluster=left.cluster,
            text=compress_text(text) or b"",
            digest=digest,
            created_at=at,
        )
        details = {"cluster": left.cluster, "n_bytes": len(text.encode()), "sha256": digest}
        if change_set is not None:
            details["change_set"] = change_set.pk
        event = partial(record, actor=actor, at=at, policy_slug=policy.slug, details=details)
        event(verb="policy.file_kept", subject=left.cluster or "a file")
        active = list(_active(policy).values_list("pk", flat=True))
        withdrawn = Q(change_set__state=ChangeSet.State.WITHDRAWN)
        ImportedFile.objects.filter(Q(pk__in=active[1:]) | withdrawn, policy=policy).delete()
    return True


def compress_text(text: str) -> bytes | None:
    """Compress the text; return None if it is empty or too long to store."""
    return zstandard.ZstdCompressor(level=3).compress(text.encode()) if 0 < len(text) <= LONGEST_STORED_FILE else None


def decompress_text(packed_text: bytes) -> str:
    return zstandard.ZstdDecompressor().decompress(packed_text, max_output_size=4 * LONGEST_STORED_FILE).decode()


def _active(policy: Policy) -> QuerySet[ImportedFile]:
    """Query active files, newest first, by the revision since which each is active."""
    is_active = Q(change_set=None) | Q(change_set__state=ChangeSet.State.PUBLISHED)
    since = Coalesce("change_set__revision__number", F("number"))
    return ImportedFile.objects.filter(is_active, policy=policy).order_by(since.desc(), "-pk")


def _may_publish_all(policy: Policy, tree: TreeColumns, actor: Actor, at: datetime, scope: str) -> bool:
    return administers_policies(actor, scope) or tree.uuid(0) in Rights(policy, actor, at).at(Grant.Verb.PUBLISH)


@dataclass(frozen=True)
class Export:
    """A revision to be written in one format. against: a file with the scheduler's current state."""

    format: Format
    tree: TreeColumns
    settings: PolicySettings
    against: str | None = None
    # The stored file of the last import.
    remembered: LastImport | None = None
    # Lists of plug-ins by key, of the head only.
    sections: Mapping[str, Any] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        return f"{self.tree.policy_slug}-{self.tree.number}{self.format.suffix}"

    @property
    def tag(self) -> str:
        """HTTP entity tag of the exported file."""
        left = self.remembered
        what = "" if left is None else f"-{hashlib.sha256(f'{left.cluster} {left.text}'.encode()).hexdigest()[:12]}"
        if self.sections:
            what += f"-{hashlib.sha256(json.dumps(self.sections).encode()).hexdigest()[:12]}"
        return f"{self.tree.number}-{self.format.name}{what}"

    @cached_property
    def dropped(self) -> list[str]:
        """Descriptions of values that the format can't hold: which, of how many entries, and the first of them."""
        return dropped(self.format, self.tree)

    @cached_property
    def difference(self) -> Difference | None:
        """The difference to the current state in `against`; None if there is none or the format can't compare."""
        if self.against is None or self.format.against is None:
            return None
        difference = self.format.against(self.tree, self.against)
        cluster = "" if self.remembered is None else self.remembered.cluster
        if cluster and cluster != difference.cluster:
            raise Invalid(
                f"The dump is of the cluster {difference.cluster}, and the policy of {cluster}: "
                f"send the dump of {cluster}, or name the cluster {difference.cluster}.",
                code="other_cluster",
                fields=[FieldProblem("cluster", f"is {difference.cluster} in the dump")],
            )
        return difference

    @property
    def lacks_cluster(self) -> bool:
        """Whether the cluster must be named first: no import named it, and the file would change all clusters."""
        is_known = self.remembered is not None and bool(self.remembered.cluster)
        return self.format.needs_cluster and self.against is None and not is_known

    def pieces(self) -> Iterator[str]:
        if self.difference is not None:
            return self.difference.pieces()
        if self.lacks_cluster:
            raise Invalid(
                f"No cluster is known for {self.tree.policy_slug}: name it (--cluster NAME, in REST cluster=NAME). "
                "Without a name Slurm would change all clusters of its database.",
                code="no_cluster",
                fields=[FieldProblem("cluster", "is not known from an import: name it as Slurm does")],
            )
        if self.remembered is not None and self.format.write_remembered is not None:
            return self.format.write_remembered(self.tree, self.remembered)
        pieces = write_file(self.format, self.tree, self.settings)
        if self.format.with_sections is None or not self.sections:
            return pieces
        return self.format.with_sections(pieces, self.sections)

    def text(self) -> str:
        return self.content().decode()

    def content(self) -> bytes:
        """In UTF-8, encoded piece by piece: Python's other threads would wait while 100 MB are encoded at once."""
        content = BytesIO()
        content.writelines(map(str.encode, self.pieces()))
        return content.getvalue()


def export_policy(
    *,
    policy_slug: str,
    format: str,
    moment: int | datetime | None = None,
    against: bytes | None = None,
    cluster: str = "",
    at: datetime,
    actor: Actor,
) -> Export:
    """Export a revision. The actor must see the whole tree, because importing a partial file would archive entries.

    moment: revision number or instant; None for the head. against: a file with the current state, of which everything
    except shares is preserved. cluster: its name in the file, by default that of the last import.
    """
    file_format = get_format(format)
    policy = get_policy(slug=policy_slug, actor=actor)
    revision = get_revision(policy=policy, at=moment)
    tree = load_tree(policy, revision.number)
    if not visible_entries(policy=policy, tree=tree, actor=actor, at=at).all_visible:
        raise NotAllowed("You see only a part of this policy: request the tree of that part.", code="partial_view")
    settings = PolicySettings.from_stored(revision.settings)
    return make_export(
        policy, file_format, tree, settings, options=ExportOptions(against=against, cluster=cluster), at=at, actor=actor
    )


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """against: a file of the current state, of which everything except shares is preserved. cluster: "" is the default.

    The default is the cluster of the last import.
    """

    against: bytes | None = None
    cluster: str = ""


def make_export(
    policy: Policy,
    format: Format,
    tree: TreeColumns,
    settings: PolicySettings,
    *,
    options: ExportOptions,
    at: datetime,
    actor: Actor,
) -> Export:
    """Export a tree, which the caller has checked that the actor sees completely."""
    if options.against is not None and format.against is None:
        can = ", ".join(each.name for each in FORMATS.values() if each.against)
        raise Invalid(
            f"{format.name} can't be compared with a file; {can} can.",
            fields=[FieldProblem("against", f"is supported by {can}")],
        )
    if format.write_remembered is None:
        if options.cluster:
            raise Invalid(
                f"{format.name} contains no cluster name.",
                fields=[FieldProblem("cluster", "is not part of this format")],
            )
        is_head = format.with_sections is not None and tree.number == policy.head_number
        return Export(format, tree, settings, sections=section_values(policy, tree) if is_head else {})
    text = None if options.against is None else text_of(options.against)
    last = last_import_of(policy, tree, at=at, actor=actor)
    if options.cluster:
        last = replace(last or LastImport(), cluster=_cluster(options.cluster))
    return Export(format, tree, settings, text, last)


def _cluster(name: str) -> str:
    if plain_word(name) != name or not name.isascii() or len(name) > _LONGEST_CLUSTER:
        message = "may contain only letters, digits and ._@+-, as in Slurm"
        raise Invalid(f"cluster {name[:60]!r}: a name {message}.", fields=[FieldProblem("cluster", message)])
    return name


class ListedAssociation(NamedTuple):
    """An association as listed by the scheduler. shares: a whole number or "parent". partition: "" for all."""

    group: str
    user: str
    partition: str
    parent: str
    shares: str


class WantedShares(NamedTuple):
    """Shares to set. fitted: the tree with names and whole shares as the scheduler stores them.

    shares: by (account, user), the value and the index of the entry.
    """

    fitted: TreeColumns
    shares: dict[tuple[str, str], tuple[str, int]]
    notes: tuple[str, ...]


def shares_for_slurm(tree: TreeColumns, cluster: str, listed: Iterable[ListedAssociation]) -> WantedShares:
    """Return the shares to set in Slurm, with notes as in a comparison with a dump."""
    dump = Dump(cluster, list(_dump_lines(listed)))
    compared = Compared(dump, tree, fit_to(tree, dump))
    wanted = {
        (key.account, association_name(key.user, key.partition)): (association.shares, association.row)
        for key, association in associations_of(compared.fitted).items()
    }
    return WantedShares(compared.fitted, wanted, compared.notes)


def document_of_slurm(cluster: str, listed: Sequence[ListedAssociation], tree: TreeColumns) -> ParsedDocument:
    """Return the tree of a cluster's associations as its dump would declare it. tree: the policy's.

    A listing lacks Slurm's own user root; it counts as listed where the policy has it.

    Raises:
        Invalid: it isn't one tree, such as an account whose parent isn't listed.
    """
    associations = Associations()
    associations.cluster = cluster
    below: dict[str, list[ListedAssociation]] = {}
    for row in listed:
        if not row.user:
            below.setdefault(row.parent.lower() or ROOT, []).append(row)
    waiting = [ROOT]
    for parent in waiting:
        for row in below.pop(parent, ()):
            associations.account(row.group, parent, slurm_shares(row.shares), 0)
            waiting.append(row.group.lower())
    for row in (row for rows in below.values() for row in rows):
        associations.problem(row.group, f"its parent {row.parent!r:.140} isn't listed", 0)
    for row in listed:
        if row.user:
            associations.user(row.user, row.group, slurm_shares(row.shares), 0, row.partition)
    own = tree.child_named(0, ROOT)
    if own is not None and not tree.is_group[own]:
        associations.user(ROOT, ROOT, slurm_shares("1"), 0)
    return associations.declared()


def shares_for_gridengine(tree: TreeColumns, listed: Iterable[ListedAssociation]) -> WantedShares:
    fitted = gridengine.fit_to(tree, {row.group: row.shares for row in listed})
    wanted = {(path, ""): (shares, row) for path, shares, row in gridengine.nodes_of(fitted)}
    return WantedShares(fitted, wanted, ())


def _dump_lines(listed: Iterable[ListedAssociation]) -> Iterator[Line]:
    for row in listed:
        word, name = ("User", row.user) if row.user else ("Account", row.group)
        above = row.group if row.user else row.parent
        yield Line("", word, name, above, row.partition, slurm_shares(row.shares))
