"""What holds with real schedulers: each fact with its tests, and what changed between releases of Slurm."""

from __future__ import annotations

from dataclasses import dataclass

_TESTS = "tests/real_schedulers"


@dataclass(frozen=True, slots=True)
class Fact:
    """what: is compared. exactness: how close it is. tests: `file::name` below tests/real_schedulers."""

    what: str
    exactness: str
    tests: tuple[str, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(f"{_TESTS}/{test}" for test in self.tests)


FACTS: dict[str, tuple[Fact, ...]] = {
    "slurm": (
        Fact(
            "FairShare of each association beside `sshare`",
            "all printed digits",
            (
                "test_slurm_round.py::test_fair_share_equals_slurm_and_every_account_is_mapped",
                "test_slurm_nasty_site.py::test_every_number_of_sshare_after_the_import_and_while_collecting",
                "test_slurm_deep_trees.py::test_a_deep_tree_with_slurm_usage_equals_sshare",
            ),
        ),
        Fact(
            "usage beside RawUsage, from the accounting log alone",
            "the decay of one PriorityCalcPeriod: 0.03 % with seven days and five minutes",
            ("test_slurm_nasty_site.py::test_every_number_of_sshare_after_the_import_and_while_collecting",),
        ),
        Fact(
            "usage after PriorityUsageResetPeriod",
            "equal",
            ("test_slurm_resets.py::test_usage_after_a_reset_is_that_of_sshare",),
        ),
        Fact(
            "order of the queue, through a publish, a hung database and a killed controller",
            "equal after the next pass",
            (
                "test_agent_follows.py::"
                "test_the_slurm_queue_follows_the_policy_through_a_killed_controller_and_is_reset",
                "test_agent_through_a_day.py::"
                "test_an_agent_through_a_publish_a_freeze_a_resume_a_hung_database_and_a_reset",
            ),
        ),
        Fact(
            "shares set in Slurm, and drift that was made there",
            "equal, and nothing else is touched",
            (
                "test_shares_sync.py::test_a_share_is_set_in_slurm_and_drift_is_detected_and_corrected",
                "test_slurm_round.py::test_one_changed_share_is_set_in_slurm_and_nothing_else",
            ),
        ),
        Fact(
            "limits set, a job refused, hours added, the job starts; `sacctmgr dump` afterwards",
            "equal to the one before",
            ("test_limits_out.py::test_a_project_that_is_used_up_starts_no_job_until_hours_are_added",),
        ),
        Fact(
            "exported commands and files, as `sacctmgr` takes them",
            "equal to what the export says",
            (
                "test_slurm_files.py::test_commands_have_the_effect_that_slurm_gives_them",
                "test_slurm_files.py::test_lines_are_loaded_as_slurm_loads_them",
            ),
        ),
        Fact(
            "a controller or database that is down",
            "no job vanishes",
            (
                "test_slurm_down.py::test_an_unavailable_controller_makes_no_job_vanish_and_is_retried",
                "test_slurm_down.py::test_empty_accounting_is_not_a_failure_but_a_lost_database_is",
            ),
        ),
        Fact(
            "slurmrestd with JSON Web Tokens (24.11, 26.05): refused ones, and one that expires in a collection",
            "named with its file; windows before it are stored whole",
            (
                "test_slurmrestd_tokens.py::test_a_token_that_the_daemon_doesnt_take_is_refused_with_its_file",
                "test_slurmrestd_tokens.py::test_a_token_that_expires_in_a_collection_leaves_the_windows_before_it",
            ),
        ),
        Fact(
            "two clusters of one slurmdbd",
            "each has its own jobs and tree",
            ("test_two_clusters.py::test_each_of_two_clusters_is_read_by_itself",),
        ),
        Fact(
            "partitions of several PriorityTier",
            "the higher one first, whatever the priorities; the agent's check names them",
            ("test_priority_tiers.py::test_a_job_of_the_higher_tier_starts_before_one_of_higher_priority",),
        ),
        Fact(
            "order of the queue by the fewest updates",
            "equal to that of all updates",
            ("test_agent_updates.py::test_the_fewest_updates_give_the_same_order_for_a_part_of_the_rpcs",),
        ),
        Fact(
            "what became of each promise of a start, with drains, holds and requeues between",
            "as the job's start in accounting says",
            ("test_starts_beside_slurm.py::test_promises_of_hours_are_settled_once_by_true_starts_and_hold_widely",),
        ),
    ),
    "gridengine": (
        Fact(
            "order of the queue by override tickets and by priority",
            "equal after the next pass",
            (
                "test_agent_follows.py::test_the_grid_engine_queue_follows_the_policy_and_is_reset",
                "test_jsv.py::test_a_job_gets_its_priority_at_submission_and_the_queue_follows",
            ),
        ),
        Fact(
            "nodes of the share tree set",
            "equal, and their usage stays",
            ("test_shares_sync.py::test_grid_engine_share_tree_nodes_are_set_and_usage_stays",),
        ),
        Fact(
            "accounting of jobs that ran",
            "every job once",
            ("test_sites.py::test_grid_engine_orders_pending_jobs_by_override_tickets_and_accounts_for_them",),
        ),
    ),
    "htcondor": (
        Fact(
            "order in which jobs start",
            "by rank, no inversion",
            ("test_htcondor.py::test_jobs_start_in_the_order_of_our_ranks_and_factors_are_handed_back",),
        ),
        Fact(
            "priority factors after a reset",
            "as printed before; one that was changed since stays",
            ("test_htcondor.py::test_jobs_start_in_the_order_of_our_ranks_and_factors_are_handed_back",),
        ),
        Fact(
            "usage of evicted, held, removed and suspended jobs, in each form of the history",
            "CumulativeSlotTime of every job",
            ("test_htcondor.py::test_usage_is_what_htcondor_charges_through_evictions_holds_and_suspension",),
        ),
        Fact(
            "effective user priority of each submitter, after ten seconds or more of its decay",
            "six decimals of the real priority, which HTCondor rounds at each update",
            ("test_htcondor.py::test_effective_priorities_are_those_of_the_negotiator_and_jobs_start_in_that_order",),
        ),
        Fact(
            "order in which jobs of several submitters start, by that priority, job priority and number",
            "equal",
            ("test_htcondor.py::test_effective_priorities_are_those_of_the_negotiator_and_jobs_start_in_that_order",),
        ),
    ),
}

# Release, what changed there, and what follows here. Read in Slurm's source; what tests try has its release above.
SLURM_CHANGES: tuple[tuple[str, str, str], ...] = (
    ("22.05 to 26.05", "Fair Tree, decay and charging: types and spelling, no arithmetic", "one algorithm serves all"),
    ("23.02", "`Reserved` of sacct is `Planned`; the job-size factor is never negative", "neither is used for usage"),
    ("23.11", "states are lists in JSON, numbers can be unset or infinite", "both shapes are read"),
    ("24.05", "a job may name several QOS: one priority per partition and QOS", "*why a job waits* names each"),
    (
        "24.11",
        "each run of a requeued job has a number of its own (SLUID)",
        "part of the record's key where it is there",
    ),
    (
        "25.05",
        "`PriorityFlags=MAX_TRES_GRES`; hierarchical resources",
        "charged as Slurm does; the latter ignored by name",
    ),
    ("25.11", "classic and depth-oblivious: the factor is stored by association", "the formula is the same"),
    (
        "25.11",
        "slurmrestd has no v0.0.40 any more; sacct lists SLUID",
        "the newest that both know is asked for",
    ),
    ("26.05", "slurmrestd serves the configuration", "read where it is there"),
)
