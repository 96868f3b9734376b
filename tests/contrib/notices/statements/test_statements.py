"""Statements: the arithmetic beside a slow twin, closed months, and what is shown to whom."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import AuditEvent, User
from apps.contrib.notices.models import Statement
from apps.contrib.notices.statements.month_close import close_months
from apps.contrib.notices.statements.selectors import AMOUNTS, compute_statement, corrections_of, get_statements
from apps.core.errors import Invalid, NotFound
from apps.policies.models import Adjustment, Policy
from apps.policies.services import make_policy, publish_document
from apps.policies.tree.stored import load_tree
from apps.series.models import SeriesDay
from apps.series.months import Month, read_month
from tests.contrib.notices.made_series import made_series
from tests.contrib.notices.statements.hall import build, row, send, tree
from tests.examples import examples
from tests.grants import make_grant
from tests.instants import AT
from tests.oracles.statements import slow_statement

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
OCTOBER = Month(date(2026, 10, 1))
amounts = st.one_of(st.just(0.0), st.floats(0.0, 1e9, allow_subnormal=False))


@examples(60)
@given(
    st.integers(1, 40).flatmap(lambda n: st.tuples(*(st.lists(amounts, min_size=n, max_size=n) for _ in range(3)))),
    st.floats(0, 1),
    st.booleans(),
)
def test_amounts_agree_with_the_oracle_and_add_up(days: Any, target: float, knows: bool) -> None:
    own, other, waited = days
    series = made_series([target, 1 - target], [own, other], [waited, other], knows=knows)
    found = compute_statement(series, 0, OCTOBER)
    slow = slow_statement(series, 0, 2026, 10)
    size = max(found.entitled, found.used, 1.0)
    for name in AMOUNTS:
        assert getattr(found, name) == pytest.approx(slow[name], rel=1e-9, abs=1e-9 * size), name
    balance = found.used + found.lent + found.missed + found.unclear - found.borrowed
    assert found.entitled == pytest.approx(balance, rel=1e-9, abs=1e-9 * size)


def test_days_outside_the_month_and_days_without_a_share_do_not_count() -> None:
    series = made_series([0.5, 0.5], [[1.0] * 40, [3.0] * 40], [[0.0] * 40, [0.0] * 40])
    assert compute_statement(series, 0, OCTOBER).n_days == 31
    assert compute_statement(series, 0, OCTOBER).lent == 31.0
    assert compute_statement(series, 0, Month(date(2026, 11, 1))).n_days == 9
    series.competes[0, :10] = False
    assert compute_statement(series, 0, OCTOBER).entitled == 21 * 2.0
    series.exists[0, :] = False
    assert compute_statement(series, 0, OCTOBER).n_days == 0


def test_lent_missed_unclear_and_borrowed_are_distinguished() -> None:
    series = made_series([0.5, 0.5], [[0, 2, 9, 3], [10, 8, 1, 7]], [[0, 6, 0, 0], [0, 0, 0, 0]])
    series.knows_waiting[:, 3] = False
    found = compute_statement(series, 0, OCTOBER)
    assert (found.lent, found.missed, found.unclear, found.borrowed) == (5.0, 3.0, 2.0, 4.0)
    assert (found.entitled, found.used, found.n_unclear) == (20.0, 14.0, 1)


def test_corrections_are_the_difference_to_a_recalculated_month() -> None:
    series = made_series([0.5, 0.5], [[1.0], [3.0]], [[0.0], [0.0]])
    kept: dict[str, Any] = compute_statement(series, 0, OCTOBER).to_json()
    assert corrections_of(kept, compute_statement(series, 0, OCTOBER)) == {}
    series.used[0, 0] = 1.5
    assert corrections_of(kept, compute_statement(series, 0, OCTOBER)) == {"used": 0.5, "lent": -0.5}


@pytest.mark.parametrize(
    "text", ["2026-13", "2026-1", "october", "2026-12", "0001-01", "2026-10-01", "９999-01", " 2026-1"]
)
def test_invalid_months_are_refused_with_the_possible_ones(text: str) -> None:
    with pytest.raises(Invalid, match=r"1970-01\D.*2026-11"):
        read_month(text, AT.date())


@pytest.mark.parametrize(("month", "before"), [("2026-01", "2025-12"), ("2026-12", "2026-11")])
def test_months_continue_across_years(month: str, before: str) -> None:
    assert Month(date.fromisoformat(f"{month}-01")).before().text == before


def eva() -> Actor:
    return Actor(user=User.objects.filter(username="eva").first() or User.objects.create_superuser("eva"), via="page")


def of(policy: Policy, path: str, month: str = "2026-10", actor: Actor | None = None) -> Any:
    columns = load_tree(policy)
    i = columns.index_of_path(path)
    assert i is not None
    return get_statements(policy_slug="hall", uid=columns.uuid(i), month=month, actor=actor or eva())


def test_a_month_agrees_with_its_records(hall: Policy) -> None:
    """Day by day from the jobs: physics 2 + n mod 3 and biology 3 + n mod 2 cores for three hours."""
    found = of(hall, "/physics").chosen.figures
    days = [(n, date(2026, 9, 20) + n * DAY) for n in range(61) if (date(2026, 9, 20) + n * DAY).month == 10]
    used = np.array([(2 + n % 3) * 3 * 3600.0 for n, _on in days])
    others = np.array([(3 + n % 2) * 3 * 3600.0 for n, _on in days])
    target = np.array([0.6 if on < date(2026, 10, 16) else 0.5 for _n, on in days])
    waits = np.array([n % 5 == 0 for n, _on in days])
    entitled = target * (used + others)
    under = np.maximum(entitled - used, 0)
    assert found.entitled == pytest.approx(entitled.sum(), rel=1e-9)
    assert found.used == pytest.approx(used.sum(), rel=1e-9)
    assert found.borrowed == pytest.approx(np.maximum(used - entitled, 0).sum(), rel=1e-9)
    assert found.missed == pytest.approx(under[waits].sum(), rel=1e-9)
    assert found.lent + found.unclear == pytest.approx(under[~waits].sum(), rel=1e-9)
    assert (found.target_first, found.target_last, found.n_days) == (0.6, 0.5, 31)


def test_share_changes_and_adjustments_are_listed(hall: Policy) -> None:
    page = of(hall, "/physics")
    (change,) = page.chosen.share_changes
    assert (change.on, change.before, change.after) == (date(2026, 10, 16), 60.0, 50.0)
    columns = load_tree(hall)
    for path, amount, at in (("/physics/alice", -7200.0, 10), ("/physics", 1800.0, 11), ("/biology", 5.0, 11)):
        i = columns.index_of_path(path)
        assert i is not None
        Adjustment.objects.create(
            policy=hall,
            entry_uid=columns.uuid(i),
            resource="cpu_s",
            amount_s=amount,
            since=hall.head_number,
            at=datetime(2026, 10, at, tzinfo=UTC),
            created_at=AT,
            author_name="eva",
        )
    assert of(hall, "/physics").chosen.adjusted == -5400.0
    assert of(hall, "/physics", "2026-11").chosen.adjusted == 0.0
    assert [line.adjusted for line in of(hall, "/physics").children] == [-7200.0, 0.0]


def test_a_month_is_closed_a_week_after_its_end_and_unchanged_later(hall: Policy) -> None:
    assert close_months(at=datetime(2026, 11, 6, tzinfo=UTC)) == 2  # September's two groups
    assert not of(hall, "/physics").chosen.is_closed
    assert close_months(at=AT) == 2
    assert close_months(at=AT) == 0
    assert AuditEvent.objects.filter(verb="statement.closed", subject="hall 2026-10").count() == 1
    before = of(hall, "/physics").chosen
    assert before.is_closed
    assert before.corrections == {}
    send([row(500, datetime(2026, 10, 5, 12, tzinfo=UTC), "bob", "physics", 4)])
    build(hall)
    after = of(hall, "/physics").chosen
    assert after.figures == before.figures
    assert after.corrections["used"] == pytest.approx(4 * 3 * 3600.0)
    assert Statement.objects.filter(policy=hall).count() == 4


def test_a_group_that_came_later_and_a_policy_without_days_have_no_statement(hall: Policy) -> None:
    other = make_policy(slug="other", name="Other", at=AT, actor=COMMAND)
    publish_document(policy_slug="other", document=tree(60), reason="r", at=AT, actor=COMMAND)
    document = tree(50)
    document["root"]["children"].append({"name": "chemistry", "kind": "group", "shares": 9, "children": []})
    publish_document(policy_slug="hall", document=document, reason="r", at=AT, actor=COMMAND)
    assert close_months(at=AT) == 4
    columns = load_tree(Policy.objects.get(slug="hall"))
    uids = {columns.uuid(i) for i in columns.children(0) if columns.name[i] != "chemistry"}
    assert len(uids) == 2
    assert set(Statement.objects.values_list("entry_uid", flat=True)) == uids
    assert not Statement.objects.filter(policy=other).exists()


def test_a_month_with_days_to_rebuild_stays_open(hall: Policy) -> None:
    send([row(500, datetime(2026, 10, 5, 12, tzinfo=UTC), "bob", "physics", 4)])
    assert close_months(at=AT) == 2  # September; October waits
    build(hall)
    assert close_months(at=AT) == 2


def test_a_crash_while_closing_leaves_no_partial_month(hall: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(**_given: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("apps.contrib.notices.statements.month_close.audit.record", dies)
        with pytest.raises(KeyboardInterrupt):
            close_months(at=AT)
    assert not Statement.objects.exists()
    assert close_months(at=AT) == 4


def test_statements_of_totals_do_not_disclose_usage_of_few_people(hall: Policy) -> None:
    """vic sees sums: physics has two members, one of whom used everything."""

    vic = User.objects.create_user("vic")
    make_grant(vic, load_tree(hall).uuid(0), "viewer", policy=hall, verbs=["view_aggregate"], reason="r")
    close_months(at=AT)
    line = of(hall, "/physics", actor=Actor(user=vic, via="page")).chosen
    assert line.suppressed
    assert (line.figures, line.adjusted, line.corrections) == (None, None, {})
    with pytest.raises(NotFound):
        of(hall, "/physics/alice", actor=Actor(user=vic, via="page"))
    with pytest.raises(NotFound):
        of(hall, "/physics", actor=Actor(user=User.objects.create_user("nobody"), via="page"))


def test_unbuilt_days_are_counted_as_missing(hall: Policy) -> None:
    assert of(hall, "/physics", "2026-11").chosen.missing_days == 0
    assert of(hall, "/physics", "2026-08").chosen.figures is None
    assert of(hall, "/physics", "2026-09").chosen.missing_days == 0  # nothing ran before the 20th
    SeriesDay.objects.filter(policy=hall, on__in=(date(2026, 10, 3), date(2026, 10, 9))).delete()
    assert of(hall, "/physics").chosen.missing_days == 2


def test_months_of_the_last_year_are_listed_newest_first(hall: Policy) -> None:
    months = [line.month.text for line in of(hall, "/physics").months]
    assert (months[0], months[1], months[-1], len(months)) == ("2026-11", "2026-10", "2025-12", 12)
    assert of(hall, "/physics", "2019-03").months[0].month.text == "2019-03"
