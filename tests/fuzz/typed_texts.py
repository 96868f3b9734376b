"""Texts that people type or paste: numbers, names of the grid, listings, configurations, cases and experiments."""

from __future__ import annotations

import json
import math

from apps.accounts.grid_names import canonical_dn, canonical_fqan, common_name, is_dn
from apps.contrib.allocations.pages.forms import typed_amount
from apps.contrib.jobs.algorithms.listings import read_printed
from apps.contrib.lab.experiments.spec import read_spec
from apps.contrib.lab.simulation.scenario import read_scenario
from apps.core.errors import DomainError
from apps.core.typed_numbers import read_amount, read_number, read_whole
from apps.engine.case_text import read_cases
from apps.engine.cases import solve
from apps.engine.errors import EngineError
from apps.mapping.rules.entry_names import entry_name, text_of
from apps.mapping.rules.rule import LONGEST_NAME_PART
from apps.policies.settings import PolicySettings
from apps.priorities.slurm_config import read_slurm_config
from apps.usage.parsers.slurm_billing import BillingWeights
from tests.fuzz.refusals import check_refusal


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def number(data: bytes) -> bool:
    text = _text(data)
    if text is None:
        return False
    is_read = False
    for read, write in ((read_number, repr), (read_amount, typed_amount)):
        try:
            value = read(text)
        except ValueError:
            continue
        assert math.isfinite(value)
        assert read(write(value)) == value
        is_read = True
    whole = read_whole(text)
    assert whole is None or str(whole) == text.lstrip("0") or whole == 0
    return is_read


def grid_name(data: bytes) -> bool:
    """One spelling stays as it is; a name of an entry can be read back."""
    text = _text(data)
    if text is None or "\0" in text:
        return False
    dn, fqan = canonical_dn(text), canonical_fqan(text)
    assert canonical_dn(dn) == dn, (text, dn, canonical_dn(dn))
    assert canonical_fqan(fqan) == fqan, (text, fqan, canonical_fqan(fqan))
    assert is_dn(dn) or not is_dn(text)
    assert common_name(dn) == common_name(text)
    name = entry_name(text)
    assert 0 < len(name) <= LONGEST_NAME_PART
    assert entry_name(text_of(name)) == name or "~" in name
    return is_dn(text)


def listing(data: bytes) -> bool:
    """Output of qstat or sprio in the calculator."""
    text = _text(data)
    try:
        return text is not None and bool(read_printed(text).jobs)
    except EngineError as refusal:
        check_refusal(refusal)
        return False


def slurm_config(data: bytes) -> bool:
    text = _text(data)
    try:
        if text is None:
            return False
        settings = PolicySettings.from_json(read_slurm_config(text).settings)
    except DomainError:
        return False
    assert PolicySettings.from_json(settings.to_json()) == settings
    return True


def settings(data: bytes) -> bool:
    try:
        document = json.loads(data)
        read = PolicySettings.from_json(document)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError, DomainError):
        return False
    assert PolicySettings.from_json(json.loads(json.dumps(read.to_json(), allow_nan=False))) == read
    return True


def billing(data: bytes) -> bool:
    text = _text(data)
    try:
        weights = BillingWeights({"batch": text or ""})
    except ValueError:
        return False
    billed = weights.billing_of("batch", [("cpu", 4.0), ("mem", 2048.0), ("node", 1.0), ("gres/gpu", 2.0)])
    assert not math.isinf(billed)
    return bool(weights.weights["batch"])


def case(data: bytes) -> bool:
    """Cases of `compute`: a result that is JSON, or an error with its place."""
    text = _text(data)
    if text is None:
        return False
    is_solved = False
    try:
        cases = read_cases(text)
    except EngineError:
        return False
    for each in cases[:5]:
        try:
            json.dumps(solve(each), allow_nan=False)
            is_solved = True
        except EngineError as refusal:
            check_refusal(refusal)
    return is_solved


def scenario(data: bytes) -> bool:
    text = _text(data)
    if text is None:
        return False
    is_read = False
    try:
        cases = read_cases(text)
    except EngineError:
        return False
    for each in cases[:5]:
        try:
            read_scenario(each, seed=1, traces={})
            is_read = True
        except EngineError as refusal:
            check_refusal(refusal)
    return is_read


def experiment(data: bytes) -> bool:
    try:
        document = json.loads(data)
        spec = read_spec(document)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError, DomainError):
        return False
    assert read_spec(json.loads(json.dumps(spec.to_json(), allow_nan=False))) == spec
    return True
