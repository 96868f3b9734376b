"""Lines of the scheduler's configuration as they were before switching on demanded others: going back needs them.

They come from the agent's own checks: a check with an error names the line as it is and the line to write instead.
Also used by the site, which remembers them from reports and from the outputs that a set-up read.
"""

import re
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from agent.records import Finding

FACT = "former_lines"  # of the agent's table
AGENT, SETUP = "agent", "setup"  # where a line comes from
_LINE = re.compile(r"([A-Za-z_]{1,64})([= ])(\S{0,256}?)(?=[: ]|$)")  # what follows is a sentence
_ALWAYS = "double_counting"  # the scheduler's own fair share: without it, nothing orders the jobs
_FIRST = "PriorityWeightFairshare"
Lines = Dict[str, Dict[str, Any]]  # by name


class FormerLine(NamedTuple):
    """line: what to write again. demanded: what replaced it. source: agent or setup, which saw it at `seen_at`.

    is_known: whether the line was seen before it was replaced; else it was as demanded when it was first read, and
    what it was before that isn't known.
    """

    name: str
    line: str
    demanded: str
    is_known: bool
    source: str
    seen_at: str


def remember(known: Lines, findings: Sequence[Finding], seen_at: str, source: str, is_sending: bool = False) -> Lines:
    """Lines by name, with those that these findings demand to change. seen_at: RFC 3339.

    While values are sent, a line that is changed by mistake doesn't replace what was there before.
    """
    lines = dict(known)
    for finding in findings:
        name, now = _line(finding.found)
        other, demanded = _line(finding.remedy)
        if not name or name.lower() != other.lower():
            continue
        before = lines.get(name)
        facts = {"line": now, "demanded": demanded, "source": source, "seen_at": seen_at}
        if finding.severity == "error":
            if before is None or not before["is_known"] or not is_sending:
                lines[name] = {**facts, "is_known": True}
        elif finding.code == _ALWAYS and now == demanded and before is None:
            lines[name] = {**facts, "is_known": False}
    return lines


def lines_to_restore(known: Lines) -> List[FormerLine]:
    """Lines to write again after a reset, the scheduler's own fair share first."""
    lines = [
        FormerLine(
            name,
            str(each["line"]),
            str(each["demanded"]),
            bool(each["is_known"]),
            str(each["source"]),
            str(each["seen_at"]),
        )
        for name, each in known.items()
    ]
    return sorted(lines, key=lambda line: (line.name.lower() != _FIRST.lower(), line.name))


def found_line(finding: Finding) -> Tuple[str, str]:
    """Name and whole line of what a check found; empty if it isn't a line of the configuration."""
    name, line = _line(finding.found)
    return (name, line) if name.lower() == _line(finding.remedy)[0].lower() else ("", "")


def are_back(known: Lines, findings: Sequence[Finding]) -> bool:
    """Whether these findings have every line that is known from before."""
    now = {found_line(finding) for finding in findings}
    return all((each.name, each.line) in now for each in lines_to_restore(known) if each.is_known)


def where_seen(line: FormerLine) -> str:
    """Where a line comes from, in words."""
    by = "the agent's check" if line.source == AGENT else "scontrol show config of the set-up"
    if line.is_known:
        return f"as {by} read it, {line.seen_at}"
    return (
        f"not known: so it was already when {by} first read it, {line.seen_at}. That is the default, with which the "
        "scheduler's own fair share orders no job: write the value that your site had"
    )


def _line(text: str) -> Tuple[str, str]:
    """Name and line, such as PriorityWeightFairshare=0 or Grid Engine's `weight_ticket 0`, without what follows."""
    match = _LINE.match(text)
    return ("", "") if match is None else (match.group(1), "".join(match.group(1, 2, 3)))
