"""Mutations that break what the text on Grid Engine 6.2 job priorities claims."""

from __future__ import annotations

from collections.abc import Mapping

from tests.papers.mutations.mutation import Mutation

_FOLDER = "apps/contrib/jobs/algorithms/gridengine"
_CASE = f"{_FOLDER}/case.py"
_CONFIG = f"{_FOLDER}/config.py"
_FUNCTIONAL = f"{_FOLDER}/functional.py"
_OWNERS = f"{_FOLDER}/owners.py"
_PRIORITIES = f"{_FOLDER}/priorities.py"
_TICKETS = f"{_FOLDER}/tickets.py"
_CALCULATOR = "apps/contrib/jobs/pages/calculator.py"

_UNDECIDED = 'return 0.0 if "default_zero" in self.amendments else 0.5'
_OF_RUNNING = "sums.shares[kind] += owner.fshare / active[owner] if is_shared else owner.fshare"
_FROM_ZERO = Mutation(_PRIORITIES, "exact = (value - self.low) / (self.high - self.low)", "exact = value / self.high")
_PENDING_ALONE = Mutation(
    _PRIORITIES, "seen = [*pending, *(() if self.excludes_running else running)]", "seen = [*pending]"
)
_ACTIVE_JOBS = Mutation(
    _FUNCTIONAL,
    'deal.amount(job, self._sums.active if is_shared else {}, note=", jobs before it counted")',
    'deal.amount(job, {}, note=", jobs before it counted")',
)
_NEW_OWNERS = Mutation(
    _FUNCTIONAL,
    "if not is_shared or self._sums.active[owner] == 1:",
    "if not is_shared:",
)
_WAITING = "return Amount(weight * job.waited_s,"
_DEFAULT_ZERO = Mutation(_PRIORITIES, _UNDECIDED, "return 0.5")
_POSIX = Mutation(_PRIORITIES, "both = 2 * HIGHEST_POSIX", "both = 2 * HIGHEST_POSIX - 1")

GRID_ENGINE: Mapping[str, tuple[Mutation, ...]] = {
    "1.1": (Mutation(_PRIORITIES, "parts[1][0] * parts[1][1]", "parts[1][1]"),),
    "1.2": (
        Mutation(
            _CONFIG, '"weight_urgency": 0.1, "weight_ticket": 0.01,', '"weight_urgency": 0.01, "weight_ticket": 0.1,'
        ),
        Mutation(_CONFIG, '"weight_priority": 1.0,', '"weight_priority": 0.9,'),
    ),
    "1.3": (Mutation(_PRIORITIES, _UNDECIDED, 'return 0.0 if "default_zero" in self.amendments else 0.4'),),
    "1.4": (Mutation(_PRIORITIES, _UNDECIDED, 'return 0.0 if "default_zero" in self.amendments else 0.4'),),
    "1.5": (
        Mutation(_PRIORITIES, "parts[0].value + parts[1].value + parts[2].value", "parts[0].value + parts[2].value"),
        Mutation(_PRIORITIES, "request.value * weight * job.slots, text", "request.value * weight, text"),
        Mutation(_PRIORITIES, "max(job.deadline_in_s, 1.0)", "max(job.deadline_in_s, 10.0)"),
    ),
    "1.6": (Mutation(_CONFIG, '{"slots": 1000.0}', '{"slots": 100.0}'),),
    "1.7": (_FROM_ZERO,),
    "1.8": (Mutation(_PRIORITIES, _WAITING, "return Amount(weight * job.waited_s / 2,"),),
    "1.9": (Mutation(_PRIORITIES, _WAITING, 'return Amount(weight * job.waited_s * (job.state == "pending"),'),),
    "1.10": (_FROM_ZERO,),
    "1.11": (_PENDING_ALONE,),
    "1.12": (
        Mutation(_CASE, "HIGHEST_POSIX = -1023, 1024", "HIGHEST_POSIX = -5000, 1024"),
        Mutation(_CASE, "HIGHEST_POSIX = -1023, 1024", "HIGHEST_POSIX = -1023, 5000"),
    ),
    "1.13": (_POSIX,),
    "1.14": (
        Mutation(
            _TICKETS,
            "self.share_tree.value + self.functional.value + self.override.value",
            "self.share_tree.value + self.functional.value",
        ),
    ),
    "1.15": (Mutation(_FUNCTIONAL, "weight / total if total > 0 else 0.0 for name", "weight / 2 for name"),),
    "1.16": (Mutation(_FUNCTIONAL, _OF_RUNNING, "sums.shares[kind] += owner.fshare"),),
    "1.17": (Mutation(_CASE, "return -self.waited_s, self.number", "return self.waited_s, self.number"),),
    "1.18": (_NEW_OWNERS,),
    "1.19": (
        Mutation(
            _PRIORITIES,
            "high = max([*pending, *(() if self.excludes_running else running)], default=0.0)",
            "high = max(pending, default=0.0)",
        ),
    ),
    "1.20": (_NEW_OWNERS,),
    "1.21": (_ACTIVE_JOBS,),
    "1.22": (
        Mutation(
            _FUNCTIONAL, "share = (line.worth / line.divisor)[line.rows[kind]]", "share = line.worth[line.rows[kind]]"
        ),
    ),
    "1.23": (
        Mutation(_CONFIG, '"auto_user_fshare": 0.0,', '"auto_user_fshare": 100.0,'),
        Mutation(_OWNERS, "self._config.auto_user_fshare if is_user else 0.0", "0.0"),
        Mutation(
            _OWNERS,
            "0 < self._config.auto_user_delete_time_s <= idle_s",
            "0 < self._config.auto_user_delete_time_s < idle_s",
        ),
    ),
    "1.24": (_DEFAULT_ZERO,),
    "1.25": (
        Mutation(
            _PRIORITIES,
            "if is_running and self.clamps_running and not 0 <= exact <= 1:",
            "if is_running and self.clamps_running and not 0 <= exact:",
        ),
    ),
    "1.26": (Mutation(_PRIORITIES, "return Scale(0.0, max(high, 0.0),", "return Scale(low, max(high, 0.0),"),),
    "1.27": (
        Mutation(
            _FUNCTIONAL,
            "divisor = Counter(owner for job in jobs for owner in job.owners.values())",
            "divisor = Counter(owner for job in pending for owner in job.owners.values())",
        ),
    ),
    "1.28": (
        Mutation(
            "apps/contrib/jobs/algorithms/listing_check.py",
            "terms = {name: weights[weight] * values[name] for name, weight in TERMS if name in values}",
            "terms = {name: values[name] for name, weight in TERMS if name in values}",
        ),
    ),
    "1.29": (Mutation(_CALCULATOR, '"posix": "posix_priority", ', ""),),
    "1.30": (
        _ACTIVE_JOBS,
        Mutation(
            "apps/contrib/jobs/pages/pasted_jobs.py",
            "return grid_engine_table(case, variants, most_jobs=MOST_PASTED_JOBS)",
            "return grid_engine_table(case, variants[:1], most_jobs=MOST_PASTED_JOBS)",
        ),
    ),
    "1.31": (
        _NEW_OWNERS,
        Mutation(
            _CALCULATOR,
            '_TICKETS}, [_user("userA", 2, 0), _user("userB", 1, 3),',
            '_TICKETS}, [_user("userA", 2, 0), _user("userB", 1, 4),',
        ),
    ),
}
