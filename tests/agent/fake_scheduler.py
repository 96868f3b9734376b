#!/usr/bin/env python3
"""Replaces squeue, sprio, scontrol, sshare, sacctmgr, qstat, qalter and qconf: its jobs are in FAKE_DIR/jobs.json.

FAKE_DIR/replies.json says what a command does instead: {"squeue": {"out": "…", "err": "…", "status": 1, "hang": true}}.
FAKE_DIR/kill.json ends the calling process, before or after the work of the nth call: {"at": 3, "when": "before"}.
"""

import json
import os
import re
import signal
import sys
import time
from typing import Any

Jobs = dict[str, dict[str, Any]]

# The scheduler's environment is cleared by the agent, so the folder is found beside the program.
HERE = os.path.dirname(os.path.abspath(sys.argv[0]))
NAME = os.path.basename(sys.argv[0])


def path(name: str) -> str:
    return os.path.join(HERE, name)


def load(name: str, default: Any) -> Any:
    try:
        with open(path(name)) as file:
            return json.load(file)
    except FileNotFoundError:
        return default


def save(name: str, content: Any) -> None:
    with open(path(name) + ".new", "w") as file:
        json.dump(content, file)
    os.replace(path(name) + ".new", path(name))


def main() -> int:
    with open(path("calls.log"), "a") as log:
        log.write(json.dumps([NAME, *sys.argv[1:]]) + "\n")
    with open(path("calls.log")) as log:
        n_calls = sum(1 for _ in log)
    kill = load("kill.json", {"at": 0})
    if kill["at"] == n_calls and kill["when"] == "before":
        os.kill(os.getppid(), signal.SIGKILL)
        return 1
    status = reply()
    sys.stdout.flush()
    if kill["at"] == n_calls and kill["when"] == "after":
        os.kill(os.getppid(), signal.SIGKILL)
    return status


def reply() -> int:
    answer = load("replies.json", {}).get(NAME)
    if answer is None:
        jobs = load("jobs.json", {})
        commands = {"squeue": squeue, "sprio": sprio, "scontrol": scontrol, "qstat": qstat, "qalter": qalter}
        commands["sacctmgr"] = sacctmgr
        status = commands[NAME](jobs)
        save("jobs.json", jobs)
        return status
    if answer.get("hang"):
        time.sleep(600)
    sys.stderr.write(answer.get("err", ""))
    sys.stdout.write(answer.get("out", ""))
    return int(answer.get("status", 0))


# --- Slurm
def squeue(jobs: Jobs) -> int:
    for number, job in jobs.items():
        priority = 0 if job.get("held") else job.get("fixed") or 1000 + job.get("site", 0) - job.get("nice", 0)
        cells = [number, number, job.get("tasks", "N/A"), job["user"], job["group"], job.get("partition", "batch")]
        cells += ["normal", "4", "1795156254", job.get("state", "PENDING"), priority, job.get("nice", 0), "Priority"]
        print("|".join(map(str, cells)))
    return 0


def sprio(jobs: Jobs) -> int:
    shown = [(number, job) for number, job in jobs.items() if not job.get("held") and "state" not in job]
    for number, job in shown:
        site, nice = job.get("site", 0), job.get("nice", 0)
        cells = [number, 1000 + site - nice, site, 500, 0, 0, 500, 0, 0, nice]
        if job.get("fixed"):
            cells = [number, job["fixed"], 0, 0, 0, 0, 0, 0, 0, 0]
        print("|".join(map(str, cells)))
    if not shown:
        sys.stderr.write("Unable to find jobs matching user/id(s) specified\n")
    return 0 if shown else 1


def scontrol(jobs: Jobs) -> int:
    if sys.argv[1:] == ["--oneliner", "show", "partition"]:
        print("PartitionName=batch AllowGroups=ALL\nPartitionName=long AllowGroups=ALL")
        return 0
    if sys.argv[1:3] == ["show", "config"]:
        with open(path("config.txt")) as file:
            sys.stdout.write(file.read())
        return 0
    if sys.argv[1] == "release":
        numbers, key, value = sys.argv[2].split(","), "release", "0"
    else:
        numbers = sys.argv[2].partition("=")[2].split(",")
        key, _, value = sys.argv[3].partition("=")
    status = 0
    for number in numbers:
        if number not in jobs:
            sys.stderr.write(f"Invalid job id specified for job {number}\n")
            status = 1
        elif jobs[number].get("refuses"):
            sys.stderr.write(jobs[number]["refuses"] + "\n")
            status = 1
        elif key == "release":
            jobs[number].pop("fixed", None)
            jobs[number].pop("held", None)
        else:
            jobs[number][{"sitefactor": "site", "nice": "nice", "priority": "fixed"}[key]] = int(value)
    return status


def sacctmgr(jobs: Jobs) -> int:
    """Associations are in shares.json by account/user/partition."""
    shares = load("shares.json", {})
    if sys.argv[1] == "-nP":
        for key, value in shares.items():
            account, user, partition = key.split("/")
            print("|".join(["demo", account, user, partition, "" if user else "root", value]))
        return 0
    asked = dict(word.partition("=")[::2] for word in sys.argv[1:] if "=" in word)
    is_user = sys.argv[3] == "user"
    account, user = (asked["account"], asked["name"]) if is_user else (asked["name"], "")
    chosen = [key for key in shares if key.split("/")[:2] == [account, user]]
    if "partition" in asked:
        chosen = [key for key in chosen if key.endswith("/")]
    shares.update(dict.fromkeys(chosen, asked["fairshare"]))
    save("shares.json", shares)
    print(" Modified associations..." if chosen else " Nothing modified")
    return 0 if chosen else 1


# --- Grid Engine
def qstat(jobs: Jobs) -> int:
    print("<?xml version='1.0'?>\n<job_info>\n<queue_info>")
    print("".join(row(number, job) for number, job in jobs.items() if "state" in job))
    print("</queue_info>\n<job_info>")
    print("".join(row(number, job) for number, job in jobs.items() if "state" not in job))
    print("</job_info>\n</job_info>")
    return 0


def row(number: str, job: dict[str, Any]) -> str:
    state = ("running", "r") if "state" in job else ("pending", "hqw" if job.get("held") else "qw")
    fields = {
        "JB_job_number": number, "JAT_prio": "0.5", "JB_name": "x", "JB_owner": job["user"], "JB_project": job["group"],
        "state": state[1], "JB_override_tickets": job.get("site", 0), "JB_priority": job.get("nice", 0), "slots": 2,
        "JB_submission_time": "2026-11-20T06:45:20",
    }  # fmt: skip
    inside = "".join(f"<{name}>{value}</{name}>" for name, value in fields.items())
    return f'<job_list state="{state[0]}">{inside}</job_list>\n'


def qalter(jobs: Jobs) -> int:
    key = {"-ot": "site", "-p": "nice"}[sys.argv[1]]
    status = 0
    for number in sys.argv[3].split(","):
        assert re.fullmatch("[0-9]+", number)
        if number not in jobs:
            print(f'job "{number}" does not exist')
            status = 1
        else:
            jobs[number][key] = int(sys.argv[2])
            print(f"root@head1 sets it of job {number} to {sys.argv[2]}")
    return status


if __name__ == "__main__":
    sys.exit(main())
