"""LSF's lsb.acct read a second time, from IBM's reference of the file: character by character, and field by field.

It knows no remedy: it reads lines that are right, and says what they mean. Slow, and written to be compared with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# In the order of the reference; `name*n` are n fields for each of the count before them.
_FINISH = (
    "type version event_time jobId userId options numProcessors submitTime beginTime termTime startTime userName queue "
    "resReq dependCond preExecCmd fromHost cwd inFile outFile errFile jobFile numAskedHosts askedHosts*1 numExHosts "
    "execHosts*1 jStatus hostFactor jobName command utime stime maxrss ixrss ismrss idrss isrss minflt majflt nswap "
    "inblock oublock ioch msgsnd msgrcv nsignals nvcsw nivcsw exutime mailUser projectName exitStatus maxNumProcessors "
    "loginShell timeEvent idx maxRMem maxRSwap inFileSpool commandSpool rsvId sla exceptMask additionalInfo exitInfo "
    "warningAction warningTimePeriod chargedSAAP licenseProject app postExecCmd runtimeEstimation jobGroupName "
    "requeueEvalues options2 resizeNotifyCmd lastResizeTime rsvId2 jobDescription numExt ext*2 numHostRusage "
    "hostRusage*6 runLimit options3 avgMem effectiveResReq srcCluster srcJobId dstCluster dstJobId forwardTime flowId "
    "acJobWaitTime totalProvisionTime outdir runTime subcwd numNetwork networks*2 affinity energy cpi gips gbs gflops "
    "numAllocSlots allocSlots*1 ineligiblePendTime"
)
_RESIZE = (
    "type version event_time jobId idx startTime userId userName resizeType lastResizeTime numExecHosts execHosts*1 "
    "numResizeHosts resizeHosts*1 numAllocSlots allocSlots*1 numResizeSlots resizeSlots*1"
)


def tokens(line: str) -> Iterator[str]:
    """The fields of a line: quoted ones end at a quote that no other follows."""
    at = 0
    while at < len(line):
        if line[at] == " ":
            at += 1
            continue
        text, is_quoted = "", line[at] == '"'
        at += is_quoted
        while at < len(line):
            if is_quoted and line[at : at + 2] == '""':
                text, at = text + '"', at + 2
            elif line[at] == ('"' if is_quoted else " "):
                at += 1
                break
            else:
                text, at = text + line[at], at + 1
        yield text


def named(line: str) -> dict[str, Any]:
    """Fields of a line by name, as far as the line goes."""
    texts = list(tokens(line))
    fields: dict[str, Any] = {}
    at, last = 0, ""
    for name in (_RESIZE if texts[0] == "JOB_RESIZE" else _FINISH).split():
        if at >= len(texts):
            break
        base, star, n = name.partition("*")
        if star:
            n_fields = int(fields[last]) * int(n)
            fields[base] = texts[at : at + n_fields]
            at += n_fields
        else:
            fields[base], at, last = texts[at], at + 1, base
    return fields


def slots(hosts: list[str]) -> int:
    """`16*node1` is a host with sixteen slots."""
    return sum(int(host.split("*")[0]) if "*" in host else 1 for host in hosts)


def slot_seconds(lines: list[str]) -> dict[str, float]:
    """Slots × seconds of each job that ended, over all its parts."""
    total: dict[str, float] = {}
    for line in lines:
        job = named(line)
        begun = int(job.get("startTime", "0"))
        if job["type"] not in ("JOB_FINISH", "JOB_RESIZE") or not begun or job.get("dstCluster"):
            continue
        key = f"{job['jobId']}.{job['idx']}"
        since = max(int(job.get("lastResizeTime", "0")), begun)
        held = job.get("allocSlots") or job["execHosts"]
        total[key] = total.get(key, 0.0) + slots(held) * (int(job["event_time"]) - since)
    return total
