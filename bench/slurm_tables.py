"""Tables of slurmdbd with the accounts, users and jobs of `bench.full_site`, filled by SQL.

Commands of `sacctmgr` add users one by one, and jobs come from a controller alone. Usage by month is summed up by
slurmdbd itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bench.full_site import batches
from bench.recompute import divisions_of

if TYPE_CHECKING:
    from apps.usage.parsers.base import RecordBatch
    from tests.real_schedulers.slurm_site import SlurmSite

LONGEST_FILL_S = 1_800.0
USERS_A_GROUP = 99
_FIRST_ID = 3  # root has 1, and its user 2
_COMPLETED = 3
_LARGE_CLUSTER = "1=1000000,2=1000000000,4=10000,5=1000000"  # cores, MB, nodes, billing: more than the jobs ask for
_ASSOCIATIONS = "creation_time, is_def, id_assoc, user, acct, parent_acct, shares, lft, rgt"
_JOBS = (
    "mod_time, account, cpus_req, job_name, id_assoc, id_job, id_qos, id_resv, id_wckey, id_user, id_group, het_job_id,"
    " het_job_offset, state_reason_prev, mem_req, nodelist, nodes_alloc, `partition`, priority, state, timelimit,"
    " time_submit, time_eligible, time_start, time_end, tres_alloc, tres_req"
)


class Association(NamedTuple):
    """A row of the tree. left, right: its place in the nested sets by which slurmdbd finds what is below it."""

    user: str
    account: str
    parent: str
    shares: int
    left: int
    right: int


def fill(site: SlurmSite, n_entries: int, n_records: int, month: datetime, month_ends: datetime) -> None:
    """Fill the tables, have a month summed up, and give the controller the usage of these jobs."""
    for daemon in ("slurmctld", "slurmdbd"):
        site.stop(daemon)
    rows = associations(n_entries)
    _store_tree(site, rows, int(month.timestamp()))
    number_of = {row.user: number for number, row in enumerate(rows, _FIRST_ID)}
    core_s = np.zeros(_FIRST_ID + len(rows))
    for batch in batches(n_entries, n_records, month_ends):
        numbers = np.array([number_of[names.user] for names in batch.people])[batch.who]
        elapsed_s = (batch.end_us - batch.start_us) // 1_000_000
        core_s += np.bincount(numbers, weights=elapsed_s * batch.cpus, minlength=len(core_s))
        _load(site, "c1_job_table", _JOBS, _job_rows(batch, numbers))
    site.write_usage({int(number): float(core_s[number]) for number in np.flatnonzero(core_s)})
    site.start("slurmdbd")
    _sum_up(site, month, month_ends)
    site.start("slurmctld")


def associations(n_entries: int) -> list[Association]:
    """Divisions, groups and users, with the names and shares of `recompute.publish`."""
    edges = itertools.count(2)  # 1 is the left one of root
    return [row for division in divisions_of(n_entries) for row in _rows_below("root", division, edges)]


def _rows_below(parent: str, entry: Mapping[str, Any], edges: Iterator[int]) -> list[Association]:
    """An entry of the document, and all below it."""
    left, name = next(edges), entry["name"]
    below = [row for child in entry.get("children", ()) for row in _rows_below(name, child, edges)]
    is_user = entry.get("kind") == "user"
    user, account, above = (name, parent, "") if is_user else ("", name, parent)
    return [Association(user, account, above, entry.get("shares", 1), left, next(edges)), *below]


def _store_tree(site: SlurmSite, rows: Sequence[Association], at_s: int) -> None:
    """Root keeps no user of its own, who would have a rank among the others."""
    accounts = [(at_s, row.account, row.account, "bench") for row in rows if not row.user]
    _load(site, "acct_table", "creation_time, name, description, organization", accounts)
    _load(site, "user_table", "creation_time, name", [(at_s, row.user) for row in rows if row.user])
    cells = [(at_s, int(bool(row.user)), number, *row) for number, row in enumerate(rows, _FIRST_ID)]
    _load(site, "c1_assoc_table", _ASSOCIATIONS, cells)
    last = max(row.right for row in rows) + 1
    _sql(site, "DELETE FROM c1_assoc_table WHERE user = 'root'")
    _sql(site, f"UPDATE c1_assoc_table SET rgt = {last} WHERE acct = 'root'")  # noqa: S608 - constants only
    _sql(site, f"UPDATE c1_event_table SET time_start = {at_s}, tres = '{_LARGE_CLUSTER}'")  # noqa: S608 - constants only


def _job_rows(batch: RecordBatch, numbers: npt.NDArray[np.int64]) -> Iterator[tuple[Any, ...]]:
    groups = [names.group for names in batch.people]
    classes = [each.queue for each in batch.job_classes]
    columns = zip(
        batch.job.astype(str).tolist(),
        numbers.tolist(),
        batch.who.tolist(),
        np.asarray(batch.job_class).tolist(),
        batch.cpus.astype(np.int64).tolist(),
        (batch.submit_us // 1_000_000).tolist(),
        (batch.start_us // 1_000_000).tolist(),
        (batch.end_us // 1_000_000).tolist(),
        strict=True,
    )
    for job, number, who, job_class, cpus, submit_s, start_s, end_s in columns:
        resources = f"1={cpus},2=2048,4=1,5={cpus}"
        yield (
            *(end_s, groups[who], cpus, "bench", number, job, 1, 0, 0, 30_000 + number, 30_000, 0, 4_294_967_294, 0),
            *(2_048, "node1", 1, classes[job_class], 1, _COMPLETED, 60, submit_s, submit_s, start_s, end_s),
            *(resources, resources),
        )


def _sum_up(site: SlurmSite, month: datetime, month_ends: datetime) -> None:
    """Have slurmdbd sum up usage by hour, day and month, as it does each hour."""
    span = (f"{each:%m/%d/%y-%H:%M:%S}" for each in (month, month_ends))
    site.run("sacctmgr", "--immediate", "rollup", *span, timeout=LONGEST_FILL_S)


def last_month(now: datetime) -> tuple[datetime, datetime]:
    """Its begin, and its end."""
    ends = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (ends - timedelta(days=1)).replace(day=1), ends


def _load(site: SlurmSite, table: str, columns: str, rows: Iterable[tuple[Any, ...]]) -> None:
    from tests.real_schedulers.enclosure import HOME

    file = site.folder / "rows.tsv"
    with file.open("w") as out:
        out.writelines("\t".join(map(str, cells)) + "\n" for cells in rows)
    try:
        _sql(site, f"SET unique_checks = 0; LOAD DATA INFILE '{HOME}/{file.name}' INTO TABLE {table} ({columns});")
    finally:
        file.unlink()


def _sql(site: SlurmSite, text: str) -> str:
    from tests.real_schedulers.slurm_site import ACCOUNTING

    return site.sql(f"USE {ACCOUNTING}; {text}", timeout=LONGEST_FILL_S)
