"""pydantic's errors in a user's words, once each, at the place in the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import groupby
from typing import Any

from pydantic import TypeAdapter, ValidationError

from scenarios.problems import Mark, Problem, dotted, got
from scenarios.schema import Inconsistent
from scenarios.shapes import Shape, literals, members, shape
from scenarios.strict_yaml import Node
from sim.config import Name

Path = tuple[str | int, ...]

KINDS = {
    "bool_type": "true or false",
    "dict_type": "a map",
    "float_type": "a number",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_attributes_type": "a map",
    "model_type": "a map",
    "none_required": "null",
    "string_type": "text",
    "tuple_type": "a list",
}
RULES = {
    "finite_number": "must be a finite number",
    "greater_than": "must be above {gt:.12g}",
    "greater_than_equal": "must be at least {ge:.12g}",
    "less_than": "must be below {lt:.12g}",
    "less_than_equal": "must be at most {le:.12g}",
    "literal_error": "must be {expected}",
    "multiple_of": "must be a multiple of {multiple_of:.12g}",
    "string_pattern_mismatch": "must be text that matches {pattern}",
    "string_too_long": "must have {max_length} characters or fewer",
    "string_too_short": "must have {min_length} characters or more",
    "string_unicode": "must be text",
    "too_long": "must have {max_length} or fewer entries",
    "too_short": "must have {min_length} or more entries",
    "union_tag_invalid": "must be {expected}",
}
NAME_PATTERN = TypeAdapter(Name).json_schema()["pattern"]
NAME_RULE = "letters, digits, _ . - only, a letter or digit first, at most 64 long"


@dataclass(frozen=True)
class _Error:
    """One of pydantic's errors; its location without the names of union branches."""

    path: Path
    kind: str
    value: Any
    context: dict[str, Any]
    text: str
    unions: tuple[tuple[Path, str], ...] = ()
    """Unions without a tag on the way, outermost first, and the branch taken in each."""
    is_key: bool = False


def explain(error: ValidationError, root: Node, model: Any) -> list[Problem]:
    """Every problem of the document `root` that did not become a `model`."""
    errors = list(_choose([_place(dict(e), model) for e in error.errors(include_url=False)], 0))
    problems: list[Problem] = []
    meant: set[Path] = set()
    for e in errors:
        if e.kind == "extra_forbidden":
            hint, near = _unknown(e.path, root, model)
            problems.append(Problem(mark_of(root, e.path, key=True), dotted(e.path), hint))
            meant.add((*e.path[:-1], near))
    for e in errors:
        if e.kind != "extra_forbidden" and not (e.kind == "missing" and e.path in meant):
            problems += _problems(e, root)
    return problems


def mark_of(root: Node, path: Path, key: bool = False) -> Mark:
    """Place of a value (of a map: of its key); of what is around it when it is not there."""
    node = root
    for part in path:
        inner = node.value
        if isinstance(inner, dict) and part in inner:
            node = inner[str(part)]
        elif isinstance(inner, list) and isinstance(part, int) and part < len(inner):
            node = inner[part]
        else:
            return node.key_at or node.at
    key = key or isinstance(node.value, dict)
    return node.key_at if key and node.key_at else node.at


# --- where ----------------------------------------------------------------------------------


def _place(error: dict[str, Any], model: Any) -> _Error:
    """Follow a location through the annotations, which say where it names union branches."""
    path: list[str | int] = []
    unions: list[tuple[Path, str]] = []
    annotation, is_key = model, False
    for part in error["loc"]:
        options = members(annotation)
        if part == "[key]" and path:
            is_key = True
        elif len(options) > 1:
            if shape(annotation).tag is None or not all(_models(option) for option in options):
                unions.append((tuple(path), str(part)))
            annotation = _branch(options, str(part))
        else:
            path.append(part)
            form = shape(annotation)
            field = form.models[0].model_fields.get(str(part)) if form.models else None
            annotation = form.items if isinstance(part, int) else form.values
            annotation = field.annotation if field else annotation
    context = error.get("ctx", {})
    if error["type"].startswith("union_tag"):
        path.append(context["discriminator"].strip("'"))
        tags = context.get("expected_tags", "")
        context = {"expected": " or ".join(tags.rsplit(", ", 1))}
        value = error["input"]
        error["input"] = value.get(path[-1]) if isinstance(value, dict) else value
    return _Error(
        tuple(path), error["type"], error["input"], context, error["msg"], tuple(unions), is_key
    )


def _models(option: Any) -> list[str]:
    return [model.__name__ for model in shape(option).models]


def _branch(options: list[Any], label: str) -> Any:
    """The member of a union that pydantic calls `label`."""
    for option in options:
        form = shape(option)
        fields = [f for model in form.models for f in model.model_fields.values()]
        if any(label in literals(field) for field in fields):
            return option
        if any(re.search(rf"\b{name}\b", label) for name in _models(option)):
            return option
        if form.items is not None and label.startswith(("list[", "tuple[")):
            return option
        if form.values is not None and label.startswith("dict["):
            return option
    return None


def _choose(errors: list[_Error], level: int) -> Iterator[_Error]:
    """Of each union keep the branch that was meant; of a value that fits none make one error."""

    def union(e: _Error) -> Path | None:
        return e.unions[level][0] if len(e.unions) > level else None

    for path, same in groupby(errors, key=union):
        group = list(same)
        entry = [e for e in group if e.path == path and (e.kind in KINDS or _is_literal(e))]
        if path is None:
            yield from group
        elif len(entry) == len(group):
            wanted = [KINDS.get(e.kind) or e.context["expected"] for e in group]
            yield replace(group[0], kind="union", context={"expected": _or(wanted)})
        else:
            branches: dict[str, list[_Error]] = {}
            for e in group:
                if e not in entry:
                    branches.setdefault(e.unions[level][1], []).append(e)
            yield from _choose(min(branches.values(), key=len), level + 1)


def _is_literal(error: _Error) -> bool:
    return error.kind == "literal_error"


def _or(words: list[str]) -> str:
    parts = ", ".join(dict.fromkeys(words)).replace(" or ", ", ").rsplit(", ", 1)
    return " or ".join(parts)


# --- what -----------------------------------------------------------------------------------


def _problems(e: _Error, root: Node) -> list[Problem]:
    at, key = mark_of(root, e.path, e.is_key), dotted(e.path)
    cause = e.context.get("error")
    if isinstance(cause, Inconsistent):
        paths = [((*e.path, *loc), message) for loc, message in cause.problems]
        return [Problem(mark_of(root, path), dotted(path), message) for path, message in paths]
    if cause is not None:
        return [Problem(at, key, str(cause))]
    if e.kind in ("missing", "union_tag_not_found"):
        return [Problem(at, key, "missing key")]
    return [Problem(at, key, f"{_rule(e)} {got(e.value)}{_near_choice(e)}")]


def _rule(e: _Error) -> str:
    if e.kind == "string_pattern_mismatch" and e.context["pattern"] == NAME_PATTERN:
        return f"must be {NAME_RULE}"
    if e.kind in RULES:
        return RULES[e.kind].format(**e.context)
    if e.kind == "union":
        return f"must be {e.context['expected']}"
    if e.kind in KINDS:
        return f"must be {KINDS[e.kind]}"
    return e.text[:1].lower() + e.text[1:]


def _near_choice(e: _Error) -> str:
    choices = re.findall(r"'([^']*)'", str(e.context.get("expected", "")))
    near = get_close_matches(e.value, choices, 1) if isinstance(e.value, str) else []
    return f"; did you mean '{near[0]}'?" if near else ""


def _unknown(path: Path, root: Node, model: Any) -> tuple[str, str]:
    """What to say of an unknown key, and the key that was probably meant."""
    form, node = _around(path[:-1], root, model)
    map_ = node.value if isinstance(node.value, dict) else {}
    key, allowed = str(path[-1]), list(form.fields(map_))
    others = [m for m in form.models if key in m.model_fields]
    near = get_close_matches(key, allowed, 1)
    if others and form.tag:
        tags = [repr(v) for m in others for v in literals(m.model_fields[form.tag])]
        here = f"here {form.tag} is {form.tag_of(map_)!r}"
        return f"unknown key; it belongs to {form.tag} {_or(tags)}, {here}", ""
    if near:
        return f"unknown key; did you mean '{near[0]}'?", near[0]
    return f"unknown key; allowed: {', '.join(allowed)}", ""


def _around(path: Path, root: Node, model: Any) -> tuple[Shape, Node]:
    node, form = root, shape(model)
    for part in path:
        inner = node.value
        if isinstance(inner, dict):
            node, form = inner[str(part)], shape(form.child(inner, str(part)))
        elif isinstance(inner, list) and isinstance(part, int):
            node, form = inner[part], shape(form.items)
    return form, node
