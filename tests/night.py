"""`make night`: what searches at random or takes long, one part after the other, and a table of what it found.

MINUTES (90) is for all parts, SEED for all that draws. A part that finds something prints the command that repeats it.
The exit status is 1 if a part found something. Nothing here decides whether a change lands.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from apps.core.code_paths import REPOSITORY
from tests.mutants.claims import claims_of_papers
from tests.mutants.rooms import ROOMS

CLAIMS_A_NIGHT = 40  # of the papers, whose code is broken
ROOMS_A_NIGHT = 4  # collecting the tests of one takes half a minute
MUTANTS_A_ROOM = 12
FAULT_RECORDS = 100_000  # of each import that is killed
# Two days of nine instances and one of three hosts have targets of their own; histories were a part of their own.
LEFT_OUT = ("tests/ring/test_whole_day.py::test_with_", "tests/cluster", "tests/simulation/test_seeds.py::test_long_")
_GRACE_S = 120.0  # beyond the minutes of a part that ends by itself: tests that have begun end
_KEPT = REPOSITORY / "var" / "night"
_FOUND = re.compile(
    r"^(?:\x1b\[[0-9;]*m)?((?:FAILED|ERROR) tests/\S+.*|survived: .*|error: .*| *BROKEN .*|.* NO$)",
    re.MULTILINE,
)
_COUNTS = re.compile(
    r"^=* ?((?:\d+ [a-z]+, )*\d+ (?:passed|skipped)(?:, \d+ [a-z]+)*) in \d", re.MULTILINE
)  # of pytest
_AGAIN = re.compile(r"^(?:E\s+|\s*)((?:make \w+ SEED|\.venv/bin/python -m pytest --deep --hypo).*)$", re.MULTILINE)


@dataclass(frozen=True)
class Part:
    """share: of the minutes that are left of the night."""

    name: str
    share: float
    command: Sequence[str]
    repeat: str
    environment: dict[str, str] = field(default_factory=dict)
    bounds_itself: bool = True


@dataclass(frozen=True)
class Result:
    part: Part
    minutes: float
    status: int | None  # None: ended when its minutes were over
    found: tuple[str, ...]
    again: tuple[str, ...]
    counts: str  # of passed, failed and skipped tests; "" if the part isn't one of tests

    @property
    def is_finding(self) -> bool:
        """What ends by itself, and had to be ended, hangs."""
        is_bad = self.part.bounds_itself if self.status is None else self.status != 0
        return is_bad or bool(self.found)

    @property
    def says(self) -> str:
        n = f"{len(self.found)} findings" if self.found else "nothing"
        if self.status is None:
            return f"{n}, {'had to be ended' if self.part.bounds_itself else 'ended before it was done'}"
        return f"exit status {self.status}" if self.is_finding and not self.found else n


def parts(seed: int, workers: int) -> list[Part]:
    python = sys.executable
    pytest = [python, "-m", "pytest", "-n", str(workers), "--dist", "worksteal", "--deep"]
    rooms = ",".join(random.Random(seed).sample(sorted(ROOMS), ROOMS_A_NIGHT))
    sampled = [f"--seed={seed}", f"--sample={MUTANTS_A_ROOM}"]
    claims = random.Random(seed).sample(sorted(claims_of_papers()), CLAIMS_A_NIGHT)
    many = {"FAIRSHARE_FAULT_RECORDS": str(FAULT_RECORDS), "SITE_SEED": str(seed)}
    drawn = ["--hypothesis-profile=fresh", f"--hypothesis-seed={seed}", "-p", "randomly", f"--randomly-seed={seed}"]
    night = [
        Part(
            "fresh examples",
            0.2,
            [*pytest, "-m", "hypothesis and not browser and not schedulers", *drawn, "--minutes={minutes}"],
            f"make test-fresh SEED={seed}",
        ),
        Part(
            "histories",
            0.2,
            [*pytest, "-m", "deep", "-rfEP", "tests/simulation/test_seeds.py"],
            f"make simulate SEED={seed}",
            {"SEED": str(seed), "MINUTES": "{minutes}"},
        ),
        Part("fuzzing", 0.15, [python, "-m", "tests.fuzz", "--minutes={minutes}"], "make fuzz"),
        Part(
            "mutants",
            0.15,
            [python, "-m", "tests.mutants", f"--rooms={rooms}", *sampled, "--minutes={minutes}"],
            f"make mutants ROOMS={rooms} SEED={seed} SAMPLE={MUTANTS_A_ROOM}",
        ),
        Part(
            "claims of the papers",
            0.2,
            [python, "-m", "tests.mutants", f"--claims={','.join(claims)}", f"--seed={seed}", "--minutes={minutes}"],
            f"make mutants CLAIMS={','.join(claims)} SEED={seed}",
        ),
        Part(
            "deep tests",
            0.9,
            [*pytest, "-m", "deep", *drawn, *(f"--deselect={name}" for name in LEFT_OUT), "--minutes={minutes}"],
            " ".join(f"{name}={value}" for name, value in many.items())
            + f" make test TESTS='--deep -m deep {' '.join(drawn)}'",
            many,
        ),
    ]
    if release := last_release():
        against = [python, "-m", "bench", "--against", release]
        night.append(Part(f"speed against {release}", 1.0, against, " ".join(["python", *against[1:]]), {}, False))
    return night


def last_release() -> str:
    """Its tag; "" before the first release."""
    described = subprocess.run(
        ["git", "describe", "--tags", "--abbrev=0"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    return described.stdout.strip()


def run(part: Part, minutes: float) -> Result:
    """Its output goes to the terminal and to a file under var/night; what runs too long is ended with its children."""
    _KEPT.mkdir(parents=True, exist_ok=True)
    kept = _KEPT / f"{part.name.replace(' ', '-')}.log"
    filled = [each.replace("{minutes}", f"{minutes:.1f}") for each in part.command]
    environment = {name: value.replace("{minutes}", f"{minutes:.1f}") for name, value in part.environment.items()}
    ends_s = 60 * minutes + (max(_GRACE_S, 30 * minutes) if part.bounds_itself else 0)
    print(f"\n== {part.name}: {minutes:.0f} minutes, output in {kept.relative_to(REPOSITORY)}", flush=True)
    began = time.monotonic()
    with kept.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            filled,
            cwd=REPOSITORY,
            env={**{name: value for name, value in os.environ.items() if name != "MINUTES"}, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status: int | None = process.wait(ends_s)
        except subprocess.TimeoutExpired:
            status = None
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    output_text = kept.read_text(encoding="utf-8", errors="replace")
    found = tuple(dict.fromkeys(line.strip() for line in _FOUND.findall(output_text)))
    again = tuple(dict.fromkeys(line.strip() for line in _AGAIN.findall(output_text)))
    counts = "".join(_COUNTS.findall(output_text)[-1:])
    return Result(part, (time.monotonic() - began) / 60, status, found, again, counts)


def table(results: Sequence[Result], seed: int) -> str:
    lines = [f"{'part':28} {'seed':>10} {'minutes':>8}  found"]
    for result in results:
        says = ", ".join(filter(None, (result.says, result.counts)))
        lines.append(f"{result.part.name:28} {seed:>10} {result.minutes:8.1f}  {says}")
        if result.is_finding:
            lines += [f"    {line}" for line in result.found]
            lines += [f"  again: {line}" for line in result.again or (result.part.repeat,)]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.night", description=__doc__)
    parser.add_argument("--minutes", type=float, default=90.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--workers", type=int, default=3)
    options = parser.parse_args(arguments)
    ends, results = time.monotonic() + 60 * options.minutes, list[Result]()
    for part in parts(options.seed, options.workers):
        left = (ends - time.monotonic()) / 60
        results.append(run(part, max(0.5, left * part.share)))
    print("\n" + table(results, options.seed))
    if not last_release():
        print("speed: not compared, as no release has a tag yet")
    return 1 if any(result.is_finding for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
