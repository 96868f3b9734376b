"""Thirty faults: what is done to the service, and what it promises then; tests name them by `@pytest.mark.fault`."""

from __future__ import annotations

PROMISES: dict[str, tuple[str, str]] = {
    "F1": (
        "SIGKILL of a worker at each of eight places of an import, with a million records in `make test-faults`",
        "another worker goes on within 60 s; each record counts once; progress never goes back",
    ),
    "F2": (
        "SIGKILL of all web processes while records are pushed, and of the process of a publish in each phase",
        "a push is there whole or not at all; a publication happens once or not at all; a repeated request with "
        "its `Idempotency-Key` gets the first answer",
    ),
    "F3": (
        "SIGKILL of a PostgreSQL backend, and of the whole server, during imports and publications",
        "the product reconnects by itself; what was committed stays; `/readyz` goes to 503 and back",
    ),
    "F4": (
        "SIGKILL in each phase of a recompute, while readers ask",
        "each answer comes from one whole snapshot, the one before or the one after",
    ),
    "F5": (
        "the same file twice, overlapping files, several workers at once",
        "each record counts once; others are duplicates",
    ),
    "F6": (
        "records sent again with other numbers, and older versions after newer ones",
        "the newest version counts; only its hours are computed again",
    ),
    "F7": (
        "withdrawn records; credits above the usage",
        "usage is never below zero; what can't be is refused with a reason",
    ),
    "F8": (
        "records in any order; records of long ago",
        "the same sums as in order; what is too late is listed, never lost",
    ),
    "F9": (
        "clocks of sources that are ahead, behind or jump back; ends before starts",
        "records of the future are refused and name the source; the age of usage never goes back",
    ),
    "F10": (
        "the clock of the host jumps by an hour, or is off by two seconds",
        "all work goes on; no usage decays twice",
    ),
    "F11": (
        "days of 23 and 25 hours, skipped and repeated local times, half-hour zones",
        "instants are stored in UTC; days have the hours that they had; a local time without a zone is refused",
    ),
    "F12": ("leap days, jobs of 400 days, running jobs and resized ones", "parts by hour add up to the whole"),
    "F13": (
        "largest jobs, a million siblings, shares and usage of zero, tiny and huge numbers, the shortest half-life",
        "no NaN and no infinity in an answer; targets of siblings add up to one; schedulers get values in their range",
    ),
    "F14": (
        "the broker is away, wiped, or sends messages twice",
        "work waits in the database and is done once, by itself",
    ),
    "F15": ("a worker is frozen beyond its lease, and wakes", "another one takes over; the frozen one commits nothing"),
    "F16": (
        "recomputes, imports and publications of one policy at once",
        "no deadlock; the result is that of one after the other",
    ),
    "F17": ("recomputes are asked for faster than they end", "one runs and one waits; the age of the numbers is shown"),
    "F18": (
        "two editors change one field, one parent, one entry",
        "no update is lost; the second gets a conflict with both values; never a cycle, never an orphan",
    ),
    "F19": (
        "a publication on a revision that is no longer the newest",
        "it is rebased: disjoint edits merge, others are asked about; approvals and trials of before don't count",
    ),
    "F20": ("an undo, while later revisions changed the same entries", "conflicts are shown; history only grows"),
    "F21": (
        "no room for the database, uploads, files of columns, and the state of the agent",
        "writes say so with the path; nothing is stored half; runs are tried again",
    ),
    "F22": (
        "peers that send a byte now and then, hang, send endless bodies or redirects",
        "each call ends at its deadline and size; other peers and all other work go on",
    ),
    "F23": (
        "a peer that is away, older than before, forked, or signs wrongly",
        "the last good version stays with its age until the chosen action; others are rejected by name",
    ),
    "F24": ("circles of mounts, trees too deep and too large", "refused with the path; everything else is computed"),
    "F25": (
        "look-ups without a pause while the database fails, hangs, or fails over to its replica",
        "each look-up is answered, by the other host where one is cut off, with its age; unchanged ones are 304",
    ),
    "F26": (
        "a migration of a database with records, killed anywhere; older code on a newer database",
        "it goes on where it was; no record is lost; older code refuses by name",
    ),
    "F27": (
        "a backup is restored on an empty machine, and killed while it is; a database is recovered to a point in time",
        "the same priorities byte for byte; the audit log is unbroken; peers accept later versions",
    ),
    "F28": (
        "the database hangs, answers after seconds, or holds rows of others; all threads are busy",
        "bounded waits, then 503 with `Retry-After`; look-ups and health are answered meanwhile",
    ),
    "F29": (
        "mutated accounting lines, JSON and XML (10,000 of each format in `make test-faults`)",
        "each is accepted or rejected with a reason within a second; never a 5xx",
    ),
    "F30": (
        "SIGTERM during everything",
        "started requests are answered, runs are handed back without a counted attempt, within 30 s",
    ),
}
