"""What is deleted, closed or kept by age goes by the believed clock: one that is ahead for a moment deletes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.age_rules import all_functions_by_age, functions_by_age

# What compares an instant and writes, and yet needs no believed clock; by file and function.
_RECORDS = "it compares instants of records, not the clock"
_SEALED = "it goes by the seal of a source, which the believed clock sets"
_DUE = "it takes what is due, and stores when it is due again: nothing is lost"
_LISTED = "it compares instants of an agent's listings, by the agent's clock"
_DATABASE = "leases and signs of life go by the database's clock"
_REFUSES = "it refuses or accepts a request by the present instant"
EXCEPTIONS = {
    "apps/accounts/services.py::_note_use": "it notes the last use of a token, at most every so often",
    "apps/accounts/services.py::rotate_token": _REFUSES,
    "apps/accounts/sign_in/passwords.py::_reserve_next": _DUE,
    "apps/cli/backup/making.py::remove_old": "a number of backups is kept, not an age",
    "apps/cli/sample/living.py::_continue_source": "the sample's usage goes on to the present instant",
    "apps/contrib/jobs/gateway/services.py::_reopen_found": "it undoes what a clock that was ahead closed",
    "apps/contrib/notices/digests.py::_reserve_next": _DUE,
    "apps/contrib/notices/evaluation.py::_change": "an overtaken evaluation changes nothing",
    "apps/contrib/notices/statements/mail.py::plan_statements": _DUE,
    "apps/contrib/notices/webhook_calls.py::_take_next": _DUE,
    "apps/contrib/schedulers/passes.py::record_pass": "of two reports the later one counts, by the agent's own clock",
    "apps/contrib/starts/day_sums.py::sum_days": "it sums the days again of which a promise was settled since",
    "apps/contrib/starts/reports.py::_promise": _LISTED,
    "apps/contrib/starts/reports.py::_withdraw": _LISTED,
    "apps/contrib/starts/source_waits.py::_taught": "it reads the records of a span, and deletes nothing",
    "apps/core/mapped_columns.py::delete_abandoned": "unfinished files are written again",
    "apps/federation/fetch_requests.py::record_fetch": "it corrects an instant that is still to come",
    "apps/federation/publishing.py::_sign_new_version": "a number of versions is kept, not an age",
    "apps/federation/usage_feeds/feed_build.py::_renew": "load_inputs takes the range from the believed clock",
    "apps/federation/usage_feeds/usage_ingest.py::_ingest_whole": _RECORDS,
    "apps/policies/access/delegation.py::_end_or_adopt_dependents": "it compares the ends of two grants",
    "apps/policies/access/delegation.py::create_grant": _REFUSES,
    "apps/policies/formats/sacctmgr_commands.py::_commands": "it compares no instants",
    "apps/policies/requests/share_requests.py::grant_request": _REFUSES,
    "apps/policies/services.py::merge_and_publish": _REFUSES,
    "apps/priorities/recompute/extension.py::extend": "it confirms a snapshot, and deletes nothing",
    "apps/priorities/snapshots.py::write_places": "it notes that places are used",
    "apps/runs/leases.py::shorten_leases_of_a_later_clock": _DATABASE,
    "apps/runs/presence.py::find_differences": _DATABASE,
    "apps/runs/presence.py::report": _DATABASE,
    "apps/runs/services.py::enqueue_run": "a waiting run becomes due earlier",
    "apps/runs/services.py::fail_lost_runs": _DATABASE,
    "apps/series/runs.py::_record_days": "the range that was built ends at the believed clock",
    "apps/series/runs.py::drop_days_ahead": "what is ahead of the clock is dropped, and built again in time",
    "apps/usage/records/stored_runs.py::delete_lines": _SEALED,
    "apps/usage/records/stored_runs.py::rebuild_jobs": _RECORDS,
    "apps/usage/records/stored_runs.py::settle_runs": _RECORDS,
    "apps/series/runs.py::record_hours": "the range that was built ends at the believed clock",
    "apps/usage/changed_hours.py::note_change": _RECORDS,
    "apps/usage/records/imports.py::_import_piece": _RECORDS,
    "apps/usage/records/ingest.py::_advance": _RECORDS,
    "apps/usage/records/ingest.py::_update_seen_at": _RECORDS,
    "apps/usage/records/overlaps.py::_hold": _RECORDS,
    "apps/usage/records/overlaps.py::remove_presence": _RECORDS,
    "apps/usage/records/retention.py::_delete_replaced": _SEALED,
    "apps/usage/records/retention.py::_drop_expired": _SEALED,
    "apps/usage/records/retention.py::_seal": "run_retention, which calls it, takes the believed clock",
    "apps/usage/records/undo.py::_finish": _RECORDS,
    "apps/usage/records/undo.py::undo_import": _REFUSES,
    "apps/usage/sources/open_listings.py::_close_missing": "a listing closes jobs, or the task with the believed clock",
}


@pytest.mark.deep
def test_whatever_is_deleted_or_closed_by_age_goes_by_the_believed_clock() -> None:
    raw = {name for name, is_believed in all_functions_by_age().items() if not is_believed}
    assert raw - EXCEPTIONS.keys() == set(), "take the instant from apps.accounts.clock_watch.believed"
    assert EXCEPTIONS.keys() - raw == set(), "these exceptions aren't needed any more"


PLANTED = {
    "a deletion of old rows": "def f(at):\n    Row.objects.filter(made_at__lt=at - KEPT).delete()\n",
    "a deletion by ids of old rows": (
        "def f(at):\n    old = Row.objects.filter(ended_on__lte=at)\n    Row.objects.filter(pk__in=old).delete()\n"
    ),
    "a deletion of all but young rows": "def f(at):\n    Row.objects.exclude(seen_at__gte=at - KEPT).delete()\n",
    "a close": "def f(at):\n    for row in rows:\n        if row.made_at < at:\n            row.save()\n",
    "a close in one statement": "def f(at):\n    Row.objects.filter(since__lt=at).update(closed_at=at)\n",
    "a deletion by SQL": 'OLD = "DELETE FROM row WHERE made_at < %s"\n\ndef f(at):\n    cursor.execute(OLD, [at])\n',
    "a removal of old files": "def f(at):\n    if path.stat().st_mtime < at.timestamp():\n        path.unlink()\n",
    "a comparison in another function": (
        "def is_old(row, at):\n    return row.made_at + KEPT <= at\n\n"
        "def f(at):\n    for row in rows:\n        if is_old(row, at):\n            freeze(row)\n\n"
        "def freeze(row):\n    row.save()\n"
    ),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_deletion_or_close_by_a_raw_clock_is_found(planted: str, tmp_path: Path) -> None:
    path = tmp_path / "planted.py"
    path.write_text(PLANTED[planted])
    assert dict(functions_by_age(path)) == {"f": False}
    path.write_text(PLANTED[planted].replace("def f(at):\n", "def f(at):\n    at = believed(at)\n"))
    assert dict(functions_by_age(path)) == {"f": True}
