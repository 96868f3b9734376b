"""What `scontrol show config` says of fair share, as settings of a policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apps.core.errors import Invalid
from apps.onboarding.slurm_config import SlurmConfig, read_slurm_config
from apps.policies.settings import PolicySettings

BASE = "PriorityType = priority/multifactor\n"


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
            {"aging": "none", "length_s": None},
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
    assert found.settings == {"algorithm": algorithm, "window": window, "metric": {"weights": weights}}
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
    assert lost == {"PriorityUsageResetPeriod", "AccountingStorageEnforce", "PriorityWeightFairShare"}
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
        ("30:15", 1_815),
        ("90", 5_400),
        ("14-0:0:1", 1_209_601),
    ],
)
def test_slurm_times_are_parsed(text: str, seconds: int) -> None:
    window = read_slurm_config(f"{BASE}PriorityDecayHalfLife={text}\nPriorityCalcPeriod={text}\n").settings["window"]
    assert (window["half_life_s"], window["calc_period_s"]) == (seconds, seconds)


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
