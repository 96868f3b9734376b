"""Replaces commands of Slurm, Grid Engine and HTCondor: its jobs are in the file `jobs` beside the program.

`replies` says what a command does instead: {"squeue": {"out": "…", "err": "…", "status": 1, "hang": True}}. `kill` ends
the calling process, before or after the work of the nth call: {"at": 3, "when": "before"}. A run of the agent calls
seven commands: so they load nothing that they don't need, and their files are Python literals.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Jobs = dict[str, dict[str, Any]]

# The scheduler's environment is cleared by the agent, so the folder is found beside the program.
HERE = os.path.dirname(os.path.abspath(sys.argv[0]))
NAME = os.path.basename(sys.argv[0])
_SIGKILL = 9


def path(name: str) -> str:
    return os.path.join(HERE, name)


def load(name: str, default: "Any") -> "Any":
    try:
        with open(path(name)) as file:
            return eval(file.read(), {})  # noqa: S307  what the test wrote
    except FileNotFoundError:
        return default


def save(name: str, content: "Any") -> None:
    with open(path(name) + ".new", "w") as file:
        file.write(repr(content))
    os.replace(path(name) + ".new", path(name))


def main() -> int:
    with open(path("calls.log"), "a") as log:
        log.write(repr([NAME, *sys.argv[1:]]) + "\n")
    with open(path("calls.log")) as log:
        n_calls = sum(1 for _ in log)
    kill = load("kill", {"at": 0})
    if kill["at"] == n_calls and kill["when"] == "before":
        os.kill(os.getppid(), _SIGKILL)
        return 1
    status = reply()
    sys.stdout.flush()
    if kill["at"] == n_calls and kill["when"] == "after":
        os.kill(os.getppid(), _SIGKILL)
    return status


def reply() -> int:
    answer = load("replies", {}).get(NAME)
    if answer is None:
        jobs = load("jobs", {})
        commands = {"squeue": squeue, "sprio": sprio, "scontrol": scontrol, "qstat": qstat, "qalter": qalter}
        commands.update(sacctmgr=sacctmgr, sinfo=sinfo)
        commands.update(condor_q=condor_q, condor_userprio=condor_userprio)
        status = commands[NAME](jobs)
        save("jobs", jobs)
        return status
    if answer.get("hang"):
        import time

        time.sleep(600)
    sys.stderr.write(answer.get("err", ""))
    sys.stdout.write(answer.get("out", ""))
    return int(answer.get("status", 0))


# --- Slurm
def squeue(jobs: "Jobs") -> int:
    if sys.argv[-1] == "--format=%a|%T":
        for job in jobs.values():
            print(f"{job['group']}|{job.get('state', 'PENDING')}")
        return 0
    for number, job in jobs.items():
        priority = 0 if job.get("held") else job.get("fixed") or 1000 + job.get("site", 0) - job.get("nice", 0)
        cells = [number, number, job.get("tasks", "N/A"), job["user"], job["group"], job.get("partition", "batch")]
        cells += ["normal", "4", "1795156254", job.get("state", "PENDING"), priority, job.get("nice", 0)]
        if sys.argv[-1].startswith("--Format="):
            start = job.get("start", "1795156300" if "state" in job else "N/A")
            cells += [job.get("limit", "1:00:00"), start, job.get("end", "N/A"), 1, job.get("tres", "cpu=4,node=1")]
            cells += ["1795156254", job.get("dependency", "(null)")]
        elif job.get("state") in ("CANCELLED", "COMPLETED"):
            continue
        print("|".join(map(str, [*cells, job.get("reason", "Priority")])))
    return 0


def sinfo(jobs: "Jobs") -> int:
    for name in ("batch", "long"):
        print(f"node1|{name}|up|2-00:00:00|mixed|40/24/0/64|gpu:a100:4(S:0)|gpu:a100:1(IDX:2)")
    return 0


def sprio(jobs: "Jobs") -> int:
    shown = [(number, job) for number, job in jobs.items() if not job.get("held") and "state" not in job]
    for number, job in shown:
        site, nice = job.get("site", 0), job.get("nice", 0)
        cells = [number, 1000 + site - nice, site, 500, 0, 0, 500, 0, 0, nice]
        if job.get("fixed"):
            cells = [number, job["fixed"], 0, 0, 0, 0, 0, 0, 0, 0]
        if sys.argv[-1].endswith("|%r|%n"):
            cells += [job.get("partition", "batch"), ""]  # as of 22.05, which has no %n
        print("|".join(map(str, cells)))
    if not shown:
        sys.stderr.write("Unable to find jobs matching user/id(s) specified\n")
    return 0 if shown else 1


def scontrol(jobs: "Jobs") -> int:
    if sys.argv[1:] == ["--oneliner", "show", "partition"]:
        print("PartitionName=batch AllowGroups=ALL\nPartitionName=long AllowGroups=ALL")
        return 0
    if sys.argv[1:] == ["--oneliner", "show", "reservation"]:
        print("No reservations in the system")
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


def sacctmgr(jobs: "Jobs") -> int:
    """Associations are in the file `shares` by account/user/partition, limits in the file `limits` by account."""
    if "wopl" in sys.argv or any(word.startswith(("grptresmins=", "qos=")) for word in sys.argv):
        return account_limits()
    shares = load("shares", {})
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
    save("shares", shares)
    print(" Modified associations..." if chosen else " Nothing modified")
    return 0 if chosen else 1


def account_limits() -> int:
    """[parent, settings, number of users] by account."""
    accounts = load("limits", {})
    if "wopl" in sys.argv:
        for name, (parent, settings, n_users) in accounts.items():
            minutes = ",".join(f"{key}={value}" for key, value in settings.items() if key != "qos")
            print("|".join(["demo", name, "", "", parent, minutes, settings.get("qos", "")]))
            for n in range(n_users):
                print("|".join(["demo", name, f"user{n}", "", "", "", ""]))
        return 0
    asked = dict(word.partition("=")[::2] for word in sys.argv[1:] if "=" in word)
    if asked["name"] not in accounts:
        print(" Nothing modified")
        return 1
    refusal = load("refusals", {}).get(asked["name"])
    if refusal:
        sys.stderr.write(refusal + "\n")
        return 1
    settings = accounts[asked["name"]][1]
    for pair in asked.get("grptresmins", "").split(","):
        name, _, value = pair.partition("=")
        settings.pop(name, None)
        if value not in ("", "-1"):
            settings[name] = value
    if "qos" in asked:
        settings.pop("qos", None)
        if asked["qos"]:
            settings["qos"] = asked["qos"].lower()  # as Slurm does
    save("limits", accounts)
    print(" Modified account associations...")
    return 0


# --- Grid Engine
def qstat(jobs: "Jobs") -> int:
    if "-g" in sys.argv:
        print("<?xml version='1.0'?>\n<job_info></job_info>")
        return 0
    print("<?xml version='1.0'?>\n<job_info>\n<queue_info>")
    print("".join(row(number, job) for number, job in jobs.items() if "state" in job))
    print("</queue_info>\n<job_info>")
    print("".join(row(number, job) for number, job in jobs.items() if "state" not in job))
    print("</job_info>\n</job_info>")
    return 0


def row(number: str, job: "dict[str, Any]") -> str:
    state = ("running", "r") if "state" in job else ("pending", "hqw" if job.get("held") else "qw")
    fields = {
        "JB_job_number": number, "JAT_prio": "0.5", "JB_name": "x", "JB_owner": job["user"], "JB_project": job["group"],
        "state": state[1], "JB_override_tickets": job.get("site", 0), "JB_priority": job.get("nice", 0), "slots": 2,
        "JB_submission_time": "2026-11-20T06:45:20",
    }  # fmt: skip
    inside = "".join(f"<{name}>{value}</{name}>" for name, value in fields.items())
    return f'<job_list state="{state[0]}">{inside}</job_list>\n'


def qalter(jobs: "Jobs") -> int:
    key = {"-ot": "site", "-p": "nice"}[sys.argv[1]]
    status = 0
    for number in sys.argv[3].split(","):
        assert number.isascii()
        assert number.isdigit()
        if number not in jobs:
            print(f'job "{number}" does not exist')
            status = 1
        else:
            jobs[number][key] = int(sys.argv[2])
            print(f"root@head1 sets it of job {number} to {sys.argv[2]}")
    return status


# --- HTCondor
def condor_q(jobs: "Jobs") -> int:
    ads = [
        {
            **{"ClusterId": int(number), "ProcId": 0, "Owner": job["user"], "User": f"{job['user']}@example.org"},
            **{"AcctGroup": job["group"], "AcctGroupUser": job["user"], "QDate": 1795156254, "RequestCpus": 4},
            **{"AccountingGroup": f"{job['group']}.{job['user']}", "JobStatus": 5 if job.get("held") else 1},
        }
        for number, job in jobs.items()
    ]
    if ads:
        import json

        print(json.dumps(ads))
    return 0


def condor_userprio(jobs: "Jobs") -> int:
    """Factors by submitter are in `factors`. As the real one, it reports success for a change that is denied."""
    factors = load("factors", {})
    if "-setfactor" not in sys.argv:
        print("<none>\t0.0\t500.0\ttrue\t0.0")
        for name, factor in factors.items():
            print(f"{name}\t{factor}\t{float(factor) / 2}\tfalse\t10.0")
        return 0
    name, factor = sys.argv[2:]
    if name in load("denied", []):
        print(f"The priority factor of {name} was set to {factor}")
        return 0
    if float(factor) < 1:
        print("Priority factors must be greater than or equal to 1.")
        return 1
    factors[name] = repr(float(factor))
    save("factors", factors)
    return 0
