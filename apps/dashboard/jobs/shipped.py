"""Something to look at before one's own jobs: two listings and four cases, small enough to reckon by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

_FOLDER = Path(__file__).with_name("examples")


@dataclass(frozen=True, slots=True)
class Example:
    """One text of the folder, and the amendments that show something with it."""

    name: str
    label: str | Promise
    file_name: str
    variants: Sequence[str] = ()

    @property
    def data(self) -> QueryDict:
        """As the form would send it."""
        sent = QueryDict(mutable=True)
        sent["text"] = (_FOLDER / self.file_name).read_text(encoding="utf-8")
        sent.setlist("variants", list(self.variants))
        return sent


EXAMPLES = (
    Example("qstat", _("Grid Engine: qstat -ext -urg -pri"), "qstat.txt", ("exclude_running",)),
    Example("case", _("Grid Engine: a case with two amendments"), "gridengine.json", ("exclude_running", "even_split")),
    Example("worked", _("Grid Engine: the worked example of 2011"), "gridengine-2011.json", ("even_split",)),
    Example("sprio", _("Slurm: sprio -w, -l and -n -l"), "sprio.txt"),
    Example("sam", _("SAM: front or back"), "sam.json"),
    Example("sam-weighted", _("SAM: weighted benefits"), "sam-weighted.json"),
)


def example(name: str) -> Example | None:
    """The example of this name, if there is one."""
    return next((each for each in EXAMPLES if each.name == name), None)
