"""Import a file as a change set against the current tree; the file changes only what it describes.

Where a file is followed, it changes which entries there are and where, and leaves published shares and settings alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any
from uuid import UUID

import numpy as np

from apps.accounts.actor import Actor
from apps.core.errors import FieldProblem, Invalid, NotAllowed, TooLarge
from apps.policies.access.scope import visible_entries
from apps.policies.changesets.change_sets import load_revision, require_reason_to_publish
from apps.policies.changesets.drafts import CheckedOperations, check_operations, write_operations
from apps.policies.changesets.outcomes import outcome_of
from apps.policies.files.exports import imported_cluster, store_import_file
from apps.policies.files.parsed_document import ParsedDocument
from apps.policies.files.sections import SectionImport, document_sections
from apps.policies.formats import csv_table
from apps.policies.formats.base import Format, LastImport
from apps.policies.formats.decoding import text_of
from apps.policies.formats.registry import get_format, read_file
from apps.policies.models import ChangeSet, Entry, Policy, Revision
from apps.policies.operations.apply import MOST_APPLIED_OPERATIONS, Operation
from apps.policies.operations.whole_trees import is_document
from apps.policies.publishing.direct import propose_tree, publish_tree
from apps.policies.records import NewChangeSet, NewTree
from apps.policies.selectors import get_change_set, get_policy
from apps.policies.services import make_change_set, publish_change_set
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.difference import CODES, Comparison, changed_entries, compare, new_uids, operations_between
from apps.policies.tree.document_merge import indexes_of, merge_document, refuse_new_names
from apps.policies.tree.following import follow_document
from apps.policies.tree.stored import archived_lookup, load_tree

LONGEST_IMPORTED_TEXT = 4_000_000
MOST_COMPARED_DRAFTS = 20  # open drafts of imports that are compared with what would be one more
# Columns of a table without a header line.
_COLUMNS = ("path", "shares", "kind")
_LINE = re.compile(r"\bline (\d+)\b")


@dataclass(frozen=True)
class PastePlan:
    """The operations that a pasted table adds to a draft.

    version: of the draft. before, after: the draft without and with them; after is None if nothing changes.
    """

    operations: list[Operation]
    version: int
    before: CheckedOperations
    after: CheckedOperations | None


def plan_paste(draft: ChangeSet, text: str, *, at: datetime, actor: Actor) -> PastePlan:
    """Plan the changes of a pasted table, which finds entries by path or uid; entries that it leaves out stay.

    Raises Invalid with all invalid lines.
    """
    if len(text) > LONGEST_IMPORTED_TEXT:
        raise TooLarge("That is more than can be pasted at once: import it as a file.")
    if is_document(draft):
        raise Invalid("This draft replaces the whole tree: import the file again with the change in it.", code="whole")
    headed, added = _with_head(text.replace("\r\n", "\n").replace("\r", "\n"))
    try:
        declared = read_file(csv_table.FORMAT, headed.encode())
        checked = check_operations(draft, draft.operations, actor, at)
        before = checked.outcome.tree
        fitted = csv_table.FORMAT.fit(before)
        tree = merge_document(declared, before, fitted=fitted, keep_missing=True, was_here=lambda uids: set())
        refuse_new_names(declared, before, tree)
    except Invalid as error:
        raise _with_pasted_lines(error, added) from None
    changed, _gone = changed_entries(before, tree)
    _require_room(len(draft.operations) + int(np.count_nonzero(changed)))  # each takes one edit or more
    archived = archived_lookup(draft.policy, draft.base_number, new_uids=new_uids(before, tree))
    operations = operations_between(before, tree, archived=archived)
    if not operations:
        return PastePlan([], draft.version, checked, None)
    _require_room(len(draft.operations) + len(operations))
    after = check_operations(draft, [*draft.operations, *operations], actor, at)
    return PastePlan(after.outcome.operations[len(draft.operations) :], draft.version, checked, after)


def paste_table(*, id: int, version: int, text: str, at: datetime, actor: Actor) -> PastePlan:
    """Add the changes of a pasted table to a draft: all of them, or none."""
    plan = plan_paste(get_change_set(id=id, actor=actor, at=at), text, at=at, actor=actor)
    if plan.after is not None:
        checked = plan.after if plan.version == version else None
        write_operations(id=id, version=version, operations=plan.operations, at=at, actor=actor, checked=checked)
    return plan


def _require_room(n_edits: int) -> None:
    if n_edits > MOST_APPLIED_OPERATIONS:
        raise TooLarge(f"A draft holds at most {MOST_APPLIED_OPERATIONS:,} edits: import the table as a file.")


def _with_head(text: str) -> tuple[str, int]:
    """Add a header (path, shares, kind) to a table that starts with a path; return the text and the lines added."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    if not first.lstrip("\"' ").startswith("/"):
        return text, 0
    mark = max(",;\t", key=first.count)
    n = min(first.count(mark) + 1, len(_COLUMNS))
    return f"{mark.join(_COLUMNS[:n])}\n{text}", 1


def _with_pasted_lines(error: Invalid, by: int) -> Invalid:
    """Return the error with line numbers of the pasted text."""
    if not by:
        return error

    def renumbered(text: str) -> str:
        return _LINE.sub(lambda match: f"line {max(int(match[1]) - by, 1)}", text)

    fields = [FieldProblem(renumbered(each.where), renumbered(each.message)) for each in error.fields]
    return Invalid(renumbered(error.message), code=error.code, fields=fields)


@dataclass(frozen=True)
class ImportPlan:
    """The changes that importing a file would make to the head.

    operations: None if there are more than a change set can hold; the change set then stores the whole tree. ignored:
    contents of the file that a policy doesn't store.
    """

    policy: Policy
    format: Format
    head: TreeColumns
    tree: TreeColumns
    head_settings: PolicySettings
    settings: PolicySettings
    changed_settings: tuple[str, ...]
    operations: list[Operation] | None
    comparison: Comparison
    ignored: tuple[str, ...]
    left: LastImport | None = None
    # Numbers of changes in lists of plug-ins, by key.
    sections: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return self.comparison.is_empty and not self.changed_settings and not any(self.sections.values())

    @property
    def in_words(self) -> str:
        """Numbers of changes, such as `added: 3, archived: 1; settings: window`."""
        words = ", ".join(f"{what}: {n:,}" for what, n in self.comparison.counts() if n)
        settings = f"settings: {', '.join(self.changed_settings)}" if self.changed_settings else ""
        sections = ", ".join(f"{key}: {n:,}" for key, n in self.sections.items() if n)
        return "; ".join(part for part in (words, settings, sections) if part)

    def to_json(self) -> dict[str, Any]:
        """Return the difference as in docs/policies-as-code.md: changed settings, and the first 200 entries."""
        before, after = self.head_settings.parts(), self.settings.parts()
        return {
            "policy": self.policy.slug,
            "base_revision": self.policy.head_number,
            "is_same": self.is_empty,
            "counts": {CODES[what]: n for what, n in self.comparison.counts()},
            "settings": [
                {"field": part, "before": before[part], "after": after[part]} for part in self.changed_settings
            ],
            "entries": [
                {
                    "path": each.path,
                    "changes": [CODES[what] for what in each.changes],
                    "target_before": each.before,
                    "target_after": each.after,
                }
                for each in self.comparison.entries
            ],
            "n_entries": self.comparison.n_entries,
            "ignored": list(self.ignored),
            "sections": dict(self.sections),
        }


@dataclass(frozen=True)
class PolicyImport:
    """A plan and its result: the change set and revision, or None if nothing was to be changed or published.

    was_open: the change set is a draft of before, which changes the same.
    """

    plan: ImportPlan
    change_set: ChangeSet | None = None
    revision: Revision | None = None
    was_open: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            **self.plan.to_json(),
            "change_set": None if self.change_set is None else self.change_set.pk,
            "revision": None if self.revision is None else self.revision.number,
        }


@dataclass(frozen=True, kw_only=True)
class FileImport:
    """A file to be imported into a policy.

    settings: parts of PolicySettings, which override those in the file. keep_missing: entries that the file leaves out
    stay instead of being archived. follow: published shares and settings stay, and moved entries are recognised.
    listed: what a scheduler lists, in place of content; no file is then remembered.
    """

    policy_slug: str
    format: str
    content: bytes = b""
    settings: Mapping[str, Any] | None = None
    keep_missing: bool = False
    follow: bool = False
    listed: ParsedDocument | None = None

    def read(self) -> ParsedDocument:
        return read_file(get_format(self.format), self.content) if self.listed is None else self.listed

    def left(self, declared: ParsedDocument) -> LastImport | None:
        """What later exports need of the file."""
        remembers = get_format(self.format).remembers
        return None if remembers is None or self.listed is not None else remembers(text_of(self.content), declared)


def plan_import(*, file: FileImport, at: datetime, actor: Actor) -> ImportPlan:
    """Read a file and compare it with the head.

    The actor must see the whole tree: entries that the file leaves out could be hidden from its author.
    """
    file_format = get_format(file.format)
    policy = get_policy(slug=file.policy_slug, actor=actor, scope="policies:write")
    head, present = load_revision(policy, policy.head_number)
    if not visible_entries(policy=policy, tree=head, actor=actor, at=at).all_visible:
        raise NotAllowed(
            "You see only a part of this policy, and a file is compared with the whole tree.", code="partial_view"
        )
    declared = file.read()
    tree, ignored = _merged(file, declared, policy, head)
    refuse_new_names(declared, head, tree)
    left = file.left(declared)
    if file.listed is not None or (left is not None and left.text):
        refuse_cut_off(head, tree)
    if file.follow:
        refuse_other_cluster(policy, declared.policy)
    wanted = present if file.follow else _settings({**declared.settings, **(file.settings or {})}, present)
    before, after = present.parts(), wanted.parts()
    changed = tuple(part for part in after if after[part] != before[part])
    sections = {
        key: document_sections()[key].operations(
            SectionImport(policy=policy, tree=tree, settings=wanted, values=values, at=at, actor=actor)
        )
        for key, values in ({} if file.follow else declared.sections).items()
    }
    operations = _operations(policy, head, tree, {part: after[part] for part in changed})
    n_of_sections = sum(map(len, sections.values()))
    if n_of_sections and (operations is None or len(operations) + n_of_sections > MOST_APPLIED_OPERATIONS):
        raise TooLarge(
            f"A change set holds at most {MOST_APPLIED_OPERATIONS:,} changes, and this one has {', '.join(sections)}, "
            "too: import them apart."
        )
    operations = operations if operations is None else [*operations, *chain.from_iterable(sections.values())]
    return ImportPlan(
        policy=policy,
        format=file_format,
        head=head,
        tree=tree,
        head_settings=present,
        settings=wanted,
        changed_settings=changed,
        operations=operations,
        comparison=compare(head, tree),
        ignored=ignored,
        left=left,
        sections={key: len(each) for key, each in sections.items()},
    )


def _merged(
    file: FileImport, declared: ParsedDocument, policy: Policy, head: TreeColumns
) -> tuple[TreeColumns, tuple[str, ...]]:
    """The tree that the file asks for, and its contents that a policy doesn't take."""
    fitted = get_format(file.format).fit(head)
    how: dict[str, Any] = {"fitted": fitted, "keep_missing": file.keep_missing}
    how["was_here"] = lambda uids: _known_uids(policy, uids)
    if not file.follow:
        return merge_document(declared, head, **how), declared.ignored
    tree, notes = follow_document(declared, head, **how)
    return tree, (*declared.ignored, *notes)


def refuse_other_cluster(policy: Policy, cluster: str) -> None:
    """Refuse to follow another cluster than that of the last import: it would archive what only the first one has."""
    last = imported_cluster(policy)
    if not last or not cluster or last.lower() == cluster.lower():
        return
    raise Invalid(
        f"This is of the cluster {cluster}, and the policy follows {last}: send what {last} has, or make a policy of "
        f"its own for {cluster}.",
        code="other_cluster",
        fields=[FieldProblem("cluster", f"is {cluster} here")],
    )


def import_policy(
    *, file: FileImport, publish: bool = False, reason: str = "", at: datetime, actor: Actor
) -> PolicyImport:
    """Create a draft of the file's changes; with `publish`, also publish it. If publishing is refused, the draft stays.

    More changes than a change set can hold are published as a whole tree, and leave no draft if that is refused.
    """
    if publish:
        reason = require_reason_to_publish(reason)
    plan = plan_import(file=file, at=at, actor=actor)
    if plan.is_empty:
        _store_file(plan, None, at, actor)
        return PolicyImport(plan)
    number, origin = plan.policy.head_number, ChangeSet.Origin.IMPORT
    if file.follow and not publish and (same := _open_draft(plan)) is not None:
        return PolicyImport(plan, same, was_open=True)
    if plan.operations is not None:
        change_set = make_change_set(
            policy_slug=file.policy_slug,
            new=NewChangeSet(base_revision=number, operations=plan.operations, reason=reason, origin=origin),
            at=at,
            actor=actor,
        )
    elif publish:
        revision = publish_tree(
            policy_slug=file.policy_slug,
            new=NewTree(tree=plan.tree, settings=plan.settings, base_revision=number, reason=reason, origin=origin),
            at=at,
            actor=actor,
        )
        _store_file(plan, revision.change_set, at, actor)
        return PolicyImport(plan, revision.change_set, revision)
    else:
        change_set = propose_tree(
            policy_slug=file.policy_slug,
            new=NewTree(tree=plan.tree, settings=plan.settings, base_revision=number, reason=reason, origin=origin),
            at=at,
            actor=actor,
        )
    _store_file(plan, change_set, at, actor)
    if not publish:
        return PolicyImport(plan, change_set)
    published = publish_change_set(id=change_set.pk, version=change_set.version, reason=reason, at=at, actor=actor)
    return PolicyImport(plan, change_set, published)


def _open_draft(plan: ImportPlan) -> ChangeSet | None:
    """An open change set of an import that changes the same, so that following again makes none beside it."""
    ended = (ChangeSet.State.PUBLISHED, ChangeSet.State.WITHDRAWN)
    imports = ChangeSet.objects.filter(policy=plan.policy, origin=ChangeSet.Origin.IMPORT)
    same_base = imports.filter(base_number=plan.policy.head_number).exclude(state__in=ended)
    wanted = _changes(plan.head, plan.tree)
    for change_set in same_base.order_by("-pk")[:MOST_COMPARED_DRAFTS]:
        if _changes(plan.head, outcome_of(change_set, plan.head).tree) == wanted:
            return change_set
    return None


def proposes_same(change_set: ChangeSet, plan: ImportPlan) -> bool:
    """Whether a change set, of whatever state and base, changes the same as a plan."""
    base = load_tree(plan.policy, change_set.base_number)
    return _changes(base, outcome_of(change_set, base).tree) == _changes(plan.head, plan.tree)


def _changes(head: TreeColumns, tree: TreeColumns) -> Comparison:
    return compare(head, tree, most=len(head) + len(tree))


def _store_file(plan: ImportPlan, change_set: ChangeSet | None, at: datetime, actor: Actor) -> None:
    if plan.left is not None:
        store_import_file(plan.policy, plan.left, plan.head, change_set=change_set, at=at, actor=actor)


def refuse_cut_off(head: TreeColumns, tree: TreeColumns) -> None:
    """Refuse a dump that seems cut off: it lacks most entries, and accounts in it have become empty."""
    stays = indexes_of(head.uid, tree)
    empty = (head.n_children > 0) & (stays >= 0) & (tree.n_children[np.maximum(stays, 0)] == 0)
    n = int((stays < 0).sum())
    if empty.any() and 2 * n > len(head):
        names = ", ".join(head.path(i) for i in np.flatnonzero(empty)[:3].tolist())
        raise Invalid(
            f"The file lacks {n:,} of {len(head):,} entries, and everything below {names}: it may be cut off. Write "
            "the dump again; if Slurm has no more, archive the entries first, or keep entries that the file lacks.",
            code="half_file",
        )


def compare_change_set(*, id: int, at: datetime, actor: Actor) -> tuple[ChangeSet, Comparison]:
    """Return a change set and its comparison with its base; the actor must see the whole tree."""
    change_set = get_change_set(id=id, actor=actor, at=at)
    base = load_tree(change_set.policy, change_set.base_number)
    if not visible_entries(policy=change_set.policy, tree=base, actor=actor, at=at).all_visible:
        raise NotAllowed("You see only a part of this policy.", code="partial_view")
    return change_set, compare(base, outcome_of(change_set, base).tree)


def _operations(
    policy: Policy, head: TreeColumns, tree: TreeColumns, settings: dict[str, object]
) -> list[Operation] | None:
    changed, _ = changed_entries(head, tree)
    if int(np.count_nonzero(changed)) > MOST_APPLIED_OPERATIONS:
        return None
    operations = operations_between(head, tree, archived=archived_lookup(policy, new_uids=new_uids(head, tree)))
    if settings:
        operations.append({"op": "set_policy", "settings": settings})
    return None if len(operations) > MOST_APPLIED_OPERATIONS else operations


def _settings(values: Mapping[str, Any], present: PolicySettings) -> PolicySettings:
    if not values:
        return present
    try:
        return PolicySettings.from_json(values, base=present)
    except Invalid as error:
        fields = [FieldProblem(problem.where, problem.message) for problem in error.fields]
        raise Invalid(error.message, code="bad_document", fields=fields) from None


def _known_uids(policy: Policy, uids: Sequence[UUID]) -> set[UUID]:
    known: set[UUID] = set()
    for start in range(0, len(uids), 10_000):
        some = Entry.objects.filter(policy=policy, uid__in=uids[start : start + 10_000])
        known |= set(some.values_list("uid", flat=True))
    return known
