"""What `scontrol show config` says of fair share, as settings of a policy."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from apps.core.errors import Invalid
from apps.policies.settings import PolicySettings
from apps.priorities.slurm_config import SlurmConfig, read_slurm_config

BASE = "PriorityType = priority/multifactor\n"


def config_value(golden_dir: Path, name: str, setting: str) -> str:
    lines = (golden_dir / f"slurm/config/{name}.txt").read_text().splitlines()
    return next(line.partition("=")[2].strip() for line in lines if line.startswith(setting))


def of(golden_dir: Path, name: str) -> SlurmConfig:
    return read_slurm_config((golden_dir / f"slurm/config/{name}.txt").read_text())


@pytest.mark.parametrize(
    ("name", "algorithm", "window", "weights"),
    [
        (
            "fair-tree",
            {"name": "slurm-fair-tree"},
            {"aging": "slurm", "length_s": None, "half_life_s": 604_800, "calc_period_s": 300},
            {"billing": 1.0},
        ),
        (
            "depth-oblivious",
            {"name": "slurm-depth-oblivious", "damping_factor": 3},
            {"aging": "none", "length_s": None, "reset": "monthly", "reset_zone": "UTC"},
            {"billing": 1.0},
        ),
        (
            "classic",
            {"name": "slurm-classic", "damping_factor": 1},
            {"aging": "slurm", "length_s": None, "half_life_s": 36 * 3600 + 1800, "calc_period_s": 300},
            {"billing": 1.0},
        ),
        (
            "basic",
            {"name": "slurm-fair-tree"},
            {"aging": "slurm", "length_s": None, "half_life_s": 604_800, "calc_period_s": 300},
            {"billing": 1.0},
        ),
    ],
)
def test_real_configurations_become_settings(
    golden_dir: Path, name: str, algorithm: dict[str, Any], window: dict[str, Any], weights: dict[str, float]
) -> None:
    found = of(golden_dir, name)
    assert found.cluster == "c1"
    active = {"local": "active", "global": "active"}
    if window["aging"] == "slurm":
        boot_at = datetime.fromisoformat(config_value(golden_dir, name, "BOOT_TIME"))
        window = {**window, "phase_s": (boot_at.minute * 60 + boot_at.second) % window["calc_period_s"] + 1}
    expected = {"algorithm": algorithm, "window": window, "metric": {"weights": weights}, "approach": active}
    assert found.settings == expected
    read = PolicySettings.from_json(found.settings)
    assert {key: read.algorithm[key] for key in algorithm} == algorithm
    assert {key: read.window[key] for key in window} == window
    assert read.metric["weights"] == weights


def test_every_relevant_line_shows_its_setting(golden_dir: Path) -> None:
    found = {line.name: line for line in of(golden_dir, "depth-oblivious").lines}
    assert found["PriorityFlags"].value == "DEPTH_OBLIVIOUS,NO_FAIR_TREE,MAX_TRES"
    assert found["TRESBillingWeights (batch)"].value == "CPU=1.0,Mem=0.25G"
    assert found["PriorityDecayHalfLife"].value == "00:00:00"
    lost = {name for name, line in found.items() if not line.is_carried}
    assert lost == {"AccountingStorageEnforce", "PriorityWeightFairShare", "UsageFactor"}
    assert all(line.meaning for line in found.values())
    assert not {line.name: line for line in of(golden_dir, "basic").lines}["PriorityType"].is_carried


@pytest.mark.parametrize(
    ("flags", "version", "name"),
    [
        ("", "22.05.8", "slurm-fair-tree"),
        ("(null)", "19.05.0", "slurm-fair-tree"),
        ("", "18.08.9", "slurm-classic"),
        ("FAIR_TREE", "18.08.9", "slurm-fair-tree"),
        ("NO_FAIR_TREE", "23.11.1", "slurm-classic"),
        ("depth_oblivious,no_fair_tree", "23.11.1", "slurm-depth-oblivious"),
        ("MAX_TRES", "24.11.0", "slurm-fair-tree"),
        ("", "", "slurm-fair-tree"),
    ],
)
@pytest.mark.paper("F8")
def test_flags_and_version_choose_the_algorithm(flags: str, version: str, name: str) -> None:
    text = f"{BASE}PriorityFlags = {flags}\nSLURM_VERSION = {version}\n"
    assert read_slurm_config(text).settings["algorithm"]["name"] == name


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7-00:00:00", 604_800),
        ("7-0", 604_800),
        ("1-12:30", 131_400),
        ("02:30:00", 9_000),
        ("30:15", 1_860),
        ("90", 5_400),
        ("14-0:0:1", 1_209_660),
    ],
)
def test_slurm_times_are_parsed(text: str, seconds: int) -> None:
    window = read_slurm_config(f"{BASE}PriorityDecayHalfLife={text}\nPriorityCalcPeriod={text}\n").settings["window"]
    assert (window["half_life_s"], window["calc_period_s"]) == (seconds, seconds)


@pytest.mark.parametrize("period", ["NONE", "DAILY", "Weekly", "MONTHLY", "QUARTERLY", "YEARLY", "NOW"])
def test_resets_of_usage_become_those_of_the_window_but_for_one_at_the_start(period: str) -> None:
    read = read_slurm_config(f"{BASE}PriorityUsageResetPeriod = {period}\n")
    reset = None if period in ("NONE", "NOW") else period.lower()
    assert read.settings["window"].get("reset") == reset
    lines = {line.name: line.is_carried for line in read.lines}
    assert lines.get("PriorityUsageResetPeriod") == (None if period == "NONE" else reset is not None)
    assert PolicySettings.from_json(read.settings).window.get("reset_zone") == (reset and "UTC")


def test_without_weights_cpu_seconds_count_and_with_them_billing() -> None:
    weighed = 'PartitionName=a Nodes=n TRESBillingWeights="CPU=1.0,GRES/gpu=8" State=UP\n'
    assert read_slurm_config(BASE).settings["metric"]["weights"] == {"cpu_s": 1.0}
    assert read_slurm_config(BASE + weighed).settings["metric"]["weights"] == {"billing": 1.0}
    found = read_slurm_config(f"AccountingStorageTRES=gres/gpu\n{BASE}{weighed}")  # adds to what is always recorded
    assert found.settings["metric"]["weights"] == {"billing": 1.0}
    assert [line.value for line in found.lines if line.name.startswith("TRESBilling")] == ["CPU=1.0,GRES/gpu=8"]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "PriorityType"),
        ("slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)\n", "PriorityType"),
        ("PartitionName=a PriorityType=priority/multifactor\n", "PriorityType"),
        (f"{BASE}PriorityDecayHalfLife = a week\n", "line 2"),
        (f"{BASE}\nPriorityCalcPeriod = 1:2:3:4\n", "line 3"),
    ],
)
def test_other_text_is_refused_with_its_line(text: str, where: str) -> None:
    with pytest.raises(Invalid) as error:
        read_slurm_config(text)
    assert [one.where for one in error.value.fields] == [where]


PARTITIONS = """\
PartitionName=DEFAULT TRESBillingWeights="CPU=1.0,Mem=0.25G" State=UP
PartitionName=batch Nodes=ALL
partitionname=gpu Nodes=ALL tresbillingweights=CPU=0.5,GRES/gpu=8.5
"""


def test_weights_of_each_partition_are_those_of_the_source() -> None:
    found = read_slurm_config(f"{BASE}PriorityFlags=MAX_TRES\n{PARTITIONS}")
    weights = {"batch": "CPU=1.0,Mem=0.25G", "gpu": "CPU=0.5,GRES/gpu=8.5"}
    assert found.billing_weights == {"partitions": weights, "flag": "MAX_TRES"}
    assert found.settings["metric"]["weights"] == {"billing": 1.0}
    assert read_slurm_config(BASE).billing_weights == {}
    both = read_slurm_config(f"{BASE}PriorityFlags=MAX_TRES,MAX_TRES_GRES\n{PARTITIONS}")
    assert both.billing_weights["flag"] == "MAX_TRES_GRES"
    with pytest.raises(Invalid) as error:
        read_slurm_config(f"{BASE}PartitionName=a TRESBillingWeights=CPU\n")
    assert [one.where for one in error.value.fields] == ["line 2"]


@pytest.mark.parametrize(
    "qos",
    [
        "Name|UsageFactor\nnormal|1.000000\nlow|0.500000\nhigh|2.000000\nfree|0.000000\n",
        "Name|UsageFactor|\nnormal|1.000000|\nlow|0.500000|\nhigh|2.000000|\nfree|0.000000|\n",
        "Name|Priority|Flags|UsageFactor|GrpTRES\nlow|0|DenyOnLimit,NoDecay|0.500000|cpu=4\nhigh|0||2.000000|\nfree|0||0|\n",
        "      Name UsageFactor \n---------- ----------- \n       low    0.500000 \n      high    2.000000 \n"
        "      free    0.000000 \n",
        "QOS - 'normal':Description='Normal QOS default'\nQOS - 'low':Description='a':UsageFactor=0.500000\n"
        "QOS - 'high':UsageFactor=2:UsageThreshold=0.1\nQOS - 'free':UsageFactor=0.000000\n",
    ],
)
def test_usage_factors_of_qos_are_factors_of_the_metric(qos: str) -> None:
    expected = [
        {"queue": "", "partition": "", "qos": name, "factor": factor}
        for name, factor in (("free", 0.0), ("high", 2.0), ("low", 0.5))
    ]
    for text in (BASE + qos, qos + BASE):
        found = read_slurm_config(text)
        assert found.settings["metric"]["class_factors"] == expected
        assert PolicySettings.from_json(found.settings).metric["class_factors"] == expected
        lines = {line.name: line.value for line in found.lines if line.name.startswith("UsageFactor")}
        assert lines == {"UsageFactor (free)": "0", "UsageFactor (high)": "2", "UsageFactor (low)": "0.5"}


def test_a_cut_off_name_of_a_qos_is_not_guessed() -> None:
    table = "Name UsageFactor\n---------- -----------\ninteracti+    0.500000\n"
    found = read_slurm_config(BASE + table)
    assert found.settings["metric"]["class_factors"] == []
    assert {line.name for line in found.lines if not line.is_carried} == {
        "BOOT_TIME",
        "UsageFactor (interacti+)",
        "TRESBillingWeights",
    }


def test_what_is_missing_is_named_with_the_command_that_prints_it() -> None:
    found = {line.name: line for line in read_slurm_config(BASE).lines}
    assert "class_factors" not in read_slurm_config(BASE).settings["metric"], "those of the policy stay"
    for name, command in (
        ("UsageFactor", "sacctmgr -P show qos format=Name,UsageFactor"),
        ("TRESBillingWeights", "scontrol show partition"),
        ("BOOT_TIME", "scontrol show config"),
    ):
        assert not found[name].is_carried
        assert command in found[name].meaning
    complete = read_slurm_config(
        f"{BASE}BOOT_TIME = 1795716704\nPartitionName=a State=UP\nName|UsageFactor\nnormal|1.000000\n"
    )
    assert all(line.is_carried for line in complete.lines)


@pytest.mark.parametrize(
    ("line", "half_life_s"),
    [
        ("PriorityDecayHalfLife=14-0", 1_209_600),
        ("prioritydecayhalflife = 7-00:00:00", 604_800),
        ('PRIORITYDECAYHALFLIFE="1-12"', 129_600),
        ("PriorityDecayHalfLife=10080", 604_800),
        ("PriorityDecayHalfLife=02:30:00", 9_000),
        ("PriorityDecayHalfLife=90:01", 5_460),  # rounded up to whole minutes
        ("PriorityDecayHalfLife = 300 sec", 300),
        ("PriorityDecayHalfLife=2 days", 172_800),
        ("PriorityDecayHalfLife=7-0 # a week", 604_800),
        ("PriorityDecayHalfLife= \\\n   14-0", 1_209_600),
        ("PriorityDecayHalfLife=1-0\nPriorityDecayHalfLife=14-0", 1_209_600),  # the last counts
        ("   PriorityDecayHalfLife=14-0", 1_209_600),
        ("PartitionName=batch Nodes=n1\n  PriorityDecayHalfLife=14-0", 1_209_600),
        ("# PriorityDecayHalfLife=1-0 \\\nPriorityDecayHalfLife=14-0", 1_209_600),
    ],
)
def test_a_half_life_is_read_in_every_spelling(line: str, half_life_s: int) -> None:
    found = read_slurm_config(f"PriorityType=priority/multifactor\n{line}\n")
    assert found.settings["window"]["half_life_s"] == half_life_s


@pytest.mark.parametrize("text", ["0", "00:00:00", "0-0"])
def test_a_half_life_of_zero_is_no_decay(text: str) -> None:
    found = read_slurm_config(f"{BASE}PriorityDecayHalfLife={text}\n")
    assert found.settings["window"] == {"aging": "none", "length_s": None}


def test_keys_have_no_letter_case(golden_dir: Path) -> None:
    found = read_slurm_config((golden_dir / "field/c01_lower.conf").read_text())
    assert found.cluster == "tux"
    assert found.settings["metric"]["weights"] == {"billing": 1.0}
    assert found.settings["window"]["half_life_s"] == 1_209_600
    assert found.settings["algorithm"] == {"name": "slurm-fair-tree"}
    without = read_slurm_config((golden_dir / "field/nodecay.conf.txt").read_text())
    assert without.settings["window"]["aging"] == "none"


@pytest.mark.parametrize(
    ("lines", "weights"),
    [
        ("PartitionName=a Nodes=n1 TRESBillingWeights=CPU=2", {"a": {"cpu": 2.0}}),
        ('partitionname=a nodes=n1 tresbillingweights="CPU=2, Mem=1G" MaxTime=1', None),
        (
            "PartitionName=a Nodes=n1\nPartitionName=Default TRESBillingWeights=CPU=2\nPartitionName=b Nodes=n2\n"
            "PartitionName=c Nodes=n3 TRESBillingWeights=CPU=3\nPartitionName=DEFAULT MaxTime=1\nPartitionName=d",
            {"b": {"cpu": 2.0}, "c": {"cpu": 3.0}, "d": {"cpu": 2.0}},
        ),
        ("PartitionName=a \\\n  Nodes=n1 \\\n  TRESBillingWeights=CPU=2", {"a": {"cpu": 2.0}}),
        ("PartitionName=a\n   AllowGroups=ALL Default=NO\n   TRESBillingWeights=CPU=2\n", {"a": {"cpu": 2.0}}),
        ("PartitionName=a Nodes=n1 # TRESBillingWeights=CPU=2", {}),
    ],
)
def test_weights_belong_to_the_partitions_of_slurm(lines: str, weights: dict[str, Any] | None) -> None:
    found = read_slurm_config(f"{BASE}{lines}\n")
    listed = {line.name: line.value for line in found.lines if line.name.startswith("TRESBillingWeights (")}
    if weights is None:
        assert listed == {"TRESBillingWeights (a)": "CPU=2, Mem=1G"}
    else:
        assert listed == {f"TRESBillingWeights ({name})": f"CPU={one['cpu']:g}" for name, one in weights.items()}


def test_an_included_file_is_named_as_not_read() -> None:
    found = read_slurm_config(f"{BASE}include /etc/slurm/priority.conf\n")
    included = next(line for line in found.lines if line.name == "Include")
    assert (included.value, included.is_carried) == ("/etc/slurm/priority.conf", False)
    assert "line 2" in included.meaning
    assert "scontrol show config" in included.meaning
    with pytest.raises(Invalid, match=r"what priority\.conf says"):
        read_slurm_config("ClusterName=tux\nInclude priority.conf\n")


def test_two_options_in_one_line_are_refused_as_slurm_refuses_them() -> None:
    with pytest.raises(Invalid, match="followed by another option") as refusal:
        read_slurm_config(f"{BASE}PriorityDecayHalfLife=7-0 PriorityCalcPeriod=5\n")
    assert refusal.value.fields[0].where == "line 2"


@pytest.mark.parametrize(
    ("boot", "period", "phase_s"),
    [
        ("2026-11-26T18:01:55", "00:05:00", 116),
        ("2026-11-26T17:59:59", "00:05:00", 300),
        ("1795715999", "00:05:00", 300),
        ("1795716704", "00:05:00", 1_795_716_705 % 300),
        ("1795716704", "00:07:00", 1_795_716_705 % 420),
        ("2026-11-26T18:01:55", "00:07:00", 0),  # its zone would matter
        ("(null)", "00:05:00", 0),
        ("yesterday", "00:05:00", 0),
        ("9" * 400, "00:05:00", 0),
        ("²", "00:05:00", 0),
    ],
)
def test_periods_start_with_the_controller(boot: str, period: str, phase_s: int) -> None:
    found = read_slurm_config(f"{BASE}PriorityCalcPeriod={period}\nBOOT_TIME = {boot}\n")
    assert found.settings["window"]["phase_s"] == phase_s
    line = next(line for line in found.lines if line.name == "BOOT_TIME")
    command = f"{'SLURM_TIME_FORMAT=%s ' if 900 % (60 * int(period[3:5])) else ''}scontrol show config"
    unknown = (
        f"Periods start at whole multiples of PriorityCalcPeriod, because it is not known: add the output of {command}."
    )
    assert line.is_carried == bool(phase_s)
    assert phase_s or line.meaning == unknown


def test_without_periods_their_start_is_not_asked_for() -> None:
    found = read_slurm_config(f"{BASE}PriorityDecayHalfLife=0\n")
    assert "BOOT_TIME" not in {line.name for line in found.lines}
