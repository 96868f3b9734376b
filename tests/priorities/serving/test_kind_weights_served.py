"""A metric that gains a weight for a kind changes what is served everywhere, though all of it was read before."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from apps.accounts.actor import Actor
from apps.contrib.forecast.past_usage import load_snapshot_inputs
from apps.policies.tree.stored import load_tree
from apps.policies.units import Unit
from apps.priorities.charges import list_charges
from apps.priorities.delivered_usage import load_delivered
from apps.priorities.selectors.past import reconstruct
from apps.priorities.serving import store
from apps.priorities.usage_factors import weighted_amounts
from apps.series.stored_series import load_against_today
from tests.priority_site import AS_OF, NO_AGING, PROJECTS, Site, build_series

pytestmark = pytest.mark.django_db(transaction=True)  # what isn't committed is never remembered
DAY = timedelta(days=1)
HOUR_S = 3_600.0


def read_everywhere(site: Site, weights: dict[str, float], actor: Actor) -> dict[str, float]:
    """Usage of /physics/alice in seconds of the metric, by where it is served."""
    site.policy.refresh_from_db()
    tree = load_tree(site.policy)
    i = tree.index_of_path("/physics/alice")
    assert i is not None
    uid: UUID = tree.uuid(i)
    store.poll()
    served = store.newest(site.slug)
    past = reconstruct(site.policy, served.as_of)
    inputs = load_snapshot_inputs(site.policy, served)
    assert past is not None
    assert inputs is not None
    today = AS_OF.date()
    days = load_against_today(site.policy, [uid], from_on=today - 6 * DAY, to_on=today)
    unit = Unit("Hour", "h", tuple(sorted(weights.items())))
    delivered = load_delivered(policy=site.policy, tree=tree, entries=[i], edges=[AS_OF - 9 * DAY, AS_OF], unit=unit)
    by_row = weighted_amounts(inputs.usage, metric=inputs.settings.metric, classes=inputs.classes)
    alice = inputs.account_ids[[each.user_name == "alice" for each in inputs.account_keys]]
    return {
        "snapshot": float(served.values.usage[i]),
        "past": float(past.values.usage[i]),
        "charges": sum(job.usage_local or 0.0 for job in list_charges(policy_slug=site.slug, actor=actor).jobs),
        "forecast": float(by_row[inputs.usage.account_id == alice].sum()),
        "against today": float(days.used.sum()),
        "delivered": delivered.between(i, AS_OF - 9 * DAY, AS_OF),
    }


@pytest.mark.deep
def test_a_weight_of_a_kind_changes_what_is_served_everywhere(site: Site, as_alice: Actor) -> None:
    site.job("alice", "physics", 1.0, ago_h=30, cpus=0, gpus=1, kinds=(("gpu:h100", 1.0),))
    site.job("alice", "physics", 1.0, ago_h=29, cpus=0, gpus=2, kinds=(("gpu:t4", 2.0),))
    site.job("bob", "physics", 1.0, ago_h=28, cpus=0, gpus=4, kinds=(("gpu:h100", 4.0),))
    for days_ago, weights, hours in (
        (4, {"gpu_s": 1.0}, 3),
        (3, {"gpu_s": 1.0, "gpu:h100": 8.0}, 10),
        (2, {"gpu_s": 1.0, "gpu:h100": 0.0}, 2),
        (1, {"gpu:t4": 0.5}, 1),
    ):
        site.publish(PROJECTS, {**NO_AGING, "metric": {"weights": weights}}, at=AS_OF - days_ago * DAY)
        site.recompute()
        build_series(site)
        amounts = read_everywhere(site, weights, as_alice)
        assert amounts == dict.fromkeys(amounts, hours * HOUR_S), weights
