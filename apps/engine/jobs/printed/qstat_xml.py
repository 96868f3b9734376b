"""`qstat -xml -ext -urg -pri`: each `job_list` with its leaves. Document types and entities are refused."""

from __future__ import annotations

from xml.parsers import expat

from apps.engine.jobs.printed.qstat import role_of
from apps.engine.jobs.printed.rows import Printed, PrintedJob, bad_line, distinct, read_cell

_NUMBERS = {
    "JAT_prio": "prior",
    "JB_nurg": "nurg",
    "JB_nppri": "npprior",
    "JAT_ntix": "ntckts",
    "JB_priority": "ppri",
    "JB_urg": "urg",
    "JB_rrcontr": "rrcontr",
    "JB_wtcontr": "wtcontr",
    "JB_dlcontr": "dlcontr",
    "tickets": "tckts",
    "JB_override_tickets": "ovrts",
    "otickets": "otckt",
    "ftickets": "ftckt",
    "stickets": "stckt",
    "JAT_share": "share",
}
_TEXTS = {"JB_job_number", "JB_owner", "state", "tasks", "JB_submission_time", "JAT_start_time"}
_REMEDY = "paste the output of qstat -xml -ext -urg -pri as it is"


def read_qstat_xml(text: str) -> Printed:
    """Every job of the document; BadCase with the line of what can't be read."""
    reader = _Reader()
    try:
        reader.parser.Parse(text, True)
    except expat.ExpatError as problem:
        raise bad_line(problem.lineno, f"no XML: {expat.ErrorString(problem.code)}; {_REMEDY}") from None
    return Printed("gridengine", distinct(reader.jobs))


class _Reader:
    """Collects leaves between the start and the end of a `job_list`."""

    def __init__(self) -> None:
        self.jobs: list[PrintedJob] = []
        self.leaves: dict[str, tuple[str, int]] | None = None
        self.words: list[str] = []
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self.words.append
        self.parser.StartDoctypeDeclHandler = self._refuse_doctype

    def _refuse_doctype(self, *_: object) -> None:
        raise bad_line(self.parser.CurrentLineNumber, f"a document type isn't taken; {_REMEDY}")

    def _start(self, name: str, _: object) -> None:
        self.words.clear()
        if name == "job_list":
            self.leaves = {}

    def _end(self, name: str) -> None:
        line = self.parser.CurrentLineNumber
        if name == "job_list" and self.leaves is not None:
            self.jobs.append(_read_job(self.leaves, line))
            self.leaves = None
        elif self.leaves is not None and (name in _NUMBERS or name in _TEXTS):
            self.leaves[name] = "".join(self.words).strip(), line
        self.words.clear()


def _read_job(leaves: dict[str, tuple[str, int]], line: int) -> PrintedJob:
    def text(name: str) -> str:
        return leaves.get(name, ("", line))[0]

    if not text("JB_job_number") or not text("state"):
        raise bad_line(line, f"the job_list that ends here has no JB_job_number or state; {_REMEDY}")
    numbers = {
        _NUMBERS[name]: read_cell(cell, name, at) for name, (cell, at) in leaves.items() if name in _NUMBERS and cell
    }
    if "prior" not in numbers:
        raise bad_line(line, f"job {text('JB_job_number')} has no JAT_prio; {_REMEDY}")
    parts = [numbers[name] for name in ("rrcontr", "wtcontr", "dlcontr") if name in numbers]
    if "urg" not in numbers and len(parts) == 3:
        numbers["urg"] = sum(parts)
    task, state = text("tasks"), text("state")
    job = f"{text('JB_job_number')}.{task}" if task else text("JB_job_number")
    submitted = text("JB_submission_time") or text("JAT_start_time")
    return PrintedJob(job, line, numbers, user=text("JB_owner"), state=state, role=role_of(state), submitted=submitted)
