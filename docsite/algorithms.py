"""docs/algorithms.md: algorithms, operators, decay functions and job priorities, from the registries of the engine."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from apps.contrib.jobs.algorithms import JobAlgorithm, all_job_algorithms
from apps.contrib.jobs.algorithms.base import CaseField
from apps.engine.algorithms import Algorithm, algorithms_of_packages, all_algorithms
from apps.engine.decay_functions import DECAY_FUNCTIONS, DecayFunction
from apps.engine.operators import PAPER, Operator, Properties, all_operators, installed_operators
from apps.engine.parameters import Parameter, read_settings
from docsite.curves import decay_window
from docsite.markdown import code, table

_USUAL_VALUES = "a number ≥ 0"
_PROPERTIES = {
    "isolation": "isolation",
    "proportional_redistribution": "proportional redistribution",
    "scale_invariance": "scale invariance",
    "boundaries": "boundaries",
    "order_in_groups": "order in groups",
    "monotone": "monotone",
    "order_independent": "order of siblings is irrelevant",
    "sign": "sign",
}


def tree_algorithms() -> str:
    """A table of what differs between them, a line of what holds for all, then a section each."""
    own = [each for name, each in all_algorithms().items() if name not in algorithms_of_packages().objects]
    rows = _property_rows(each.properties(read_settings(each.name, each.parameters, {})) for each in own)
    differing = table(
        ("property", *(code(each.name) for each in own)), [row for row in rows if row[1:] != ["yes"] * len(own)]
    )
    common = ", ".join(row[0] for row in rows if row[1:] == ["yes"] * len(own))
    return "\n\n".join([differing, f"All of them have: {common}.", *(_algorithm(each) for each in own)])


def _property_rows(held: Iterable[Properties]) -> list[list[str]]:
    columns = list(held)
    return [
        [words, *("yes" if getattr(each, name) else "no" for each in columns)] for name, words in _PROPERTIES.items()
    ]


def _algorithm(algorithm: Algorithm) -> str:
    facts = [
        ("formula", code(algorithm.formula)),
        ("priority of an entry", algorithm.component),
        ("numbers of an entry", ", ".join(map(code, algorithm.fields))),
        ("reference", algorithm.reference),
    ]
    if not algorithm.takes_inherit:
        facts.append(("inherited shares", "refused"))
    parts = [
        f"### {code(algorithm.name)}: {algorithm.label}",
        "\n".join(f"- **{name}**: {text}" for name, text in facts),
        _parameters(algorithm.parameters),
    ]
    return "\n\n".join(part for part in parts if part)


def _parameters(parameters: Iterable[Parameter]) -> str:
    rows = [
        (code(each.name), _label(each), _allowed(each), "none" if each.default is None else code(f"{each.default}"))
        for each in parameters
    ]
    return table(("parameter", "is", "allowed", "default"), rows) if rows else ""


def _allowed(parameter: Parameter) -> str:
    names_unit = not parameter.unit or parameter.allowed.startswith("seconds")
    return parameter.allowed if names_unit else f"{parameter.allowed} {parameter.unit}"


def _label(parameter: Parameter) -> str:
    label = f"{parameter.label}; applies {parameter.condition}" if parameter.condition else parameter.label
    return f"{label}. {parameter.note[:1].upper()}{parameter.note[1:]}" if parameter.note else label


def operators() -> str:
    """A section for each formula, with the curves of its operators."""
    own = [each for each in all_operators() if each.name not in installed_operators()]
    return "\n\n".join(_family(list(family)) for _, family in groupby(own, key=_shared_text))


def _shared_text(operator: Operator) -> tuple[object, ...]:
    """What the operators of one section have in common."""
    return operator.formula, operator.reference, operator.resolves, operator.schedulers, operator.properties


def _family(family: list[Operator]) -> str:
    first = family[0]
    absent = [words for name, words in _PROPERTIES.items() if not getattr(first.properties, name)]
    missing = f"Does not hold: {', '.join(absent)}." if absent else ""
    label = first.label if len(family) == 1 else first.label.partition(",")[0]
    pictures = [
        f"![{each.label}: priority over the actual share](pictures/operators/{each.name}.svg)" for each in family
    ]
    source = first.reference.replace(PAPER, "operators paper")
    return "\n\n".join(
        part
        for part in (
            f"### {', '.join(code(each.name) for each in family)}: {label}",
            "\n".join(pictures),
            f"F(t, s) = {code(first.formula)} ({source}). {first.resolves} {missing}".rstrip(),
            first.schedulers,
        )
        if part
    )


def decay_functions() -> str:
    """A section each, with its curve."""
    return "\n\n".join(_decay(law) for law in DECAY_FUNCTIONS.values())


def _decay(law: DecayFunction) -> str:
    shown = ", ".join(f"{name} = {value:g}" for name, value in decay_window(law.name).settings.items() if value)
    picture = f"![{law.label}: weight over age](pictures/decay/{law.name}.svg)"
    parts = [
        f"### {code(law.name)}: {law.label}",
        picture,
        f"weight = {code(law.formula)}. {law.reference[0].upper()}{law.reference[1:]}."
        + (f" The curve has {code(shown)}." if shown else ""),
        _parameters(law.parameters),
    ]
    return "\n\n".join(part for part in parts if part)


def job_algorithms() -> str:
    """A section each, with its variants."""
    return "\n\n".join(_job_algorithm(each) for each in all_job_algorithms().values())


def _job_algorithm(algorithm: JobAlgorithm) -> str:
    variants = table(("variant", "changes"), [(code(each.setting), each.changes) for each in algorithm.variants])
    fields = table(
        ("field of a case", "is", "default"),
        [(code(each.name), _meaning(each), _plain(each.default)) for each in algorithm.fields],
    )
    parts = [
        f"### {code(algorithm.name)}: {algorithm.label}",
        f"{code(algorithm.formula)}. {algorithm.condition}".rstrip(),
        f"*{algorithm.reference}*",
        fields,
        variants if algorithm.variants else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _meaning(field: CaseField) -> str:
    return field.label if field.allowed == _USUAL_VALUES else f"{field.label}: {field.allowed}"


def _plain(default: object) -> str:
    return "required" if default is None else code(str(default))
