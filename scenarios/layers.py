"""Lay one description over another: a file over the file it extends, then `key.path=value`.

A key that chooses a variant (`outages.kind`, `method.outer.name`) takes the old variant's
inherited sibling keys with it when a higher layer changes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from scenarios.problems import Problem, dotted, got
from scenarios.shapes import Shape, default_data, shape
from scenarios.strict_yaml import MAX_DEPTH, Node, node_of

Path = tuple[str, ...]


def merge(base: Node, over: Node, annotation: Any) -> Node:
    """Maps merge, anything else replaces; a map of another variant replaces as well."""
    if not isinstance(base.value, dict) or not isinstance(over.value, dict):
        return over
    form = shape(annotation)
    if form.tag in over.value and form.tag_of(base.value) != form.tag_of(over.value):
        return over
    both = {**base.value, **over.value}
    for key in base.value.keys() & over.value.keys():
        both[key] = merge(base.value[key], over.value[key], form.child(both, key))
    return Node(both, over.at, over.key_at)


class Layer:
    """Assignments of one origin (a command line, an arm of a sweep) over a document.

    They may come in any order: keys this layer set survive its own change of variant.
    """

    def __init__(self, root: Node, annotation: Any, forbidden: tuple[str, ...]) -> None:
        self.root = root
        self._annotation = annotation
        self._forbidden = forbidden
        self._mine: set[Node] = set()

    def assign(self, key: str, value: Node) -> list[Problem]:
        """Set every place that the key path or glob names; where it cannot, say why."""
        at = value.key_at or value.at
        segments = key.split(".")
        if not all(segments) or len(segments) > MAX_DEPTH:
            return [Problem(at, key, "not a key path such as cluster.stages")]
        globbed = any(char in key for char in "*?[")
        paths = list(_expand(self.root, self._annotation, segments, globbed, None))
        if not paths:
            return [Problem(at, key, "matches no key")]
        barred = [path for path in paths if path[0] in self._forbidden]
        if barred:
            return [Problem(at, key, f"{barred[0][0]} cannot be set here")]
        problems = [self._set(path, value.clone()) for path in paths]
        return [problem for problem in problems if problem]

    def _set(self, path: Path, value: Node) -> Problem | None:
        at = value.key_at or value.at
        here, annotation = self.root, self._annotation
        for depth, key in enumerate(path):
            map_ = here.value
            if not isinstance(map_, dict):
                kind = f"is no map {got(here.plain())}"
                return Problem(at, dotted(path), f"cannot be set: {dotted(path[:depth])} {kind}")
            form = shape(annotation)
            if depth == len(path) - 1:
                if key == form.tag and form.tag_of(map_) != value.plain():
                    map_ = {k: node for k, node in map_.items() if node in self._mine}
                here.value = {**map_, key: value}
                self._mine.add(value)
                return None
            child = map_.get(key)
            if child is None or child.value is None:
                child = map_[key] = node_of({} if child else _default(form, map_, key), at)
                self._mine.add(child)
            here, annotation = child, form.child(map_, key)
        return None


def _default(form: Shape, map_: dict[str, Node], key: str) -> dict[str, Any]:
    field = form.fields(map_).get(key)
    data = default_data(field) if field else None
    return data if isinstance(data, dict) else {}


def _expand(
    here: Node | None, annotation: Any, segments: list[str], globbed: bool, default: Any
) -> Iterator[Path]:
    """Paths that segments name: with a glob those that exist here, or in what is there by default;
    without one exactly one, whether it exists or not."""
    if not segments:
        yield ()
        return
    form = shape(annotation)
    there = default if here is None else here.value
    map_ = here.value if here is not None and isinstance(here.value, dict) else {}
    names = list({**there, **form.fields(map_)}) if isinstance(there, dict) else []
    count = _key_length(form, names, segments)
    head, rest = ".".join(segments[:count]), segments[count:]
    found = [name for name in names if fnmatchcase(name, head)] if globbed else [head]
    for name in found:
        field = form.fields(map_).get(name)
        below = there.get(name) if here is None and isinstance(there, dict) else None
        below = default_data(field) if field and below is None else below
        for path in _expand(map_.get(name), form.child(map_, name), rest, globbed, below):
            yield (name, *path)


def _key_length(form: Shape, names: list[str], segments: list[str]) -> int:
    """How many segments are one key: names may hold dots (`p3.2xlarge`), so may arms' keys."""
    for count in range(len(segments), 1, -1):
        if ".".join(segments[:count]) in names:
            return count
    leaf = shape(form.values)
    free = form.values is not None and not form.models
    return len(segments) if free and not (leaf.models or leaf.values) else 1
