"""Reads of priorities for pages and REST, each for one actor."""

from __future__ import annotations

from apps.policies.selectors import EntryChange
from apps.priorities.moments import Moment
from apps.priorities.selectors.freshness import Freshness, InputAge, freshness
from apps.priorities.selectors.history import EntryHistory, HistoryLine, get_entry_history
from apps.priorities.selectors.overview import Overview, Publish
from apps.priorities.selectors.revision_differences import RevisionDiff, diff_revisions
from apps.priorities.selectors.rows import EntryRow, PolicyView, open_view
from apps.priorities.selectors.tree import MoreRow, TreePage, get_tree_page
from apps.priorities.selectors.unmapped import (
    count_unmapped_accounts,
    count_unmapped_by_source,
    count_unmapped_of_import,
    count_unmapped_of_preview,
    list_other_case_of_import,
)
from apps.priorities.selectors.visible_snapshot import list_snapshots

__all__ = [
    "EntryChange",
    "EntryHistory",
    "EntryRow",
    "Freshness",
    "HistoryLine",
    "InputAge",
    "Moment",
    "MoreRow",
    "Overview",
    "PolicyView",
    "Publish",
    "RevisionDiff",
    "TreePage",
    "count_unmapped_accounts",
    "count_unmapped_by_source",
    "count_unmapped_of_import",
    "count_unmapped_of_preview",
    "diff_revisions",
    "freshness",
    "get_entry_history",
    "get_tree_page",
    "list_other_case_of_import",
    "list_snapshots",
    "open_view",
]
