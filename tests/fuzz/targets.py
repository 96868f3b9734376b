"""What is fuzzed: each reader of foreign text with its oracle and seeds.

A check gets bytes and says whether its reader took them. The reader may refuse them as the product refuses; anything
else that is raised is a finding. Seeds are the readers' own samples and files of tests/golden, as they are there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

from apps.contrib.lab.experiments.scenario_base import scenario_spec
from apps.contrib.lab.scenario_files import SHIPPED, shipped_scenarios
from apps.policies.formats.registry import FORMATS as POLICY_FORMATS
from apps.usage.parsers.registry import FORMATS as USAGE_FORMATS
from tests.fuzz import agent_listings, mapping_rules, policy_formats, signed_documents, typed_texts, usage_formats
from tests.fuzz.target import GOLDEN, Seeds, Target


def _sample(text: str) -> Seeds:
    return lambda: [text.encode()]


def _none() -> list[bytes]:
    return []


_OF_USAGE = {
    "flux": ("field/f0*_flux_jobs.json*",),
    "gridengine": ("gridengine/samples/accounting", "field/*.accounting"),
    "gridengine-jsonl": ("field/g03_ocs.jsonl",),
    "htcondor": ("field/h01_condor.jsonl", "htcondor/samples/history*", "htcondor/samples/queue.json"),
    "lsf": ("field/l0*.acct",),
    "pbs": ("field/p0*.acct",),
    "sacct": ("slurm/samples/sacct-*.txt", "slurm/charged/sacct*.txt", "field/*.sacct"),
    "sacct-json": ("slurm/samples/sacct.json", "field/s*.json"),
    "squeue-json": ("slurm/samples/squeue.json", "slurm/site/squeue-empty.json"),
}
_OF_POLICIES = {
    "csv": ("field/*.csv",),
    "sacctmgr": ("field/*.cfg", "slurm/charged/dump.cfg", "slurm/samples/sacctmgr-dump-demo.cfg"),
    "sacctmgr-script": ("field/*.sh",),
    "ge": ("field/e0*.txt", "gridengine/samples/qconf-sstree.txt"),
}
_ORDERS = (
    b'{"name":"c1","policy":"grid","kind":"slurm","namespace":null,"partitions":["batch"],"subtree":"/","knob":"nice",'
    b'"weight":1000,"step":1,"mode":"on","canary_partition":null,"every_s":60,"limits":{"snapshot_age_s":600,'
    b'"unmapped_percent":50,"changed_percent":50,"calls_per_s":10},"paused":false,"reset_values":false,"revision":3,'
    b'"carries":"shares","share_order":{"id":1,"cluster":"c1","lines":[{"line":1,"group":"a","user":"","before":"1",'
    b'"after":"2"}]},"resumes":1}'
)
_LOOK_UP = (
    b'{"snapshot":7,"age_s":1.5,"results":[{"account":"kim","entry":"/atlas/kim","factor":0.5},'
    b'{"account":"ann","entry":null,"factor":1,"error":"unmapped"}]}'
)
_SLURM_CONFIG = (
    b"AccountingStorageEnforce = associations,limits\nClusterName             = c1\nSlurmUser = slurm(64030)\n"
    b"PriorityType = priority/multifactor\nPriorityWeightFairShare = 0\nPrioritySiteFactorPlugin = (null)\n"
    b"SLURM_VERSION = 22.05.8\n"
)
_GRIDENGINE_CONFIG = (
    b"GE 8.1.9\nalgorithm                         default\nweight_ticket                     0.500000\n"
    b"weight_urgency                    0.000000\nweight_tickets_share              10000\n"
)
_ASSOCIATIONS = b"c1|physics|||root|10\nc1|physics|ann|||1\nc1|physics|ann|gpu||parent\nc2|x|||root|3\n"
_NUMBERS = [b"12", b"1,5", b"1 234,5", b"1.234.567", b"-0.5e3", "1\u202f000".encode(), b"1,234"]
_NAMES = [
    *(b"/DC=org/O=Grid/CN=Kim Lee", b"CN=Kim+UID=k\\,l,OU=#0C0141,DC=org", b"/atlas/Role=NULL/Capability=NULL"),
    *(b"emailAddress=k@x.org,CN=Kim,O=A\\2CB", b"/atlas/higgs/Role=production", "stra\u00dfe/%2F\u0301".encode()),
]
_CASES = [
    b'[{"id":"a","algorithm":{"name":"aequus","operator":"sigmoid-2"},"policy":{"children":[{"name":"g","shares":2,'
    b'"children":[{"name":"u","shares":1,"kind":"user"},{"name":"v","shares":"parent"}]},{"name":"w","shares":3}]},'
    b'"usage":{"/g/u":5,"/w":1e3}}]',
    *(
        b'{"algorithm":{"name":"%s"},"policy":{"children":[{"name":"g","shares":1,"children":[{"name":"u","shares":2},'
        b'{"name":"v","shares":1}]}]},"usage":{"/g/u":1}}' % name
        for name in (b"slurm-fair-tree", b"slurm-classic", b"slurm-depth-oblivious", b"gridwide", b"flux")
    ),
]
_SETTINGS = (
    b'{"algorithm":{"name":"aequus","operator":"relative"},"metric":{"weights":{"cpu_s":1.5},"class_factors":['
    b'{"queue":"long","factor":2}],"site_factors":[]},"window":{"aging":"exponential","half_life_s":604800},'
    b'"fallback_factor":0.5,"tolerance":{"relative":0.1,"points":0.5},"review":{"points":5,"users":null}}'
)


def _made() -> Iterator[Target]:
    for name, collector in USAGE_FORMATS.items():
        yield Target(
            f"usage-{name}", partial(usage_formats.check, name), _sample(collector.sample), _OF_USAGE.get(name, ())
        )
    for name, policy_format in POLICY_FORMATS.items():
        check = partial(policy_formats.check, name)
        yield Target(f"policy-{name}", check, _sample(policy_format.sample), _OF_POLICIES.get(name, ()))
    yield Target("signed", signed_documents.sealed, signed_documents.seeds_of_policies)
    yield Target("canonical-json", signed_documents.canonical_json, signed_documents.seeds_of_feeds)
    yield Target("signed-policy", signed_documents.policy, lambda: signed_documents.seeds_of_policies()[:1])
    yield Target("signed-usage", signed_documents.usage, signed_documents.seeds_of_feeds)
    yield Target("mapping-rules", mapping_rules.check, mapping_rules.seeds, most_bytes=2048)
    yield Target("agent-squeue", agent_listings.squeue, _squeue_with_sprio)
    yield Target("agent-queue-state", agent_listings.queue_state, _queue_state, most_bytes=8192)
    yield Target("agent-qstat", agent_listings.qstat, _none, ("gridengine/samples/qstat-*.xml",), 16 * 1024)
    yield Target("agent-associations", agent_listings.associations, lambda: [_ASSOCIATIONS])
    yield Target("agent-share-tree", agent_listings.share_tree, _none, ("gridengine/samples/qconf-sstree.txt",))
    yield Target("agent-sshare", agent_listings.sshare, _none, ("slurm/samples/sshare-l-P*.txt",))
    yield Target("agent-config", agent_listings.config, lambda: [_SLURM_CONFIG, _GRIDENGINE_CONFIG])
    yield Target("agent-orders", agent_listings.orders, lambda: [_ORDERS])
    yield Target("agent-look-up", agent_listings.look_up, lambda: [_LOOK_UP], most_bytes=2048)
    yield Target("numbers", typed_texts.number, lambda: _NUMBERS, most_bytes=500)
    yield Target("grid-names", typed_texts.grid_name, lambda: _NAMES, most_bytes=1024)
    yield Target("listings", typed_texts.listing, _none, ("gridengine/samples/qstat-*", "slurm/samples/sprio-*.txt"))
    yield Target("slurm-config", typed_texts.slurm_config, lambda: [_SLURM_CONFIG], ("slurm/config/*.txt",), 16 * 1024)
    yield Target("settings", typed_texts.settings, lambda: [_SETTINGS, b"{}"], most_bytes=4096)
    yield Target("billing", typed_texts.billing, lambda: [b"CPU=1.0,Mem=0.25G,GRES/gpu=2"], most_bytes=5000)
    yield Target("cases", typed_texts.case, lambda: _CASES, most_bytes=4096)
    yield Target("scenarios", typed_texts.scenario, _scenarios, most_bytes=4096)
    yield Target("experiments", typed_texts.experiment, _experiments, most_bytes=4096)


def _scenarios() -> list[bytes]:
    return [path.read_bytes() for path in sorted(SHIPPED.glob("*.json"))]


def _experiments() -> list[bytes]:
    replay = {
        "workload": {"kind": "replay", "days": 7},
        "variants": [{"name": "b", "settings": {"fallback_factor": 0}}],
    }
    return [json.dumps(spec).encode() for spec in (replay, *map(scenario_spec, sorted(shipped_scenarios())))]


def _queue_state() -> list[bytes]:
    """squeue, sinfo and scontrol of each release, as `agent_listings.queue_state` reads them."""
    folders = sorted((GOLDEN / "slurm/queue-state").iterdir())
    names = ("squeue.txt", "sinfo-drained.txt", "reservations.txt")
    return [b"\n".join((folder / name).read_bytes() for name in names) for folder in folders]


def _squeue_with_sprio() -> list[bytes]:
    folder = GOLDEN / "slurm/samples"
    return [(folder / "agent-squeue.txt").read_bytes() + b"\n" + (folder / "agent-sprio.txt").read_bytes()]


TARGETS: dict[str, Target] = {target.name: target for target in _made()}
