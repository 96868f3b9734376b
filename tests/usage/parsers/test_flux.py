from __future__ import annotations

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from apps.core.errors import Invalid
from apps.usage.parsers.field_values import BadRecord
from apps.usage.parsers.flux import Flux
from apps.usage.parsers.flux_resources import held_of, ranges_of
from apps.usage.parsers.lines import Notes
from apps.usage.parsers.registry import AUTO, format_of
from tests.each_case import each_case
from tests.usage.parsers.reading import only, read

FLUX = Flux()
START = 1_767_225_660


def resources(*entries: tuple[str, str, str], **more: Any) -> dict[str, Any]:
    """R of these entries of ranks, cores and GPUs."""
    lite = [{"rank": rank, "children": {"core": core, **({"gpu": gpu} if gpu else {})}} for rank, core, gpu in entries]
    return {"version": 1, "execution": {"R_lite": lite, "nodelist": ["n[0-9]"], **more}}


def job(**changes: Any) -> str:
    fields = {"id": 77, "userid": 5001, "username": "ada", "t_submit": START - 60.5, "t_run": float(START)}
    fields |= {"t_inactive": START + 3600.0, "R": json.dumps(resources(("0-1", "0-3", "0"))), "bank": "physics"}
    return json.dumps({name: value for name, value in (fields | changes).items() if value != "-"}) + "\n"


def test_the_table_of_flux_accounting_is_counted_by_r(golden_dir: Path) -> None:
    data = (golden_dir / "field/f01_flux_jobs.jsonl").read_bytes()
    assert format_of(AUTO, data).name == "flux"
    found = read(FLUX, data)
    assert found.rejections == []
    rows = [(j.job, j.user, j.group, j.project, j.queue, j.cpus, j.gpus, j.nodes, j.state) for j in found.jobs]
    assert rows == [
        ("14965276672", "5001", "physics", "", "batch", 192, 32, 4, "finished"),
        ("14965276673", "5002", "climate", "ice", "", 7, 1, 2, "finished"),
        ("14965276674", "5002", "", "", "", 0, 0, 0, "withdrawn"),
    ]
    assert found.cpu_h * 3600 == pytest.approx(192 * 3600 + 7 * 10.25, abs=1e-6)
    assert [j.requested_s for j in found.jobs] == [7200, None, None]
    assert +found.notes == {"users_by_number": 3, "never_ran": 1}
    (batch,) = [piece.batch for piece in found.pieces if len(piece.batch)]
    assert [batch.kinds[kind] for kind in batch.kind] == [(("gpu:mi300", 32.0),), (), ()]
    assert found.jobs[1].start_at == datetime.fromtimestamp(1767225660.25, UTC)


def test_the_job_list_has_cores_and_nodes_but_no_gpus(golden_dir: Path) -> None:
    data = (golden_dir / "field/f02_flux_jobs.json").read_bytes()
    assert format_of(AUTO, data).name == "flux"
    found = read(FLUX, data)
    assert [(j.line, j.job, j.user, j.cpus, j.nodes, j.gpus, j.state) for j in found.jobs] == [
        (1, "14965276672", "ada", 192, 4, 0, "finished"),
        (2, "14965276700", "bob", 8, 1, 0, "running"),
        (3, "14965276701", "bob", 16, 0, 0, "pending"),
    ]
    assert (found.rejections, +found.notes) == ([], {"steps_skipped": 1})
    assert found.jobs[0].hours == 1, "until it is inactive, not until its clean-up begins"


def test_both_exports_name_one_job(golden_dir: Path) -> None:
    ids = [
        read(FLUX, (golden_dir / f"field/{name}").read_bytes()).jobs[0].job
        for name in ("f01_flux_jobs.jsonl", "f02_flux_jobs.json")
    ]
    assert ids[0] == ids[1] == only(FLUX, job(id="-", jobid="ƒPoRxNb")).job


@each_case(
    ("value", "number"),
    [
        (14965276672, "14965276672"),
        ("14965276672", "14965276672"),
        ("ƒPoRxNb", "14965276672"),
        ("fPoRxNb", "14965276672"),
        ("ƒuZZybuNNy", "6731191091817518"),
        ("0x17e9fb8df16c2e", "6731191091817518"),
        ("0017.e9fb.8df1.6c2e", "6731191091817518"),
        (0, "0"),
        (2**64 - 1, str(2**64 - 1)),
    ],
)
def test_ids_are_one_number_in_every_form_of_the_rfc(value: Any, number: str) -> None:
    assert only(FLUX, job(id=value)).job == number


@each_case(
    ("text", "ranges"),
    [
        ("0", [(0, 0)]),
        ("0-3", [(0, 3)]),
        ("[1-3,5-6,42]", [(1, 3), (5, 6), (42, 42)]),
        ("", []),
        (None, []),
    ],
)
def test_sets_of_ids_are_read_as_the_rfc_writes_them(text: Any, ranges: list[tuple[int, int]]) -> None:
    assert ranges_of("rank", text) == ranges


@pytest.mark.parametrize(
    "text", ["3-1", "1,1", "2,1", "0-3,3", "a", "1-", "-1", "1,,2", "1;2", 5, ["0"], "99999999999"]
)
def test_other_sets_of_ids_are_refused(text: Any) -> None:
    with pytest.raises(BadRecord):
        ranges_of("rank", text)


def ids_of(text: str) -> set[int]:
    """An idset listed id by id: the RFC's words."""
    ids: set[int] = set()
    for part in text.strip("[]").split(",") if text else ():
        first, _, last = part.partition("-")
        ids |= set(range(int(first), int(last or first) + 1))
    return ids


def written(rng: random.Random, most: int) -> str:
    """A random idset."""
    ids = sorted(rng.sample(range(most), rng.randrange(1, most)))
    parts: list[list[int]] = []
    for each in ids:
        if parts and parts[-1][-1] == each - 1 and rng.random() < 0.8:
            parts[-1].append(each)
        else:
            parts.append([each])
    text = ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)
    return f"[{text}]" if rng.random() < 0.2 else text


def by_listing(entries: Sequence[tuple[str, str, str]]) -> tuple[int, int, int]:
    """Nodes, cores and GPUs with every one named."""
    cores = {(rank, core) for ranks, of_cores, _ in entries for rank in ids_of(ranks) for core in ids_of(of_cores)}
    gpus = {(rank, gpu) for ranks, _, of_gpus in entries for rank in ids_of(ranks) for gpu in ids_of(of_gpus)}
    return len({rank for ranks, _, _ in entries for rank in ids_of(ranks)}), len(cores), len(gpus)


def test_what_r_allots_is_what_listing_every_core_counts() -> None:
    """Also where entries have ranks in common."""
    rng = random.Random("R 2026")
    for _ in range(300):
        entries = [
            (written(rng, 12), written(rng, 9), written(rng, 5) if rng.random() < 0.5 else "")
            for _entry in range(rng.randrange(1, 5))
        ]
        some = written(rng, 14)
        held = held_of(resources(*entries, properties={"h100@gpu": some}), Notes())
        assert (held.nodes, held.cores, held.gpus) == by_listing(entries), entries
        of_some = {(rank, gpu) for ranks, _, of_gpus in entries for rank in ids_of(ranks) for gpu in ids_of(of_gpus)}
        n_of_some = sum(rank in ids_of(some) for rank, _ in of_some)
        assert dict(held.kinds).get("gpu:h100", 0.0) == n_of_some, (entries, some)


def test_the_largest_machines_are_counted_without_listing_them() -> None:
    held = held_of(resources(("0-99999", "0-191", "0-7")), Notes())
    assert (held.nodes, held.cores, held.gpus) == (100_000, 19_200_000, 800_000)
    with pytest.raises(BadRecord, match="at most"):
        held_of(resources(("0-9999999999", "0-9999999999", "")), Notes())


def test_ranks_in_many_ranges_are_counted_in_one_pass() -> None:
    """Compared each with each, these took an hour."""
    even, third = (",".join(map(str, range(0, 300_000, step))) for step in (6, 9))
    held = held_of(resources((even, "0-3", "0"), (third, "2-5", "0"), properties={"h100@gpu": even}), Notes())
    only_even, both, only_third = 50_000 - 16_667, 16_667, 33_334 - 16_667
    assert (held.nodes, held.cores) == (only_even + both + only_third, 4 * only_even + 6 * both + 4 * only_third)
    assert held.kinds == (("gpu:h100", 50_000.0),)


def test_ranks_in_too_many_entries_are_refused() -> None:
    entries = [(f"{first}-{first + 2000}", "0", "") for first in range(2000)]
    with pytest.raises(BadRecord, match="too many entries"):
        held_of(resources(*entries), Notes())


@each_case(
    ("properties", "kinds", "ignored"),
    [
        ({"h100@gpu": "0-1"}, (("gpu:h100", 4.0),), 0),
        ({"h100@gpu": "0", "a100@gpu": "1"}, (("gpu:a100", 2.0), ("gpu:h100", 2.0)), 0),
        ({"h100@gpu": "0-1", "big@gpu": "0-1"}, (), 1),
        ({"h100": "0-1", "pdebug": "0"}, (), 0),
        ({"h100@gpu": "x"}, (), 1),
        ({"h100@gpu": "7"}, (), 0),
        ("none", (), 0),
    ],
)
def test_a_property_names_the_kind_of_gpus(properties: Any, kinds: Any, ignored: int) -> None:
    notes = Notes()
    assert held_of(resources(("0-1", "0-3", "0-1"), properties=properties), notes).kinds == kinds
    assert sum(notes.values()) == ignored


@each_case(
    ("changes", "ignored"),
    [
        ({"jobspec": "{"}, "jobspec"),
        ({"jobspec": '{"attributes": []}'}, ""),
        ({"jobspec": {"attributes": {"system": {"bank": "x"}}}}, ""),
        ({"duration": "1h"}, "duration"),
        ({"duration": -1}, "requested_s"),
        ({"queue": ["a"]}, ""),
        ({"queue": "q\x1b"}, "queue"),
        ({"R": resources(("0-1", "0-3", "0"))}, ""),  # an object in place of a text
        ({"R": "{", "ncores": 8, "nnodes": 2}, "R"),
        ({"R": "-", "ncores": 8}, ""),
        ({"t_submit": 0}, ""),
        ({"t_cleanup": "x", "ranks": 5, "annotations": [], "result": 9}, ""),
    ],
)
def test_values_that_arent_needed_refuse_no_job(changes: dict[str, Any], ignored: str) -> None:
    found = read(FLUX, job(**changes))
    assert (found.rejections, found.jobs[0].hours, found.jobs[0].cpus) == ([], 1, 8)
    assert [note for note in +found.notes if note.startswith("values")] == [f"values_ignored {ignored}"] * bool(ignored)


@each_case(
    ("text", "code"),
    [
        (job(id="x"), "bad_job"),
        (job(id=-1), "bad_job"),
        (job(id=2**64), "bad_job"),
        (job(id=True), "bad_job"),
        (job(id=None), "bad_job"),
        (job(userid=None, username=""), "no_user"),
        (job(t_run="soon"), "not_a_number"),
        (job(t_run=9e15), "absurd_time"),
        (job(t_run=10**400), "not_a_number"),
        (job(R="", ncores=10**400), "no_processors"),
        (job(userid=10**400, username=""), "no_user"),
        (job(t_run=-5), "absurd_time"),
        (job(t_inactive=START - 1.0), "end_before_start"),
        (job(t_submit=0, t_run=0), "missing_field"),
        (job(R="-"), "no_processors"),
        (job(R="{"), "bad_json"),
        (job(R="[]"), "not_an_object"),
        (job(R=json.dumps({"version": 2})), "unknown_version"),
        (job(R=json.dumps({"version": 1, "execution": {}})), "bad_fields"),
        (job(R=resources(("0", "", ""))), "no_processors"),
        (job(R=resources(("0", "3-1", ""))), "bad_fields"),
        (job(R={"version": 1, "execution": {"R_lite": [{"rank": "0"}]}}), "bad_fields"),
        (job(bank="b" * 300), "too_long"),
        ("{\n", "bad_json"),
        ("7\n", "not_an_object"),
        ("[[1]]\n", "not_an_object"),
    ],
)
def test_implausible_jobs_are_rejected_with_their_line(text: str, code: str) -> None:
    found = read(FLUX, job() + text + job(id=78))
    assert found.codes == [(2, code)]
    assert [one.job for one in found.jobs] == ["77", "78"]


def test_a_document_is_read_in_pieces_from_where_the_last_ended() -> None:
    jobs = [json.loads(job(id=number)) for number in range(7000)]
    whole = json.dumps({"jobs": jobs})
    found = read(FLUX, whole)
    assert (len(found.jobs), found.rejections) == (7000, [])
    assert len(found.pieces) > 1
    rest = read(FLUX, whole, resume=found.pieces[0].resume)
    assert [one.job for one in rest.jobs] == [one.job for one in found.jobs[len(found.pieces[0].batch) :]]


def test_a_document_that_breaks_off_says_where() -> None:
    text = json.dumps({"jobs": [json.loads(job(id=number)) for number in range(3)]})
    found = read(FLUX, text[: text.rindex('"id"') + 4])
    assert [one.job for one in found.jobs] == ["0", "1"]
    assert found.codes == [(3, "cut_off")]


def test_a_list_on_one_line_is_refused_with_its_remedy() -> None:
    text = json.dumps([json.loads(job(id=number)) for number in range(300)])
    with pytest.raises(Invalid, match="jq -c"):
        read(FLUX, text)
    lines = "[" + ",\n".join(json.dumps(json.loads(job(id=number))) for number in range(300)) + "]\n"
    assert len(read(FLUX, lines).jobs) == 300


def test_a_job_with_its_whole_environment_is_read() -> None:
    spec = json.dumps({"attributes": {"system": {"bank": "big", "environment": {"X": "y" * 500_000}}}})
    assert only(FLUX, job(jobspec=spec, bank=None)).group == "big"


def test_an_empty_jobspec_is_none_and_a_broken_one_is_ignored_by_name() -> None:
    for spec, noted in (("", {}), ("{", {"values_ignored jobspec": 1})):
        parsed = read(FLUX, job(jobspec=spec))
        assert (parsed.codes, dict(+parsed.notes)) == ([], noted)
