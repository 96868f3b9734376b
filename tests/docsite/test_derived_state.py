"""The register of derived state names each cache, table and file of derived data that the code has."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from apps.core.derived_state import Kept
from docsite.derived_state import OF_CODE_ALONE, declared
from tests.docsite import state_in_code

_HOOKS = "what rooms and packages register when the process starts"
_COUNTS = "counts and last times of this process, which bound or measure its work"
# State of a process that is made of nothing else.
OF_THE_PROCESS = {
    "cli.demo.worker._done_at": _COUNTS,
    "cli.stack.paths._is_required": "whether the folder of the instance has to exist",
    "core.plugin_loading.failures": _HOOKS,
    "core.plugin_loading.foreign": _HOOKS,
    "core.postgresql._prepared": "statements that a connection has prepared: they end with it",
    "core.postgresql.replica.replica": _COUNTS,
    "engine.fast._is_on": _HOOKS,
    "engine.operators._packages": _HOOKS,
    "federation.fetch_requests._previews": _COUNTS,
    "federation.own_publishers._names": _HOOKS,
    "federation.own_publishers._publishers": _HOOKS,
    "federation.readings._noted": _COUNTS,
    "pages.sign_in.views._minutes": _COUNTS,
    "policies.changesets.change_sets._known": _HOOKS,
    "policies.publishing.revisions._steps": _HOOKS,
    "policies.publishing.size_guard._rank_counts": _HOOKS,
    "policies.settings._trials": _HOOKS,
    "policies.tree.names._uid_clock": _COUNTS,
    "runs.bell._silent_until_s": _COUNTS,
    "runs.fault_points._passed": _COUNTS,
    "runs.kinds._handlers": _HOOKS,
    "runs.kinds._length": _HOOKS,
    "runs.kinds._most_of_key": _HOOKS,
    "runs.kinds._most_threads": _HOOKS,
    "runs.kinds._titles": _HOOKS,
    "runs.leases._held": "leases of the runs at work in this thread",
    "runs.queues._queues": _HOOKS,
    "runs.services._threads": "threads at work, by kind",
    "runs.services._turns": "the last turn of each kind of run in this process",
    "web.middleware.lookup_metrics._by_status": _COUNTS,
    "web.rest.views._names_of": _HOOKS,
}
# Tables of what people, machines and other sites report or decide, of work, and of events: nothing else makes them.
OF_REPORTS_AND_DECISIONS = {
    "accounts.models": "Account AuditEvent Identity PasswordReset Session Token User",
    "contrib.allocations.models": "AllocationRequest",
    "contrib.jobs.models": "Job Ledger",
    "contrib.lab.models": "Experiment UploadedTrace",
    "contrib.notices.models": "Delivery Mail Mark Preference Rule Webhook",
    "contrib.onboarding.models": "FirstPolicyDraft",
    "contrib.schedulers.models": (
        "AgentPass LimitListing LimitSettings QueueListing RunningListing Scheduler SchedulerValues ShareListing"
        " ShareOrder"
    ),
    "contrib.starts.models": "StartPromise",
    "federation.models": "Fetch Mount Publication Reading SiteKey Subscription UsageFeed",
    "mapping.models": "Attachment Claim Mapping MappingRule",
    "policies.models": "Adjustment Allocation Approval Capacity ChangeSet Comment Entry Grant ImportedFile Pin Policy"
    " Revision",
    "runs.models": "BackupMark BeatLease Run SiteProcess WorkerContact",
    "usage.models": "Import JobClass Kind Record RejectedLine Repetition ReplacedRecord RunLine Source TooLateRecord",
}
# Modules with files that hold no derived state of a running site.
OTHER_FILES = {
    "cli.backup.drafts": "the locks of backups and restores at work",
    "cli.backup.making": "backups, which an operator keeps",
    "cli.backup.restoring": "a restore at work",
    "cli.backup.scheduled": "the lock of a backup at work",
    "cli.closed_pipes": "nothing: it opens the null device",
    "cli.demo.instances": "settings of the demo",
    "cli.stack.file_broker": "messages between processes, which the database can repeat",
    "cli.stack.logs": "logs",
    "cli.stack.var_lock": "the lock of a running instance",
    "cli.stack.paths": "keys and passwords that are made once",
    "cli.stack.forking": "nothing: it opens the null device",
    "cli.stack.prepare": "static files of a release",
    "contrib.onboarding.slurm_outputs": "files of one request",
    "core.mapped_columns": "how files of columns are written; who writes them declares them",
    "federation.publishing": "documents for a web server, outside of the instance",
    "runs.fault_points": "faults of tests",
    "runs.presence": "a mark by which processes know that they share a folder",
    "usage.records.uploads": "what people and sources send",
    "usage.sources.growing_files": "nothing: it reads files of the scheduler",
    "core.secret_files": "nothing: it reads a secret",
}


@pytest.mark.deep
def test_each_cache_and_name_that_may_change_is_in_the_register() -> None:
    known = _declared(Kept.MEMORY) | OF_CODE_ALONE | OF_THE_PROCESS.keys()
    present = state_in_code.in_memory()
    assert present - known == set(), "declare it in DERIVED_STATE beside it"
    assert known - present == set(), "these are gone"


def test_each_table_is_in_the_register_or_of_reports_and_decisions() -> None:
    others = {f"{module}.{name}" for module, names in OF_REPORTS_AND_DECISIONS.items() for name in names.split()}
    known = _declared(Kept.TABLE) | others
    present = state_in_code.tables()
    assert present - known == set(), "declare it in DERIVED_STATE of its module"
    assert known - present == set(), "these are gone"


@pytest.mark.deep
def test_each_module_that_writes_files_declares_them() -> None:
    known = {module for module, state in declared() if state.kept == Kept.FILE} | OTHER_FILES.keys()
    present = state_in_code.modules_with_files()
    assert present - known == set(), "declare its files in DERIVED_STATE"
    assert known - present == set(), "these write no files any more"


def test_each_state_is_declared_once_with_all_that_it_depends_on() -> None:
    names = Counter((state.kept, module, name) for module, state in declared() for name in state.names)
    assert [each for each, n in names.items() if n > 1] == []
    for module, state in declared():
        for text in (state.holds, state.key, state.inputs, state.range, state.ends):
            assert text.strip(), (module, state.names)


PLANTED = """
from functools import lru_cache
from cachetools import LRUCache, TTLCache, cached

_table = {}
_ranks: LRUCache[str, int] = LRUCache(8)
_count = 0


class Box:
    def __init__(self) -> None:
        self.kept = None

    @lru_cache
    def method(self) -> int:
        return 1


box = Box()


@lru_cache(maxsize=1)
def numbers() -> int:
    return 1


@cached(TTLCache(8, 60))
def ranks() -> int:
    global _count
    _count += 1
    return 1
"""


def test_every_kind_of_cache_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "planted.py"
    path.write_text(PLANTED)
    module = ModuleType("apps.planted")
    module.__file__ = str(path)
    exec(compile(PLANTED, str(path), "exec"), vars(module))  # noqa: S102 - the text above
    monkeypatch.setitem(sys.modules, "apps.planted", module)
    monkeypatch.setattr(state_in_code, "module_names", lambda: ["apps.planted"])
    assert state_in_code.in_memory() == {
        f"planted.{name}" for name in ("_table", "_ranks", "_count", "box", "Box.method", "numbers", "ranks")
    }


def _declared(kept: Kept) -> set[str]:
    return {f"{module}.{name}" for module, state in declared() if state.kept == kept for name in state.names}
