"""A stated reason predicts the difference that it explains; everything else is unexplained, with its number."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.contrib.onboarding.usage_differences import (
    Cause,
    Hint,
    UsageComparison,
    UsageDifference,
    UsagePair,
    UsageReason,
    _factors_that_fit,
    _predicted_by_others,
    compare_usage,
)
from apps.contrib.onboarding.usage_reasons import HINTS, USAGE_REASONS, reason_text

BY_SETTINGS: tuple[UsageReason, ...] = ("running_left_out", "decay", "removed_limits")
HINTED: tuple[Hint, ...] = ("config_unknown", "running", "log_begins_late")


def only(pair: UsagePair) -> UsageDifference:
    (row,) = compare_usage([pair]).rows
    return row


def test_a_job_that_only_slurm_charges_is_unexplained_with_its_number() -> None:
    """It started, and was requeued with its node: accounting has no run of it. Billing is whole in the records."""
    row = only(UsagePair("hep", "ann", 10_000.0, 12_345.0, hints=("billing_cut",)))
    assert (row.reason, row.predicted, row.difference) == ("unexplained", None, -2_345.0)
    text = reason_text(row, "cpu_s")
    assert "2,345" in text.replace("\u202f", ",").replace("\u00a0", ",")
    assert str(HINTS["billing_cut"]) in text


@pytest.mark.parametrize(("theirs", "reason"), [(0.0, "from_zero"), (900.0, "unexplained"), (9_990.0, "unexplained")])
def test_usage_counts_from_zero_only_where_sshare_has_none(theirs: float, reason: str) -> None:
    """An association that was made again counts its jobs since: 900 is no reset, and no billing that was cut."""
    assert only(UsagePair("hep", "ann", 10_000.0, theirs)).reason == reason


@pytest.mark.parametrize(
    ("predicted", "reason"),
    [(8_000.0, "decay"), (8_019.0, "decay"), (8_021.0, "unexplained"), (7_979.0, "unexplained")],
)
def test_a_prediction_may_miss_a_hundredth_of_the_difference(predicted: float, reason: str) -> None:
    pair = UsagePair("hep", "ann", 10_000.0, 8_000.0, causes=[Cause("decay", predicted)])
    assert only(pair).reason == reason


def test_a_factor_of_a_qos_is_the_reason_only_where_the_same_one_fits_all() -> None:
    by_qos = [{"half": 100.0}, {"half": 400.0}, {"half": 1_000.0}]
    pairs = [
        UsagePair("hep", f"u{i}", 5_000.0, 5_000.0 - 0.5 * used["half"], by_unknown_qos=used, hints=("qos_unknown",))
        for i, used in enumerate(by_qos)
    ]
    assert {row.reason for row in compare_usage(pairs).rows} == {"qos_unknown"}
    one = compare_usage(pairs[:1]).rows[0]
    assert (one.reason, one.hints) == ("unexplained", ("qos_unknown",)), "any number fits one user"


@pytest.mark.parametrize("lost", [300.0, 700.0, 1_500.0])
def test_a_user_is_no_proof_of_a_factor_of_its_own(lost: float) -> None:
    """Only one has the QOS, or has nearly all of its usage: any number fits with some factor."""
    alone = UsagePair("hep", "ann", 5_000.0, 5_000.0 - lost, by_unknown_qos={"high": 2_000.0})
    halves = [
        UsagePair("hep", f"u{used:g}", 5_000.0, 5_000.0 - used / 2, by_unknown_qos={"half": used})
        for used in (100.0, 400.0)
    ]
    reasons = {row.user: row.reason for row in compare_usage([alone, *halves]).rows}
    assert reasons == {"ann": "unexplained", "u100": "qos_unknown", "u400": "qos_unknown"}
    little = UsagePair("hep", "bob", 5_000.0, 4_950.0, by_unknown_qos={"high": 2.0})
    assert {row.reason for row in compare_usage([alone, little]).rows} == {"unexplained"}


def test_a_charge_by_the_factors_of_the_others_is_that_of_a_fit_without_the_user() -> None:
    rng = np.random.default_rng(1)
    n_known = 0
    for _ in range(100):
        used = rng.uniform(0, 1e6, (int(rng.integers(2, 9)), int(rng.integers(1, 4)))) * (rng.random() < 0.9)
        used[rng.random(used.shape) < 0.3] = 0.0
        charged = used @ rng.uniform(0.5, 3, used.shape[1]) + rng.normal(0, 1e3, len(used))
        free = used[:, _factors_that_fit(used, charged) > 0]
        for i, predicted in enumerate(_predicted_by_others(used, charged).tolist()):
            others = np.arange(len(used)) != i
            by_others = np.linalg.lstsq(free[others], charged[others], rcond=None)[0]
            is_known = np.linalg.matrix_rank(free[others]) == np.linalg.matrix_rank(free)
            assert math.isnan(predicted) != is_known
            if is_known:
                assert predicted == pytest.approx(float(free[i] @ by_others), rel=1e-9, abs=1e-6)
            n_known += is_known
    assert n_known > 100


def test_every_reason_and_hint_has_words() -> None:
    reasons = set(UsageReason.__args__) - {"unexplained"}  # type: ignore[attr-defined]  # its number is said instead
    assert set(USAGE_REASONS) == reasons
    assert set(HINTS) == set(Hint.__args__)  # type: ignore[attr-defined]


@st.composite
def sites(draw: st.DrawFn) -> list[UsagePair]:
    """Users whose usage differs by a cause, by two at once, by jobs that nobody knows, or not at all."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    factors = {"free": 0.0, "half": 0.5, "dbl": float(rng.uniform(0, 3))}
    alike = float(rng.choice([1.0, 1.0, 0.5, 1.2]))
    unknown = bool(rng.integers(2))
    pairs = []
    for number in range(int(rng.integers(1, 12))):
        ours = float(10 ** rng.uniform(0, 8))
        causes = [
            Cause(reason, ours * float(rng.uniform(0.2, 1.5))) for reason in BY_SETTINGS if rng.integers(2)
        ]  # fmt: skip
        qos = {name: ours * float(rng.uniform(0, 0.3)) for name in factors if unknown and rng.integers(2)}
        theirs = ours / alike
        kind = rng.integers(6)
        if kind == 0 and causes:
            theirs = causes[int(rng.integers(len(causes)))].usage
        elif kind == 1 and qos:
            theirs = ours + sum((factors[name] - 1) * used for name, used in qos.items())
        elif kind == 2:
            theirs = ours + float(10 ** rng.uniform(-1, 7))  # a job that the log lacks
        elif kind == 3:
            theirs = 0.0
        elif kind == 4 and causes:
            theirs = (ours + causes[0].usage) / 2  # half of what the cause predicts
        hints = [hint for hint in HINTED if rng.integers(2)]
        pairs.append(UsagePair("hep", f"u{number}", ours, math.floor(max(theirs, 0.0)), causes, qos, hints))
    return pairs


@given(sites())
def test_a_stated_reason_predicts_its_difference(pairs: list[UsagePair]) -> None:
    compared = compare_usage(pairs)
    by_user = {pair.user: pair for pair in pairs}
    assert len(compared.rows) == len(pairs)
    for row in compared.rows:
        pair = by_user[row.user]
        if row.reason == "same":
            assert abs(row.difference) <= 1 + 1e-6 * row.theirs
        elif row.reason == "unexplained":
            assert row.predicted is None
            assert all(not within(cause.usage, pair) for cause in pair.causes)
        else:
            assert row.predicted is not None
            assert within(row.predicted, pair)
            assert row.predicted == pytest.approx(by_hand(row, pair, compared), rel=1e-9, abs=1e-6)


def within(predicted: float, pair: UsagePair) -> bool:
    """Within 1 % of the difference; sshare cuts to whole numbers."""
    return abs(predicted - pair.theirs) <= max(abs(pair.ours - pair.theirs) / 100, 1.0)


def by_hand(row: UsageDifference, pair: UsagePair, compared: UsageComparison) -> float:
    """What Slurm would list by the reason alone."""
    if row.reason == "from_zero":
        return 0.0
    if row.reason == "all_alike":
        assert compared.quotient is not None
        return pair.ours / compared.quotient
    if row.reason == "qos_unknown":
        assert row.predicted is not None
        # A factor of at least 0 for each QOS: no less than without their jobs.
        assert row.predicted >= pair.ours - sum(pair.by_unknown_qos.values()) - 1e-6 * pair.ours
        return row.predicted
    return next(cause.usage for cause in pair.causes if cause.reason == row.reason and within(cause.usage, pair))
