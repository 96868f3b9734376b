"""What Slurm 22.05.8 prints, and what a hostile one might: the golden listings and rows made for a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.adapters import slurm
from agent.commands import Output
from agent.records import Unreadable
from agent.report import queue_rows

PENDING = "38|38|N/A|alice|hep|debug|normal|6|1795156623|PENDING|64908|0|Resources\n"


@pytest.fixture
def samples(golden_dir: Path) -> Path:
    return golden_dir / "slurm" / "samples"


def test_a_real_listing_has_arrays_held_jobs_dependencies_and_reasons_in_words(samples: Path) -> None:
    priorities = slurm.parse_priorities((samples / "agent-sprio.txt").read_text())
    queue = slurm.parse_queue((samples / "agent-squeue.txt").read_text(), priorities, "sitefactor")
    assert queue.skipped == []
    assert queue.known == {"1", "2", "3", "4", "5", "6", "7"}
    jobs = {job.id: job for job in queue.jobs}
    assert set(jobs) == {"1", "2", "3", "4", "5", "6"}, "the running task of array 3 has the number 7"
    assert (jobs["3"].array_task, jobs["3"].current) == ("1-99%2", 777)
    assert [number for number, job in jobs.items() if job.is_held] == ["2"]
    assert {number for number, job in jobs.items() if job.current is None} == {"1", "2", "6"}, (
        "sprio lists none of them"
    )
    assert jobs["4"].partitions == ("batch", "other")
    assert jobs["4"].reason.startswith("Nodes required for job are DOWN")
    assert jobs["1"].submit_at == 1795419938.0


def test_a_reason_with_bars_does_not_split_a_row() -> None:
    (job,) = slurm.parse_queue(PENDING.replace("Resources", "a|b|c"), {}, "sitefactor").jobs
    assert job.reason == "a|b|c"


@pytest.mark.parametrize(("text", "n_cpus"), [("1000", 1000), ("1K", 1024), ("1.50K", 1536), ("128K", 131_072)])
def test_processors_from_1024_on_have_a_unit(text: str, n_cpus: int) -> None:
    queue = slurm.parse_queue(PENDING.replace("|6|", f"|{text}|"), {}, "sitefactor")
    assert ([job.cpus for job in queue.jobs], queue.skipped) == ([n_cpus], [])


@pytest.mark.parametrize(
    ("state", "n_waiting"),
    [
        *[(state, 0) for state in ("RUNNING", "SUSPENDED", "CONFIGURING", "RESIZING", "STOPPED", "SIGNALING")],
        *[(state, 1) for state in ("PENDING", "COMPLETING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT")],
    ],
)
def test_a_flag_hides_the_state_of_a_job_that_runs(state: str, n_waiting: int) -> None:
    queue = slurm.parse_queue(PENDING.replace("PENDING", state), {}, "sitefactor")
    assert (len(queue.jobs), set(queue.known), queue.n_damaged) == (n_waiting, {"38"}, 0)


def test_a_hundred_thousand_tasks_of_one_array_are_one_job() -> None:
    row = PENDING.replace("N/A", "0-99999%5")
    queue = slurm.parse_queue(row, {}, "sitefactor")
    assert [(job.id, job.array_task) for job in queue.jobs] == [("38", "0-99999%5")]


def test_the_best_row_of_several_partitions_is_used() -> None:
    rows = "4|600|7|0|0|0|100|500|0|0\n4|900|7|0|0|0|400|500|0|0\n4|700|7|0|0|0|200|500|0|0\n"
    assert slurm.parse_priorities(rows)["4"].terms["jobsize"] == 400


def test_several_partitions_and_qos_have_a_priority_each_and_the_best_counts(golden_dir: Path) -> None:
    """Captured with 26.05.5: squeue prints the priority by the first QOS of job 11, which isn't the best."""
    folder = golden_dir / "slurm/26.05.5/several-qos"
    head, *printed = (folder / "squeue-all.txt").read_text().splitlines()
    assert head.split("|")[26::15] == ["JOBID", "PARTITION"]
    columns = (26, 31, 36, 20, 0, 41, 16, 28, 47, 45, 42, 24, 17)  # of QUEUE_COLUMNS in %all
    listing = "".join("|".join(line.split("|")[at] for at in columns) + "\n" for line in printed)
    places = (0, 4, 5, 6, 7, 8, 9, 10, 12, 13, 1, 11)  # of PRIORITY_COLUMNS in -l
    rows = [line.split() for line in (folder / "sprio-l.txt").read_text().splitlines()[1:]]
    terms = "".join("|".join(row[at] for at in places) + "\n" for row in rows)
    jobs = {job.id: job for job in slurm.parse_queue(listing, slurm.parse_priorities(terms), "sitefactor").jobs}
    job = jobs["11"]
    assert "|28323|" in next(line for line in listing.splitlines() if line.startswith("11|"))
    assert (job.qos, job.priority, job.terms and job.terms["qos"]) == ("normal,half", 29323, 2000)
    assert job.priorities == (("batch", "half", 29323), ("batch", "normal", 28323))
    assert [number for number, each in jobs.items() if each.priorities] == ["11"]
    assert (jobs["15"].is_held, jobs["15"].priority) == (True, 0)
    sent = [queue_rows([job], {}, takes)[0] for takes in (True, False)]
    assert sent[0].pop("priorities") == [
        {"partition": "batch", "qos": "half", "priority": 29323},
        {"partition": "batch", "qos": "normal", "priority": 28323},
    ]
    assert sent[0] == sent[1], "a server of an older release refuses the field"


def test_releases_before_24_05_print_no_qos() -> None:
    """sprio of 22.05 complains of %n beside the listing, and leaves the column empty."""
    rows = "4|900|7|0|0|0|400|500|0|0|gpu|\n4|600|7|0|0|0|100|500|0|0|batch|\n"
    assert slurm.parse_priorities(rows)["4"].priorities == (("gpu", "", 900), ("batch", "", 600))


def test_a_priority_of_0_stays_held_whatever_sprio_printed_before() -> None:
    rows = slurm.parse_priorities("38|900|7|0|0|0|400|500|0|0|gpu|\n38|600|7|0|0|0|100|500|0|0|batch|\n")
    (job,) = slurm.parse_queue(PENDING.replace("|64908|", "|0|"), rows, "sitefactor").jobs
    assert (job.is_held, job.priority) == (True, 0)


@pytest.mark.parametrize(
    "row",
    [
        *("4|x|7|0|0|0|1|5|0|0", "4|6|7", "4|nan|7|0|0|0|1|5|0|0", "4|1e999|7|0|0|0|1|5|0|0", ""),
        *("4|" + "9" * 400 + "|7|0|0|0|1|5|0|0", "4|6|7_0|0|0|0|1|5|0|0", "4|6|\u0667|0|0|0|1|5|0|0"),
    ],
)
def test_an_invalid_sprio_row_is_skipped(row: str) -> None:
    assert slurm.parse_priorities(row + "\n") == {}


@pytest.mark.parametrize("count", ["9" * 400, "1_0", "\u0661", "\u00b2", "1K1"])
def test_a_row_of_squeue_with_what_slurm_prints_for_no_number_is_damaged(count: str) -> None:
    for row in (PENDING.replace("|6|", f"|{count}|"), PENDING.replace("|0|Resources", f"|{count}|Resources")):
        queue = slurm.parse_queue(row, {}, "sitefactor")
        assert (queue.jobs, queue.n_damaged) == ([], 1)


@pytest.mark.parametrize("submitted", ["\u00b2", "9" * 400, "Unknown"])
def test_a_job_may_have_no_time_of_submission(submitted: str) -> None:
    cells = PENDING.strip().split("|")
    (job,) = slurm.parse_queue("|".join([*cells[:8], submitted, *cells[9:]]) + "\n", {}, "nice").jobs
    assert job.submit_at is None


def test_a_number_of_sshare_beyond_a_double_is_none() -> None:
    head = "Account|User|RawShares|NormShares|RawUsage|EffectvUsage|FairShare"
    (row,) = slurm.parse_shares(f"{head}\nphysics||1|1e999|5|{'9' * 400}|0.5\n", "c1")
    assert (row["norm_shares"], row["effective_usage"], row["fairshare"]) == (None, None, 0.5)


def test_a_negative_nice_and_a_negative_site_factor_are_read() -> None:
    (job,) = slurm.parse_queue(PENDING.replace("|0|Resources", "|-2000|Resources"), {}, "nice").jobs
    assert job.current == -2000
    assert slurm.parse_priorities("38|1|-7000|0|0|0|0|0|0|-2000\n")["38"].site == -7000


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ("Job has already finished for job 1", "job_gone"),
        ("Invalid job id specified for job 9999", "job_gone"),
        ("Access/permission denied for job 16", "denied"),
        ("scontrol: error: SiteFactor value out of range (+/- 2147483645). Value ignored", "refused"),
        ("", "refused"),
    ],
)
def test_scontrol_messages_are_classified(found: str, code: str) -> None:
    problem = slurm.problem_of(Output(1, "", found + "\n"))
    assert problem is not None
    assert problem.code == code
    assert slurm.problem_of(Output(0, "", found)) is None


def test_shares_are_read_by_column_name_with_and_without_fair_tree(samples: Path) -> None:
    rows = slurm.parse_shares((samples / "sshare-l-P.txt").read_text(), "demo")
    bobby = {"group": "physics", "user": "bobby", "raw_shares": "parent", "norm_shares": 0.594059, "raw_usage": 59}
    more = {"parent": None, "effective_usage": 0.13948, "fairshare": 0.8, "level_fs": None}
    assert {"cluster": "demo", **bobby, **more} in rows
    assert {row["group"]: row["parent"] for row in rows if not row["user"]}["hep"] == "physics"
    assert [row["level_fs"] for row in rows if row["group"] == "biology"] == ["Infinity", "Infinity"]
    classic = slurm.parse_shares((samples / "sshare-l-P-classic.txt").read_text(), "demo")
    assert {row["level_fs"] for row in classic} == {None}
    header = "Account|User|Partition|RawShares|RawUsage|FairShare\n"
    limited = slurm.parse_shares(header + " phys|ann||2|40|0.5\n phys|ann|GPU|3|10|0.75\n", "demo")
    assert [(row["user"], row["raw_shares"]) for row in limited] == [("ann", 2), ("ann:gpu", 3)]
    with pytest.raises(Unreadable):
        slurm.parse_shares("nothing of the kind\n", "demo")


def config(**changes: str) -> dict[str, str]:
    good = {
        "PriorityType": "priority/multifactor", "PriorityWeightFairShare": "0", "PrioritySiteFactorPlugin": "(null)",
        "SLURM_VERSION": "22.05.8", "AccountingStorageEnforce": "associations,limits,qos",
    }  # fmt: skip
    return {**good, **changes}


def test_a_valid_configuration_has_no_findings() -> None:
    assert {finding.severity for finding in slurm.check_config("sitefactor", config())} == {"ok"}


def test_partitions_of_several_tiers_are_named_in_their_order() -> None:
    lines = [
        *(
            "PartitionName=batch AllowGroups=ALL PriorityJobFactor=1 PriorityTier=1 State=UP",
            "PartitionName=old State=UP",
        ),
        *(f"PartitionName=short{n} PriorityTier=20 PriorityJobFactor=1" for n in range(5)),
        *("PartitionName=debug PriorityTier=300", "what=ever PriorityTier=7"),
    ]
    partitions = slurm.parse_tiers("\n".join(lines))
    assert partitions[:2] == [("batch", 1), ("old", 1)]
    finding = slurm.check_tiers(partitions)
    assert (finding.severity, finding.found) == (
        "warning",
        "Whatever their priority, jobs go by partition: debug (PriorityTier=300); then short0, short1, short2 and 2 "
        "more (PriorityTier=20); then batch, old (PriorityTier=1).",
    )
    assert slurm.check_tiers(partitions[:2]).severity == slurm.check_tiers([]).severity == "ok"


@pytest.mark.parametrize(
    ("name", "value", "code", "severity"),
    [
        ("PriorityType", "priority/basic", "priority_type", "error"),
        ("PriorityWeightFairShare", "100000", "double_counting", "error"),
        ("PrioritySiteFactorPlugin", "site_factor/own", "site_factor_plugin", "error"),
        ("SLURM_VERSION", "99.1.0", "version", "warning"),
        ("SLURM_VERSION", "what", "version", "warning"),
        ("AccountingStorageEnforce", "associations", "usage_lost", "warning"),
        ("AccountingStorageEnforce", "none", "usage_lost", "warning"),
    ],
)
def test_each_finding_has_its_line(name: str, value: str, code: str, severity: str) -> None:
    findings = slurm.check_config("sitefactor", config(**{name: value}))
    (found,) = [finding for finding in findings if finding.severity != "ok"]
    assert (found.code, found.severity) == (code, severity)
    assert value in found.found
    assert found.remedy
