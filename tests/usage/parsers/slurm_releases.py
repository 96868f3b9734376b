"""Listings of Slurm 22.05 as later releases write them, into tests/golden/slurm/releases:
`python -m tests.usage.parsers.slurm_releases` makes them from the real ones of tests/golden/slurm/site, and from a few
jobs that the site had none of: resized, revoked, completing, configuring, held for a requeue.

Built from the published schemas of data_parser v0.0.39 (23.02) to v0.0.42 (24.11) and from Slurm's source; nothing of
its code is here. What matters to a reader: which numbers are `{set, infinite, number}`, how states are listed, where
the list of jobs stands in the document, and what `meta` is called. Known: one word up to v0.0.39, from v0.0.40 a base
and then flags in the order of their bits, with PENDING for a base that slurmdbd doesn't store. Inferred: that v0.0.43
to v0.0.45 (25.05 to 26.05) differ from v0.0.42 in nothing that is read, and the bases beside flags of live jobs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "slurm"
# Version of the data parser, v0.0.N. "24.05-v0.0.39" is what `--json=v0.0.39` of 24.05 prints.
RELEASES = {
    **{"23.02": 39, "23.11": 40, "24.05": 41, "24.05-v0.0.39": 39, "24.11": 42},
    **{"25.05": 43, "25.11": 44, "26.05": 45},
}
_PATCH = {"23.02": 8, "23.11": 10, "24.05": 3, "24.11": 5, "25.05": 4, "25.11": 1, "26.05": 0}
_FLAGS_OF_RUNNING = frozenset(("CONFIGURING", "RESIZING", "SIGNALING", "STOPPED"))
_NUMBERS = (
    *("array_job_id", "array_task_id", "array_max_tasks", "billable_tres", "cores_per_socket", "cpus_per_task", "cpus"),
    *("cpu_frequency_minimum", "cpu_frequency_maximum", "cpu_frequency_governor", "delay_boot", "het_job_id"),
    *("het_job_offset", "max_cpus", "max_nodes", "tasks_per_core", "tasks_per_node", "tasks_per_socket", "node_count"),
    *("tasks_per_board", "tasks", "memory_per_cpu", "memory_per_node", "minimum_cpus_per_node", "priority"),
    *("minimum_tmp_disk_per_node", "sockets_per_node", "time_limit", "time_minimum", "threads_per_core"),
)
_TIMES = (
    *("accrue_time", "deadline", "eligible_time", "end_time", "last_sched_evaluation", "preempt_time", "pre_sus_time"),
    *("resize_time", "start_time", "submit_time", "suspend_time"),
)
_LISTS = ("profile", "shared", "gres_detail")
_FILES = {"stderr_expanded": "standard_error", "stdin_expanded": "standard_input", "stdout_expanded": "standard_output"}

Json = dict[str, Any]


def number(value: float | None, *, infinite: bool = False) -> Json:
    return {"set": value is not None and not infinite, "infinite": infinite, "number": value or 0}


def _exit(code: Any) -> Json:
    """Since 23.11."""
    given = code.get("return_code", 0) if isinstance(code, dict) else code
    signal = {"id": number(None), "name": ""}
    return {"status": ["FAILED" if given else "SUCCESS"], "return_code": number(given or 0), "signal": signal}


def accounted_state(word: str) -> list[str]:
    """The list in place of the word in accounting: slurmdbd stores no base beside a flag."""
    return ["PENDING", word] if word in ("REQUEUED", "RESIZING", "REVOKED") else [word]


def listed_state(word: str) -> list[str]:
    """The list in place of the word in a listing of live jobs; the word hides the base."""
    if word in ("COMPLETING", "STAGE_OUT"):
        return ["COMPLETED", word]
    if word in _FLAGS_OF_RUNNING:
        return ["RUNNING", word]
    return ["PENDING", word] if word in ("REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD", "REVOKED") else [word]


def _listed(job: Json, release: str) -> Json:
    parser = RELEASES[release]
    made = {**job, "nice": job["nice"] or 0, "hold": job["priority"] == 0, "preemptable_time": 0}
    if made["nice"] > 2**31:
        made["nice"] -= 2**32
    for name in _NUMBERS:
        made[name] = number(job[name], infinite=name == "time_limit" and job[name] is None)
    made |= {name: job[name] or [] for name in _LISTS}
    if parser >= 40:
        made |= {name: number(made[name]) for name in (*_TIMES, "preemptable_time")}
        made |= {name: _exit(job[name]) for name in ("exit_code", "derived_exit_code")}
        made["job_state"] = listed_state(job["job_state"])
    else:
        made |= {name: number(job[name]) for name in ("exit_code", "derived_exit_code")}
    if parser >= 42:
        made |= {name: job[source] for name, source in _FILES.items()}
    made["job_resources"] = {}
    return made


def _accounted(job: Json, release: str) -> Json:
    parser = RELEASES[release]
    time = {**job["time"], "limit": number(job["time"]["limit"], infinite=job["time"]["limit"] is None)}
    array = {**job["array"], "task_id": number(job["array"]["task_id"]), "task": job["array"]["task"] or ""}
    unset = {"memory_per_cpu": number(None), "memory_per_node": number(0)}
    made = {
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
    if parser >= 40:
        made["state"] = {**job["state"], "current": accounted_state(job["state"]["current"])}
        made |= {name: _exit(job[name]) for name in ("exit_code", "derived_exit_code")}
        made["association"]["id"] = 7
    if parser >= 41:
        time["planned"] = number(max((job["time"]["start"] or 0) - job["time"]["eligible"], 0))
        made |= dict.fromkeys(_FILES, "")
    if parser >= 42:
        made |= {"restart_cnt": 0, "qosreq": ""}
    return made


def _tres(part: Json) -> Json:
    """-2 is what later releases write for an amount that isn't known."""
    return {**part, "name": part["name"] or "", "count": -2 if part["count"] is None else part["count"]}


def document(command: str, jobs: list[Json], release: str) -> Json:
    """As the command itself prints it; slurmrestd names its plug-in besides."""
    parser, version_of_slurm = RELEASES[release], release.partition("-")[0]
    major, minor = version_of_slurm.split(".")
    patch = _PATCH[version_of_slurm]
    program = command.split()
    listed: Json = {"jobs": jobs}
    if parser < 40:
        version: Json = {"major": int(major), "micro": patch, "minor": int(minor)}
        plugins = {"data_parser": f"v0.0.{parser}", "accounting_storage": "accounting_storage/slurmdbd"}
        slurm = {"version": version, "release": f"{version_of_slurm}.{patch}"}
        return {
            "meta": {"plugins": plugins, "command": program, "Slurm": slurm},
            "errors": [],
            "warnings": [],
            **listed,
        }
    if "squeue" in command:
        listed |= {name: number(1_795_421_139) for name in ("last_backfill", "last_update")}
    plugin = {
        "type": "",
        "name": "",
        "data_parser": f"data_parser/v0.0.{parser}",
        "accounting_storage": "accounting_storage/slurmdbd",
    }
    slurm = {
        "version": {"major": major, "micro": str(patch), "minor": minor},
        "release": f"{version_of_slurm}.{patch}",
        "cluster": "c1",
    }
    client = {"source": "/dev/pts/0", "user": "root", "group": "root"}
    meta = {"plugin": plugin, "client": client, "command": program, "slurm": slurm}
    return {**listed, "meta": meta, "errors": [], "warnings": []}


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


def built(release: str, kind: str) -> Json:
    """The document of one release. kind: squeue or sacct."""
    make, command = (_listed, "squeue --json") if kind == "squeue" else (_accounted, "sacct -a --json -S now-1hours")
    return document(f"/usr/bin/{command}", [make(job, release) for job in jobs_of_22_05(kind)], release)


def main() -> None:
    folder = GOLDEN / "releases"
    folder.mkdir(exist_ok=True)
    for release in RELEASES:
        for kind in ("squeue", "sacct"):
            (folder / f"{release}-{kind}.json").write_text(written(built(release, kind)), encoding="utf-8")
            empty = document(f"/usr/bin/{kind} --json", [], release)
            (folder / f"{release}-{kind}-empty.json").write_text(written(empty), encoding="utf-8")


if __name__ == "__main__":
    main()
