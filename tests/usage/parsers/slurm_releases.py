"""Listings of Slurm 22.05 as 23.02 writes them (data_parser v0.0.39), into tests/golden/slurm/releases:
`python -m tests.usage.parsers.slurm_releases` makes them from the real ones of tests/golden/slurm/site, and from a few
jobs that the site had none of: resized, revoked, completing, configuring, held for a requeue.

Built from the published schemas and from Slurm's source; nothing of its code is here. v0.0.40 to v0.0.45 are captured:
tests/golden/slurm/24.11.5 and 26.05.5. What matters to a reader: which numbers are `{set, infinite, number}`, that
states are one word, and what `meta` is called.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "slurm"
RELEASE = "23.02"
_NUMBERS = (
    *("array_job_id", "array_task_id", "array_max_tasks", "billable_tres", "cores_per_socket", "cpus_per_task", "cpus"),
    *("cpu_frequency_minimum", "cpu_frequency_maximum", "cpu_frequency_governor", "delay_boot", "het_job_id"),
    *("het_job_offset", "max_cpus", "max_nodes", "tasks_per_core", "tasks_per_node", "tasks_per_socket", "node_count"),
    *("tasks_per_board", "tasks", "memory_per_cpu", "memory_per_node", "minimum_cpus_per_node", "priority"),
    *("minimum_tmp_disk_per_node", "sockets_per_node", "time_limit", "time_minimum", "threads_per_core"),
)
_LISTS = ("profile", "shared", "gres_detail")

Json = dict[str, Any]


def number(value: float | None, *, infinite: bool = False) -> Json:
    return {"set": value is not None and not infinite, "infinite": infinite, "number": value or 0}


def _listed(job: Json) -> Json:
    made = {**job, "nice": job["nice"] or 0, "hold": job["priority"] == 0, "preemptable_time": 0}
    if made["nice"] > 2**31:
        made["nice"] -= 2**32
    for name in _NUMBERS:
        made[name] = number(job[name], infinite=name == "time_limit" and job[name] is None)
    made |= {name: job[name] or [] for name in _LISTS}
    made |= {name: number(made[name]) for name in ("exit_code", "derived_exit_code")}
    return {**made, "job_resources": {}}


def _accounted(job: Json) -> Json:
    time = {**job["time"], "limit": number(job["time"]["limit"], infinite=job["time"]["limit"] is None)}
    array = {**job["array"], "task_id": number(job["array"]["task_id"]), "task": job["array"]["task"] or ""}
    unset = {"memory_per_cpu": number(None), "memory_per_node": number(0)}
    return {
        **job,
        "time": time,
        "array": array,
        "association": {name: value or "" for name, value in job["association"].items()},
        "comment": {name: value or "" for name, value in job["comment"].items()},
        "container": job["container"] or "",
        "extra": "",
        "het": {"job_id": job["het"]["job_id"], "job_offset": number(job["het"]["job_offset"])},
        "kill_request_user": job["kill_request_user"] or "",
        "hold": job["priority"] == 0,
        "priority": number(job["priority"]),
        "required": {**job["required"], **unset},
        "reservation": {"id": 0, "name": job["reservation"]["name"] or ""},
        "steps": [],
        "tres": {kind: [_tres(part) for part in listed] for kind, listed in job["tres"].items()},
    }


def _tres(part: Json) -> Json:
    """-2 is what later releases write for an amount that isn't known."""
    return {**part, "name": part["name"] or "", "count": -2 if part["count"] is None else part["count"]}


def document(command: str, jobs: list[Json]) -> Json:
    """As the command itself prints it; slurmrestd names its plug-in besides."""
    version: Json = {"major": 23, "micro": 8, "minor": 2}
    plugins = {"data_parser": "v0.0.39", "accounting_storage": "accounting_storage/slurmdbd"}
    slurm = {"version": version, "release": f"{RELEASE}.8"}
    meta = {"plugins": plugins, "command": command.split(), "Slurm": slurm}
    return {"meta": meta, "errors": [], "warnings": [], "jobs": jobs}


def written(document: Json) -> str:
    """Slashes are escaped, as Slurm's serializer does; one job a line."""
    lines = ",\n".join(json.dumps(job) for job in document["jobs"])
    text = json.dumps({**document, "jobs": ["JOBS"]}, indent=1).replace('"JOBS"', lines)
    return text.replace("/", r"\/") + "\n"


def jobs_of_22_05(kind: str) -> list[Json]:
    """Jobs of the real 22.05 and those made for states that its site had none of. kind: squeue or sacct."""
    real: list[Json] = json.loads((GOLDEN / "site" / f"{kind}.json").read_text(encoding="utf-8"))["jobs"]
    return real + (_live(real) if kind == "squeue" else _accounts(real))


def _accounts(real: list[Json]) -> list[Json]:
    """A job that was resized twice, the last time with `scontrol update NodeList=`, and one revoked by a federation."""
    pattern = next(job for job in real if job["state"]["current"] == "COMPLETED")
    start = pattern["time"]["start"]
    parts = [(start - 1, start, start + 600, "RESIZING"), (start + 600, start + 600, start + 900, "RESIZING")]
    parts.append((start + 900, start, start + 1500, "COMPLETED"))
    rows = [_accounted_row(pattern, 9001, *times) for times in parts]
    return [*rows, _accounted_row(pattern, 9002, start, 0, start + 5, "REVOKED")]


def _accounted_row(pattern: Json, job_id: int, submit: int, start: int, end: int, word: str) -> Json:
    elapsed = end - start if start else 0
    times = {"submission": submit, "eligible": submit, "start": start, "end": end, "elapsed": elapsed}
    state = {**pattern["state"], "current": word}
    return {**pattern, "job_id": job_id, "state": state, "time": {**pattern["time"], **times}}


def _live(real: list[Json]) -> list[Json]:
    ended = next(job for job in real if job["job_state"] == "COMPLETED")
    runs = next(job for job in real if job["job_state"] == "RUNNING")
    waits = next(job for job in real if job["job_state"] == "PENDING")
    resized = {"resize_time": runs["start_time"] + 1}
    return [
        {**ended, "job_id": 9003, "job_state": "COMPLETING"},
        {**runs, "job_id": 9004, "job_state": "CONFIGURING"},
        {**runs, "job_id": 9005, **resized},
        {**runs, "job_id": 9006, "job_state": "RESIZING", **resized},
        {**waits, "job_id": 9007, "job_state": "REQUEUE_HOLD"},
        {**waits, "job_id": 9008, "job_state": "REVOKED"},
    ]


def built(kind: str) -> Json:
    """The document with jobs. kind: squeue or sacct."""
    make, command = (_listed, "squeue --json") if kind == "squeue" else (_accounted, "sacct -a --json -S now-1hours")
    return document(f"/usr/bin/{command}", [make(job) for job in jobs_of_22_05(kind)])


def main() -> None:
    folder = GOLDEN / "releases"
    folder.mkdir(exist_ok=True)
    for kind in ("squeue", "sacct"):
        (folder / f"{RELEASE}-{kind}.json").write_text(written(built(kind)), encoding="utf-8")
        empty = document(f"/usr/bin/{kind} --json", [])
        (folder / f"{RELEASE}-{kind}-empty.json").write_text(written(empty), encoding="utf-8")


if __name__ == "__main__":
    main()
