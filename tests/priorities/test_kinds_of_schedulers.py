"""An hour of an H100 counts as eight of another GPU in a metric and in a unit, whichever scheduler reports it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from apps.accounts.models import Account
from apps.policies.settings import PolicySettings
from apps.policies.tree.stored import load_tree
from apps.policies.units import Unit
from apps.priorities.delivered_usage import load_delivered
from apps.priorities.usage_factors import weighted_amounts, weighted_resources
from apps.usage.arrays import load_usage
from apps.usage.models import Kind
from apps.usage.parsers.base import Reading
from apps.usage.parsers.registry import FORMATS
from apps.usage.records.ingest import ingest_batch
from tests.priority_site import AS_OF, PROJECTS, Site

pytestmark = pytest.mark.django_db(transaction=True)
GOLDEN = Path(__file__).parent.parent / "golden" / "field"
# As Slurm 26.05.5 printed them.
SACCT = """\
JobIDRaw|Cluster|User|Account|Partition|QOS|Submit|Start|End|ElapsedRaw|State|AllocCPUS|AllocTRES|ReqTRES|UID
3|fjord|bob|physics|gpu|normal|1795882806|1795882826|1795882851|25|COMPLETED|2|{h100}|{h100}|1001
4|fjord|bob|physics|gpu|normal|1795882806|1795882826|1795882851|25|COMPLETED|2|{a100}|{a100}|1001
""".format(
    h100="billing=34,cpu=2,gres/gpu:h100=2,gres/gpu=2,mem=200M,node=1",
    a100="billing=10,cpu=2,gres/gpu:a100=1,gres/gpu=1,mem=200M,node=1",
)


def json_job(number: int, kind: str, n: int) -> dict[str, object]:
    """As `sacct --json` of Slurm 26.05.5, with the fields that are read."""
    shared = {"cpu": 2, "mem": 200, "energy": -2, "node": 1, "billing": 34}
    tres: list[dict[str, object]] = [{"type": name, "name": "", "count": count} for name, count in shared.items()]
    tres += [{"type": "gres", "name": name, "count": n} for name in ("gpu", f"gpu:{kind}")]
    times = {"submission": 1_795_882_806, "start": 1_795_882_826, "end": 1_795_882_851, "elapsed": 25}
    return {
        **{"job_id": number, "cluster": "fjord", "user": "bob", "account": "physics", "partition": "gpu"},
        **{"state": {"current": ["COMPLETED"]}, "time": times, "tres": {"allocated": tres, "requested": tres}},
    }


def pbs_job(number: int, kind: str, n: int) -> str:
    start = 1_795_882_826
    return (
        f"11/29/2026 12:00:00;E;{number}.pbs;user=bob group=physics queue=gpu ctime={start - 20} qtime={start - 20}"
        f" etime={start - 20} start={start} exec_host=n1/0*2 exec_vnode=(n1:ncpus=2:ngpus={n}:mem=200mb)"
        f" Resource_List.select=1:ncpus=2:ngpus={n}:gpu_type={kind} Resource_List.walltime=01:00:00 end={start + 25}"
        " resources_used.walltime=00:00:25 run_count=1\n"
    )


FILES = {
    "sacct": (SACCT, 25 * (2 * 8 + 1), {"gpu:a100", "gpu:h100"}),
    "sacct-json": (
        json.dumps({"jobs": [json_job(3, "h100", 2), json_job(4, "a100", 1)], "meta": {"plugin": "openapi/dbv0.0.46"}}),
        25 * (2 * 8 + 1),
        {"gpu:a100", "gpu:h100"},
    ),
    "pbs": (pbs_job(3, "h100", 2) + pbs_job(4, "t4", 1), 25 * (2 * 8 + 1), {"gpu:h100", "gpu:t4"}),
    "htcondor": (
        (GOLDEN / "h01_condor.jsonl").read_text(),
        3_600 * (8 + 1),
        {"gpu:nvidia_h100_pcie", "gpu:tesla_t4", "license/matlab"},
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_an_h100_counts_eight_times_in_a_metric_and_in_a_unit(make_site: Callable[..., Site], name: str) -> None:
    text, expected, kinds = FILES[name]
    site = make_site(at=datetime(2026, 1, 1, tzinfo=UTC), time_zone="UTC")
    at = datetime(2026, 12, 31, tzinfo=UTC)
    site.publish(PROJECTS)
    site.map()
    pieces = list(FORMATS[name].parse(io.BytesIO(text.encode()), Reading(at, None)))
    assert [piece.rejections for piece in pieces if piece.rejections] == []
    for piece in pieces:
        ingest_batch(source=site.source, rows=piece.batch, at=at)
    assert set(Kind.objects.values_list("name", flat=True)) == kinds
    h100 = next(kind for kind in kinds if "h100" in kind)
    metric = PolicySettings.from_json({"metric": {"weights": {"gpu_s": 1, h100: 8}}}).metric
    usage = load_usage(sources=[site.source.pk], from_at=None, to_at=at, resources=weighted_resources(metric))
    assert weighted_amounts(usage, metric=metric, classes={}).sum() == expected
    site.policy.refresh_from_db()
    tree = load_tree(site.policy)
    entry = tree.index_of_path("/physics")
    assert entry is not None
    edges = [datetime(2025, 12, 1, tzinfo=UTC), at + timedelta(days=1)]
    unit = Unit("Old GPU-hour", "old-h", (("gpu_s", 1.0), (h100, 8.0)))
    delivered = load_delivered(policy=site.policy, tree=tree, entries=[entry], edges=edges, unit=unit)
    assert delivered.between(entry, *edges) + delivered.unmapped.sum() == expected
    assert at > AS_OF
    assert Account.objects.count() == (2 if name == "htcondor" else 1)
