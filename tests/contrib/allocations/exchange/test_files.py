"""Allocations of a file: compared, imported once, refused with place and remedy, and exported unchanged."""

from __future__ import annotations

import io
import json
from datetime import date
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.management import CommandError, call_command
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from apps.accounts import audit_log
from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.models import AuditEvent
from apps.contrib.allocations import services
from apps.contrib.allocations.exchange.file_formats import FILE_FORMATS, guess_format, read_file
from apps.contrib.allocations.exchange.plan import AllocationPlan, plan_allocations
from apps.contrib.allocations.exchange.services import ImportOptions, import_allocations, list_exported
from apps.core.errors import Invalid, NotAllowed, Stale, TooLarge
from apps.policies.models import Allocation, Policy
from apps.policies.services import change_settings
from apps.policies.tree.columns import TreeColumns
from tests.examples import examples
from tests.instants import AT
from tests.policies import conftest as policies

policy, tree, alice, bob, charlie = policies.policy, policies.tree, policies.alice, policies.bob, policies.charlie

YEAR = "2026-01-01,2026-12-31"
HEAD = "entry,unit,amount,starts_on,ends_on,reason,uid\r\n"
GPU_HOUR = {"name": "GPU-hour", "symbol": "GPU-h", "weights": {"gpu_s": 1.0}}


def table(*rows: str) -> bytes:
    return ("entry,amount,starts_on,ends_on\n" + "\n".join(rows) + "\n").encode()


def plan(content: bytes, format: str = "csv", actor: Actor = SYSTEM, **more: Any) -> AllocationPlan:
    return plan_allocations(policy_slug="grid", file=read_file(format, content), at=AT, actor=actor, **more)


def bring(content: bytes, format: str = "csv", actor: Actor = SYSTEM, **options: Any) -> AllocationPlan:
    asked = ImportOptions(reason="Call of spring", **options)
    return import_allocations(policy_slug="grid", file=read_file(format, content), options=asked, at=AT, actor=actor)


def exported(format: str = "csv") -> str:
    rows = list_exported(policy_slug="grid", at=AT, actor=SYSTEM)
    return "".join(FILE_FORMATS[format].write(rows))


def state() -> list[tuple[Any, ...]]:
    """Current allocations without what an import makes anew."""
    rows = services.list_allocations(policy_slug="grid", at=AT, actor=SYSTEM)
    return [(path, row.unit, row.amount, row.starts_on, row.ends_on) for row, path in rows]


def problems(content: bytes, **more: Any) -> list[str]:
    return [f"{each.where} {each.message}" for each in plan(content, **more).problems]


def test_a_file_is_imported_once_and_each_allocation_is_in_the_audit_log(policy: Policy, alice: Actor) -> None:
    content = table(f"/physics,5000,{YEAR}", f"/physics/alice,1200.5,{YEAR}", "/biology,7,2026-03-01,2026-03-01")
    done = bring(content, actor=alice)
    assert done.counts == {"add": 3, "change": 0, "withdraw": 0, "same": 0}
    assert state() == [
        ("/biology", "core-h", 7.0, date(2026, 3, 1), date(2026, 3, 1)),
        ("/physics", "core-h", 5000.0, date(2026, 1, 1), date(2026, 12, 31)),
        ("/physics/alice", "core-h", 1200.5, date(2026, 1, 1), date(2026, 12, 31)),
    ]
    events = AuditEvent.objects.filter(verb__startswith="allocation.").order_by("id")
    assert [(each.verb, each.subject) for each in events] == [
        ("allocation.given", "/physics"),
        ("allocation.given", "/physics/alice"),
        ("allocation.given", "/biology"),
        ("allocation.imported", "grid"),
    ]
    assert {each.actor_name for each in events} == {"alice"}
    assert audit_log.check_newest(10_000).problem == ""
    again = bring(content, actor=alice)
    assert again.counts == {"add": 0, "change": 0, "withdraw": 0, "same": 3}
    assert AuditEvent.objects.filter(verb__startswith="allocation.").count() == 4


@pytest.mark.parametrize("format", FILE_FORMATS)
def test_an_export_is_what_an_import_takes(policy: Policy, tree: TreeColumns, format: str) -> None:
    change_settings(policy_slug="grid", settings={"units": [GPU_HOUR]}, reason="GPUs", at=AT, actor=SYSTEM)
    bring(f'{HEAD}/physics,GPU-h,0.1,{YEAR},\'=1+1,\n/physics,,3,{YEAR},"a ""b"",\nc",\n/biology,,3,{YEAR},,'.encode())
    before, content = state(), exported(format)
    assert plan(content.encode(), format).counts == {"add": 0, "change": 0, "withdraw": 0, "same": 3}
    assert guess_format(content) == format
    Allocation.objects.all().delete()
    bring(content.encode(), format)
    assert state() == before
    assert exported(format) == content


@pytest.mark.parametrize(
    ("row", "place", "remedy"),
    [
        (f"/chemistry,5,{YEAR}", "line 2, entry", "add it to the tree first"),
        (f"/,5,{YEAR}", "line 2, entry", "name an entry below it"),
        (f",5,{YEAR}", "line 2, entry", "write the path"),
        (f"/physics,0,{YEAR}", "line 2, amount", "write an amount above 0"),
        (f"/physics,-3,{YEAR}", "line 2, amount", "must be above 0"),
        (f"/physics,1e16,{YEAR}", "line 2, amount", "at most 1e+15"),
        (f"/physics,many,{YEAR}", "line 2, amount", "such as 250000"),
        (f"/physics,nan,{YEAR}", "line 2, amount", "such as 250000"),
        (f"/physics,,{YEAR}", "line 2, amount", "write a number"),
        ("/physics,5,2026-12-31,2026-01-01", "line 2, ends_on", "exchange them"),
        ("/physics,5,01.02.2026,2026-12-31", "line 2, starts_on", "write it as 2026-04-01"),
        ("/physics,5,2026-01-01,", "line 2, ends_on", "write it as 2026-04-01"),
        ("/physics,5,1950-01-01,2026-12-31", "line 2, starts_on", "must be a day from 1970-01-01"),
        (f"/physics,5,{YEAR}\n/physics,5,{YEAR}", "line 3, entry", "repeats line 2"),
    ],
)
def test_a_problem_names_its_line_and_what_to_do(policy: Policy, row: str, place: str, remedy: str) -> None:
    content = table(row)
    (problem,) = plan(content).problems
    assert problem.where == place
    assert remedy in problem.message
    with pytest.raises(Invalid, match=place):
        bring(content)
    assert not Allocation.objects.filter(amount=5, withdrawn_at=None).exists()


def test_all_problems_are_listed_and_nothing_is_imported(policy: Policy) -> None:
    content = f"{HEAD}/physics,core-h,5,{YEAR},,\n/x,core-h,5,{YEAR},,\n/physics,H100-h,5,{YEAR},,nope\n".encode()
    assert [each.partition(" '")[0] for each in problems(content)] == [
        "line 3, entry there is no entry",
        "line 4, uid",
    ]
    content = f"{HEAD}/physics,core-h,5,{YEAR},,\n/physics,H100-h,5,{YEAR},,\n".encode()
    assert problems(content) == [
        "line 3, unit 'H100-h' is no unit of the policy: write one of core-h, or declare it first"
    ]
    with pytest.raises(Invalid):
        bring(content)
    assert state() == []


def test_numbers_of_a_spreadsheet_are_read_as_it_means_them(policy: Policy) -> None:
    bring(b"entry;amount;starts_on;ends_on\n/physics;1.200.000,5;2026-01-01;2026-12-31\n")
    assert state()[0][2] == 1_200_000.5
    assert "may be" in problems(b"entry;amount;starts_on;ends_on\n/biology;1.200;2026-01-01;2026-12-31\n")[0]


def test_a_changed_amount_changes_the_only_allocation_for_these_days(policy: Policy) -> None:
    bring(table(f"/physics,5000,{YEAR}"))
    done = bring(table(f"/physics,6000,{YEAR}"))
    assert done.counts["change"] == 1
    assert done.changes[0].amount_before == 5000
    assert [row[2] for row in state()] == [6000.0]
    event = AuditEvent.objects.filter(verb="allocation.changed").get()
    assert (event.details["amount"], event.details["before"]["amount"]) == (6000, 5000)


def test_one_of_several_allocations_is_changed_by_its_uid(policy: Policy, tree: TreeColumns) -> None:
    bring(table(f"/physics,5000,{YEAR}", f"/physics,700,{YEAR}"))
    smaller = Allocation.objects.get(amount=700)
    assert plan(table(f"/physics,800,{YEAR}")).counts["add"] == 1, "which one is meant isn't known"
    changed = f"{HEAD}/physics,core-h,800,2026-02-01,2026-12-31,,{smaller.uid}\n".encode()
    assert bring(changed).counts == {"add": 0, "change": 1, "withdraw": 0, "same": 0}
    smaller.refresh_from_db()
    assert (smaller.amount, smaller.starts_on) == (800, date(2026, 2, 1))
    for uid, entry, words in (
        (str(smaller.uid), "/biology", "leave it empty for a new one"),
        (str(uuid4()), "/physics", ""),
    ):
        lines = problems(f"{HEAD}{entry},core-h,9,{YEAR},,{uid}\n".encode())
        assert [words in each for each in lines] == ([True] if words else [])
    services.withdraw_allocation(
        policy_slug="grid", allocation_uid=smaller.uid, tag=services.tag_of(smaller), reason="x", at=AT, actor=SYSTEM
    )
    assert "is withdrawn" in problems(changed)[0]
    twice = f"{HEAD}/physics,core-h,1,{YEAR},,{(mine := uuid4())}\n/physics,core-h,2,{YEAR},,{mine}\n".encode()
    assert "line 3, uid is that of line 2, too" in problems(twice)[0]


def test_a_change_that_would_equal_another_allocation_is_refused(policy: Policy) -> None:
    bring(table(f"/physics,5000,{YEAR}", f"/physics,700,{YEAR}"))
    smaller = Allocation.objects.get(amount=700)
    lines = problems(f"{HEAD}/physics,core-h,5000,{YEAR},,{smaller.uid}\n".encode())
    assert lines == ["line 2, entry there is an equal allocation already: write its uid, or remove the line"]


def test_allocations_that_the_file_lacks_stay_unless_they_are_to_be_withdrawn(
    policy: Policy, alice: Actor, bob: Actor
) -> None:
    bring(table(f"/physics,5000,{YEAR}", f"/physics/alice,1200,{YEAR}", f"/biology,7,{YEAR}"))
    fewer = table(f"/physics/alice,1200,{YEAR}")
    assert plan(fewer).counts == {"add": 0, "change": 0, "withdraw": 0, "same": 1}
    of_bob = plan(table(f"/physics/alice,1300,{YEAR}"), actor=bob, withdraw_missing=True)
    assert of_bob.counts["withdraw"] == 0, "bob decides on none of the others"
    assert bring(fewer, withdraw_missing=True).counts["withdraw"] == 2
    assert [row[0] for row in state()] == ["/physics/alice"]
    assert AuditEvent.objects.filter(verb="allocation.withdrawn").count() == 2


def test_nobody_imports_beyond_their_rights(policy: Policy, bob: Actor, charlie: Actor) -> None:
    (problem,) = plan(table(f"/physics/alice,5,{YEAR}", f"/physics,5,{YEAR}"), actor=bob).problems
    assert problem.message.startswith("only managers of / or of an entry above it can allocate to /physics")
    hidden, unknown = (
        plan(table(f"{path},5,{YEAR}"), actor=bob).problems[0].message for path in ("/biology", "/chemistry")
    )
    assert hidden.replace("biology", "chemistry") == unknown
    with pytest.raises((Invalid, NotAllowed)):
        bring(table(f"/physics/alice,5,{YEAR}"), actor=charlie)
    assert state() == []
    refused = AuditEvent.objects.filter(verb="allocation.imported", outcome="refused")
    assert {each.actor_name for each in refused} <= {"charlie"}


def test_an_import_after_another_change_is_refused_with_a_new_preview(policy: Policy) -> None:
    content = table(f"/physics,5000,{YEAR}")
    shown = plan(content)
    bring(table(f"/physics,4000,{YEAR}"))
    with pytest.raises(Stale):
        bring(content, tag=shown.tag)
    assert bring(content, tag=plan(content).tag).counts["change"] == 1


@pytest.mark.parametrize(
    ("content", "format"),
    [
        (b"path,shares\n/physics,3\n", "csv"),
        (b"entry,amount,starts_on,ends_on,colour\n", "csv"),
        (b'{"root": {}}', "json"),
        (b'{"allocations": {}}', "json"),
        (b"allocations: 5", "yaml"),
        (b"[1", "json"),
        (b"\xff\xfe", "csv"),
        (b"", "csv"),
        (b"x", "xlsx"),
    ],
)
def test_files_of_another_kind_are_refused(policy: Policy, content: bytes, format: str) -> None:
    with pytest.raises(Invalid):
        plan(content, format)


def test_documents_name_the_place_of_a_problem(policy: Policy) -> None:
    values: list[Any] = [
        5,
        {"entry": "/physics", "amount": "many", "starts_on": "2026-01-01", "ends_on": "2026-12-31"},
        {"entry": "/physics", "amount": True, "starts_on": 3, "ends_on": "2026-12-31", "unit": 7},
        {"entry": "/physics", "colour": "red"},
    ]
    lines = problems(json.dumps({"allocations": values}).encode(), format="json")
    assert [each.partition(" ")[0].rstrip(",") for each in lines] == [
        "allocations[0]",
        "allocations[1]",
        *["allocations[2]"] * 3,
        "allocations[3]",
    ]


@pytest.mark.deep
def test_ten_thousand_rows_are_one_import(policy: Policy, django_assert_max_num_queries: Any) -> None:
    first = date(2026, 1, 1).toordinal()
    rows = [f"/physics,{n + 1},{date.fromordinal(first + n % 300)},2026-12-31" for n in range(10_000)]
    with django_assert_max_num_queries(80):
        assert bring(table(*rows)).counts["add"] == 10_000
    assert AuditEvent.objects.filter(verb="allocation.given").count() == 10_000
    assert audit_log.check_newest(20_000).problem == ""
    assert plan(table(*rows)).counts["same"] == 10_000
    with pytest.raises(TooLarge):
        plan(table(*(f"/physics,{n + 1},{YEAR}" for n in range(20_001))))


_LINES = st.lists(
    st.tuples(
        st.sampled_from(["/physics", "/physics/alice", "/biology"]),
        st.floats(1e-9, 1e15).map(lambda value: json.loads(json.dumps(value))),
        st.dates(date(1970, 1, 1), date(2999, 12, 31)),
        st.integers(0, 800),
    ),
    max_size=12,
    unique_by=lambda row: row,
)


@examples(40, suppress=[HealthCheck.function_scoped_fixture])
@given(rows=_LINES)
def test_any_allocations_make_the_round_trip(policy: Policy, rows: list[tuple[str, float, date, int]]) -> None:
    Allocation.objects.all().delete()
    last = date(2999, 12, 31).toordinal()
    ends = [date.fromordinal(min(starts_on.toordinal() + days, last)) for _, _, starts_on, days in rows]
    lines = {
        f"{path},{json.dumps(amount)},{starts_on},{ends_on}": None
        for (path, amount, starts_on, _), ends_on in zip(rows, ends, strict=True)
    }
    bring(table(*lines))
    before = state()
    for format in FILE_FORMATS:
        content = exported(format)
        assert plan(content.encode(), format).changes == ()
        Allocation.objects.all().delete()
        bring(content.encode(), format)
        assert (exported(format), state()) == (content, before)


def test_what_rules_did_stays_and_files_hold_what_people_stated(policy: Policy) -> None:
    """A sync that runs each night doesn't undo a rule."""
    content = table(f"/physics,5000,{YEAR}")
    bring(content)
    row = Allocation.objects.get()
    Allocation.objects.filter(pk=row.pk).update(amount=4200.0, by_rules=-800.0)
    Allocation.objects.create(
        policy=policy, entry_uid=row.entry_uid, amount=300, starts_on=date(2027, 1, 1), ends_on=date(2027, 2, 1),
        author_name="rule", created_at=AT, carried_from=row.uid,
    )  # fmt: skip
    assert bring(content, withdraw_missing=True).counts == {"add": 0, "change": 0, "withdraw": 0, "same": 1}
    assert [line.split(",")[2] for line in exported().splitlines()[1:]] == ["5000"]
    changed = bring(table(f"/physics,6000,{YEAR}"))
    assert (changed.changes[0].amount_before, changed.changes[0].amount) == (5000, 6000)
    row.refresh_from_db()
    assert (row.amount, row.by_rules) == (5200, -800)
    bring(table(f"/physics,1,{YEAR}"))
    row.refresh_from_db()
    assert row.amount == 0.0, "never below 0"


def run(*arguments: object) -> str:
    out = io.StringIO()
    call_command(*map(str, arguments), stdout=out, stderr=io.StringIO())
    return out.getvalue()


def test_the_commands_import_with_a_preview_and_export(policy: Policy, tmp_path: Path) -> None:
    file = tmp_path / "allocations.csv"
    file.write_bytes(table(f"/physics,5000,{YEAR}"))
    asked = ("import_allocations", file, "--policy", "grid")
    with pytest.raises(SystemExit) as differs:
        run(*asked, "--dry-run", "--exit-code")
    assert differs.value.code == 3
    assert state() == []
    with pytest.raises(CommandError, match="--reason"):
        run(*asked)
    output = run(*asked, "--reason", "Call of spring")
    assert output.splitlines() == [
        "imported, grid: new: 1",
        "  /physics: new, 5,000 core-h, 2026-01-01 to 2026-12-31",
    ]
    file.write_text(run("export_allocations", "--policy", "grid"))
    assert json.loads(run(*asked, "--dry-run", "--json", "--exit-code"))["counts"]["same"] == 1
    assert UUID(file.read_text().splitlines()[1].rpartition(",")[2]) == Allocation.objects.get().uid
