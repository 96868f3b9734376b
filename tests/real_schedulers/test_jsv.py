"""The JSV of the recipes with a real qmaster: the POSIX priority at submission, and the order that follows from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.stack import eventually
from tests.real_schedulers.enclosure import HOME
from tests.real_schedulers.gridengine_site import GridEngineSite

pytestmark = [pytest.mark.schedulers, pytest.mark.deep]
RECIPE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "callout" / "fairshare_jsv.py"
# In place of the callout, whose answers have tests of their own: gea has factor 1, others a quarter; gec is unknown.
CALLOUT = '#!/bin/sh\nfor name; do :; done\ncase "$name" in gea) echo 1023;; gec) ;; *) echo 256;; esac\n'


def test_a_job_gets_its_priority_at_submission_and_the_queue_follows(gridengine: GridEngineSite) -> None:
    (gridengine.folder / "callout").write_text(CALLOUT)
    (gridengine.folder / "callout").chmod(0o755)
    jsv = gridengine.folder / "jsv.py"
    jsv.write_text(RECIPE.read_text(encoding="utf-8").replace('"fairshare-callout"', f'"{HOME}/callout"'))
    jsv.chmod(0o755)
    gridengine.configure(weight_urgency=0, weight_ticket=0, weight_priority=1)
    asked = ("-jsv", f"{HOME}/jsv.py")
    second = gridengine.submit("geb", *asked, hold_queue=True)
    first, left = gridengine.submit("gea", *asked), gridengine.submit("gec", *asked)
    assert [_priority(gridengine, job) for job in (first, second, left)] == [0, 256 - 1023, 0]
    eventually(
        lambda: [job["JB_job_number"] for job in gridengine.jobs()][-1] == second, "the job of a lower factor is last"
    )
    gridengine.release()
    gridengine.wait_for_jobs()


def _priority(site: GridEngineSite, job: str) -> int:
    """As the qmaster has it; it leaves out 0."""
    lines = (line.split() for line in site.run("qstat", "-j", job).splitlines())
    return next((int(words[1]) for words in lines if words and words[0] == "priority:"), 0)
