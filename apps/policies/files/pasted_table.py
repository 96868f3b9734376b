"""A table from a spreadsheet or a CSV file, pasted into a draft: all of it becomes edits, or none of it does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from apps.accounts.actor import Actor
from apps.core.errors import FieldProblem, Invalid, TooLarge
from apps.policies.changesets.drafts import check
from apps.policies.formats import csv_table
from apps.policies.formats.registry import read_file
from apps.policies.models import ChangeSet
from apps.policies.operations.apply import MOST_OPERATIONS, Operation, Outcome
from apps.policies.operations.whole_trees import is_document
from apps.policies.tree.difference import difference
from apps.policies.tree.document_merge import adopt, refuse_new_names
from apps.policies.tree.stored import load_archived

MOST_CHARACTERS = 4_000_000
_COLUMNS = ("path", "shares", "kind")  # of a table without a head line
_LINE = re.compile(r"\bline (\d+)\b")


@dataclass(frozen=True)
class PastePlan:
    """What a table would add to a draft; `outcome` is the draft with it, None where it changes nothing."""

    operations: list[Operation]
    outcome: Outcome | None


def plan_paste(draft: ChangeSet, text: str, *, at: datetime, actor: Actor) -> PastePlan:
    """Entries by path or uid; what the table leaves out stays. Invalid names every wrong line at once."""
    if len(text) > MOST_CHARACTERS:
        raise TooLarge("That is more than can be pasted at once: import it as a file.")
    if is_document(draft):
        raise Invalid("This draft replaces the whole tree: import the file again with the change in it.", code="whole")
    headed, added = _with_head(text.replace("\r\n", "\n").replace("\r", "\n"))
    before = check(draft, draft.operations, actor, at)
    try:
        declared = read_file(csv_table.FORMAT, headed.encode())
        fitted = csv_table.FORMAT.fit(before.tree)
        tree = adopt(declared, before.tree, fitted=fitted, keep_missing=True, was_here=lambda uids: set())
        refuse_new_names(declared, before.tree, tree)
    except Invalid as error:
        raise _shifted(error, added) from None
    operations = difference(before.tree, tree, archived=lambda uid: load_archived(draft.policy, uid, draft.base_number))
    if not operations:
        return PastePlan([], None)
    if len(draft.operations) + len(operations) > MOST_OPERATIONS:
        raise TooLarge(f"A draft holds at most {MOST_OPERATIONS:,} edits: import the table as a file.")
    outcome = check(draft, [*draft.operations, *operations], actor, at)
    return PastePlan(outcome.operations[len(draft.operations) :], outcome)


def _with_head(text: str) -> tuple[str, int]:
    """A table that begins with a path has no head: paths, shares and kinds are what its columns mean."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    if not first.lstrip("\"' ").startswith("/"):
        return text, 0
    mark = max(",;\t", key=first.count)
    n = min(first.count(mark) + 1, len(_COLUMNS))
    return f"{mark.join(_COLUMNS[:n])}\n{text}", 1


def _shifted(error: Invalid, by: int) -> Invalid:
    """Lines as they were pasted."""
    if not by:
        return error

    def renumbered(text: str) -> str:
        return _LINE.sub(lambda match: f"line {max(int(match[1]) - by, 1)}", text)

    fields = [FieldProblem(renumbered(each.where), renumbered(each.message)) for each in error.fields]
    return Invalid(renumbered(error.message), code=error.code, fields=fields)
