"""A slow, readable twin of Grid Engine's tickets: every pending job is asked in every round, nodes are dictionaries."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
Targets = dict[str, tuple[float, float]]  # stt and ostt by name of the node
OWNER_LISTS = {"user": "users", "project": "projects", "department": "departments"}


def tickets(case: Row) -> dict[str, dict[str, float]]:
    """otckt, ftckt and stckt of every pending and running job; jobs' numbers must follow their age."""
    return _Twin(case).deal()


class _Twin:
    def __init__(self, case: Row) -> None:
        self.case = case
        self.config: Row = case["config"]
        jobs = sorted(case["jobs"], key=lambda job: int(job["id"]))
        self.running = [job for job in jobs if job["state"] == "running"]
        self.pending = [job for job in jobs if job["state"] == "pending"]
        self.before: dict[str, float] = {job["id"]: 0.0 for job in self.pending}

    def deal(self) -> dict[str, dict[str, float]]:
        found: dict[str, dict[str, float]] = {job["id"]: {} for job in [*self.running, *self.pending]}
        for job in self.running:
            found[job["id"]]["otckt"] = self.override(job, self.running)
            found[job["id"]]["ftckt"] = self.functional_of_running(job)
            found[job["id"]]["stckt"] = self.tree_of_running(job)
        hierarchy = self.config["policy_hierarchy"].replace("NONE", "")
        ways: dict[str, Callable[[bool], dict[str, float]]] = {
            "O": self.override_of_pending,
            "F": self.functional_of_pending,
            "S": self.tree_of_pending,
        }
        for letter in hierarchy + "".join(letter for letter in "OFS" if letter not in hierarchy):
            is_linked = letter in hierarchy
            for job_id, value in ways[letter](is_linked).items():
                found[job_id][f"{letter.lower()}tckt"] = value
                self.before[job_id] += value if is_linked else 0.0
        return found

    def worth(self, job: Row, kind: str, what: str) -> float:
        """Shares or tickets of the job's owner of this kind."""
        listed = {owner["name"]: owner for owner in self.case[OWNER_LISTS[kind]]}
        return float(listed.get(job.get(kind), {}).get(what, 0))

    def count(self, job: Row, kind: str, active: list[Row]) -> int:
        return sum(other.get(kind) == job.get(kind) for other in active)

    # Override

    def override(self, job: Row, active: list[Row]) -> float:
        """With the job among the active ones."""
        total = 0.0
        for kind in OWNER_LISTS:
            divisor = self.count(job, kind, active) if self.config["share_override_tickets"] else 1
            total += self.worth(job, kind, "oticket") / divisor
        return total + float(job["override_tickets"])

    def override_of_pending(self, is_linked: bool) -> dict[str, float]:
        active, left, found = list(self.running), list(self.pending), {}
        while left:
            values = [(self.override(job, [*active, job]), self.before[job["id"]] * is_linked) for job in left]
            job = left.pop(max(range(len(left)), key=lambda index: (values[index], -index)))
            active.append(job)
            found[job["id"]] = self.override(job, active)
        return found

    # Functional

    def shares_of(self, job: Row, active: list[Row]) -> dict[str, float]:
        """What the job weighs in each category, being one of the active ones."""
        shares = {}
        for kind in ("user", "department", "project"):
            divisor = self.count(job, kind, active) if self.config["share_functional_shares"] else 1
            shares[kind] = self.worth(job, kind, "fshare") / divisor
        return {**shares, "job": float(job["job_share"])}

    def weighed(self, shares: dict[str, float], sums: dict[str, float], weights: dict[str, float]) -> float:
        whole, tickets = sum(weights.values()), self.config["weight_tickets_functional"]
        total = 0.0
        for name in ("user", "department", "project", "job"):
            if sums[name] > 0 and whole > 0:
                total += weights[name] / whole * (shares[name] * tickets / sums[name])
        return total

    def weights(self) -> dict[str, float]:
        return {name: self.config[f"weight_{name}"] for name in ("user", "project", "department", "job")}

    def sums_of_running(self) -> dict[str, float]:
        rows = [self.shares_of(job, self.running) for job in self.running]
        return {name: sum(row[name] for row in rows) for name in self.weights()}

    def functional_of_running(self, job: Row) -> float:
        sums = self.sums_of_running()
        used = {name: weight if sums[name] > 0 else 0.0 for name, weight in self.weights().items()}
        return self.weighed(self.shares_of(job, self.running), sums, used)

    def functional_of_pending(self, is_linked: bool) -> dict[str, float]:
        is_shared = self.config["share_functional_shares"]
        found = {job["id"]: 0.0 for job in self.pending}
        left = [job for job in self.pending if any(self.shares_of(job, [job]).values())]
        active, sums = list(self.running), self.sums_of_running()
        candidates: dict[str, float] = {}
        for _ in range(min(self.config["max_functional_jobs_to_schedule"], len(left))):
            for job in left:
                shares = self.shares_of(job, [*active, job])
                seen = {name: sums[name] + 0.001 for name in sums}
                for name in sums:
                    seen[name] += shares[name] if name == "job" or not is_shared else 0.0
                candidates[job["id"]] = self.weighed(shares, seen, self.weights())
            keys = [candidates[job["id"]] + self.before[job["id"]] * is_linked for job in left]
            job = left.pop(keys.index(max(keys)))
            active.append(job)
            for kind in OWNER_LISTS:
                if not is_shared or self.count(job, kind, active) == 1:
                    sums[kind] += self.worth(job, kind, "fshare")
            sums["job"] += job["job_share"]
            found[job["id"]] = self.weighed(self.shares_of(job, active), sums, self.weights())
        return found | {job["id"]: candidates[job["id"]] for job in left if job["id"] in candidates}

    # Share tree of users, without projects and `default`

    def usage(self, node: Row) -> float:
        if node.get("children"):
            return sum(self.usage(child) for child in node["children"])
        listed = {user["name"]: user["usage"].get("cpu", 0.0) for user in self.case["users"]}
        return float(listed.get(node["name"], 0.0))

    def jobs_below(self, node: Row, jobs: list[Row]) -> list[Row]:
        if node.get("children"):
            return [job for child in node["children"] for job in self.jobs_below(child, jobs)]
        return [job for job in jobs if job["user"] == node["name"]]

    def targets(
        self, node: Row, jobs: list[Row], oltt: float = 1.0, ostt: float = 1.0
    ) -> dict[str, tuple[float, float]]:
        """stt and ostt by name of every node with jobs below `node`."""
        active = [child for child in node.get("children", []) if self.jobs_below(child, jobs)]
        shares = sum(child["shares"] for child in active)
        long = [oltt * (child["shares"] / shares if shares else 0.0) for child in active]
        weights = [
            child["shares"] ** 2 / max(self.usage(child), part) if part > 0 else 0.0
            for child, part in zip(active, long, strict=True)
        ]
        parts = [weight / sum(weights) if sum(weights) else 0.0 for weight in weights]
        factor = self.config["compensation_factor"]
        weights = [
            weight / (ostt * part / (factor * limit)) if factor and ostt * part > factor * limit else weight
            for weight, part, limit in zip(weights, parts, long, strict=True)
        ]
        found: Targets = {}
        for child, weight, limit in zip(active, weights, long, strict=True):
            part = weight / sum(weights) if sum(weights) else 0.0
            found[child["name"]] = part, ostt * part
            found |= self.targets(child, jobs, limit, ostt * part)
        return found

    def tree_of_running(self, job: Row) -> float:
        """By the nodes with running jobs alone."""
        found = self.targets(self.case["sharetree"], self.running)
        if job["user"] not in found:
            return 0.0
        part = found[job["user"]][1] * self.config["weight_tickets_share"]
        mates = [other for other in self.running if other["user"] == job["user"]]
        shares = sum(other["job_share"] for other in mates)
        return float(math.floor(job["job_share"] * part / shares)) if shares else part / len(mates)

    def tree_of_pending(self, is_linked: bool) -> dict[str, float]:
        jobs = [*self.running, *self.pending]
        found = {job["id"]: 0.0 for job in self.pending}
        targets = self.targets(self.case["sharetree"], jobs)
        top: Row = self.case["sharetree"]
        while len(alive := [child for child in top.get("children", []) if self.jobs_below(child, jobs)]) == 1:
            top = alive[0]
        for node in alive or [top]:
            for job, value in self.line(node, jobs, targets, is_linked):
                if job["state"] == "pending":
                    found[job["id"]] = value
        return found

    def line(self, node: Row, jobs: list[Row], targets: Targets, is_linked: bool) -> list[tuple[Row, float]]:
        """Jobs below a node in their order, each with its tickets at this level."""

        def earlier(job: Row) -> float:
            return self.before.get(job["id"], 0.0) * is_linked

        if node.get("children"):
            rows = [row for child in node["children"] for row in self.line(child, jobs, targets, is_linked)]
            keyed = [(earlier(job) + value, job) for job, value in rows]
        else:
            mine = self.jobs_below(node, jobs)
            keyed = [(earlier(job) + (0.01 if is_linked else 1.0) * job["job_share"], job) for job in mine]
        keyed.sort(key=lambda row: (row[1]["state"] != "running", -row[0], int(row[1]["id"])))
        position, found = 1, []
        for _, job in keyed:
            found.append((job, targets[node["name"]][0] / position * self.config["weight_tickets_share"]))
            position += job["slots"]
        return found
