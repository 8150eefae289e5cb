"""Strict YAML: 1.2 core scalars, one document of maps with text keys, and where everything stands.

Reads what strangers wrote: no tags, anchors or aliases, no duplicate keys, bounded size and depth.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml

from scenarios.problems import Mark, Problem, ScenarioError, dotted, got

MAX_BYTES = 1_000_000
MAX_DEPTH = 50
MAX_NUMBER = 100
"""Characters of the longest number; anything longer is text."""

Scalar = None | bool | int | float | str


@dataclass(eq=False)
class Node:
    """A value with the place of it and of its key; moving a node moves its marks."""

    value: Scalar | list[Node] | dict[str, Node]
    at: Mark
    key_at: Mark | None = None

    def plain(self) -> Any:
        """The value as plain data."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def clone(self) -> Node:
        """A copy that shares nothing mutable."""
        value = self.value
        if isinstance(value, dict):
            value = {key: node.clone() for key, node in value.items()}
        elif isinstance(value, list):
            value = [node.clone() for node in value]
        return Node(value, self.at, self.key_at)

    def marks(self) -> set[Mark]:
        """Every place in this node and below it."""
        inner = self.value if isinstance(self.value, list) else []
        inner = list(self.value.values()) if isinstance(self.value, dict) else inner
        return {self.at, *([self.key_at] if self.key_at else [])}.union(
            *(node.marks() for node in inner)
        )


def node_of(data: Any, at: Mark) -> Node:
    """A node of plain data, everything in one place."""
    if isinstance(data, dict):
        data = {str(key): node_of(value, at) for key, value in data.items()}
    elif isinstance(data, list | tuple):
        data = [node_of(value, at) for value in data]
    return Node(data, at, at)


# --- scalars --------------------------------------------------------------------------------

_WORDS: dict[str, Scalar] = dict.fromkeys(("", "~", "null", "Null", "NULL"))
_WORDS |= dict.fromkeys(("true", "True", "TRUE"), True)
_WORDS |= dict.fromkeys(("false", "False", "FALSE"), False)
_DECIMAL = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INF = re.compile(r"[-+]?\.(inf|Inf|INF)")
_NAN = re.compile(r"\.(nan|NaN|NAN)")


def scalar(text: str) -> Scalar:
    """The value of a plain scalar in the core schema of YAML 1.2."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > MAX_NUMBER:
        return text
    if _DECIMAL.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text):
        return int(text[2:], 8)
    if _HEX.fullmatch(text):
        return int(text[2:], 16)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _INF.fullmatch(text) or _NAN.fullmatch(text):
        return float(text.replace(".", "", 1))
    return text


# --- documents ------------------------------------------------------------------------------


def decode(data: bytes, source: str) -> str:
    """The text of a file; UTF-8, not larger than MAX_BYTES."""
    if len(data) > MAX_BYTES:
        _fail(Mark(source, 1, 1), f"larger than {MAX_BYTES:,} bytes: not a scenario")
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        _fail(_mark(before, source), f"not UTF-8 text (byte 0x{data[error.start]:02x})")


def read(text: str, source: str) -> tuple[Node, list[Problem]]:
    """The document of a file and what it says that is not allowed; a syntax error raises."""
    return _Reader(text, lambda line, column: Mark(source, line, column)).document()


def read_value(text: str, at: Mark) -> tuple[Node, list[Problem]]:
    """A value from the command line, everything at one mark; `> 5` is text, no block scalar."""
    if text.lstrip()[:1] in (">", "|"):
        text = '"' + text.strip().replace("\\", "\\\\").replace('"', '\\"') + '"'
    return _Reader(text, lambda line, column: at).document(empty_ok=True)


def _fail(at: Mark, message: str) -> NoReturn:
    raise ScenarioError([Problem(at, "", message)])


def _mark(before: str, source: str) -> Mark:
    return Mark(source, before.count("\n") + 1, len(before) - before.rfind("\n"))


class _Reader:
    """Builds nodes from PyYAML's events; its resolver, composer and constructors are not used."""

    def __init__(self, text: str, mark: Callable[[int, int], Mark]) -> None:
        bad = yaml.reader.Reader.NON_PRINTABLE.search(text)
        if bad:
            here = _mark(text[: bad.start()], "")
            _fail(mark(here.line, here.column), f"unprintable character {bad.group()!a}")
        self._mark = mark
        self._loader: Any = yaml.SafeLoader(text)
        self._problems: list[Problem] = []

    def document(self, empty_ok: bool = False) -> tuple[Node, list[Problem]]:
        self._event()
        if isinstance(self._event(peek=True), yaml.StreamEndEvent):
            node = Node(None, self._mark(1, 1))
        else:
            self._event()
            node = self._node((), 0)
            self._event()
        if node.value is None and not empty_ok and not self._problems:
            _fail(self._mark(1, 1), "the file is empty")
        after = self._event(peek=True)
        if not isinstance(after, yaml.StreamEndEvent):
            self._report(self._at(after), (), "several documents; a scenario is one")
        return node, self._problems

    def _event(self, peek: bool = False) -> Any:
        try:
            return self._loader.peek_event() if peek else self._loader.get_event()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            message = str(error.problem)
            if "'\\t'" in message:
                message = "a tab cannot indent; use spaces"
            elif error.context and error.context_mark:
                message += f" ({error.context} from line {error.context_mark.line + 1})"
        except (ValueError, OverflowError):  # chr() and int() in PyYAML's scanner, unguarded
            mark, message = self._loader.get_mark(), "number or escape out of range"
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        _fail(self._mark(line, column), f"not valid YAML: {message}")

    def _at(self, event: Any) -> Mark:
        return self._mark(event.start_mark.line + 1, event.start_mark.column + 1)

    def _report(self, at: Mark, path: tuple[str | int, ...], message: str) -> None:
        self._problems.append(Problem(at, dotted(path), message))

    def _node(self, path: tuple[str | int, ...], depth: int) -> Node:
        event = self._event()
        at = self._at(event)
        if depth > MAX_DEPTH:
            _fail(at, f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            self._report(at, path, f"aliases are not read; use extends (got '*{event.anchor}')")
            return Node(None, at)
        if event.anchor is not None:
            self._report(at, path, f"anchors are not read; use extends (got '&{event.anchor}')")
        if event.tag is not None:
            self._report(at, path, f"tags are not read {got(event.tag)}")
        if isinstance(event, yaml.MappingStartEvent):
            return Node(self._map(path, depth), at)
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Node] = []
            while not isinstance(self._event(peek=True), yaml.SequenceEndEvent):
                items.append(self._node((*path, len(items)), depth + 1))
            self._event()
            return Node(items, at)
        value = scalar(event.value) if event.style is None else event.value
        if isinstance(value, str) and re.search("[\x00\ud800-\udfff]", value):
            self._report(at, path, f"not text {got(value)}")
            return Node(None, at)
        return Node(value, at)

    def _map(self, path: tuple[str | int, ...], depth: int) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        while not isinstance(self._event(peek=True), yaml.MappingEndEvent):
            key = self._node(path, depth + 1)
            name = key.value
            if not isinstance(name, str) or not name.isprintable():
                kind = "printable text" if isinstance(name, str) else "text, if need be in quotes"
                self._report(key.at, path, f"a key must be {kind} {got(key.plain())}")
                self._node(path, depth + 1)
                continue
            node = self._node((*path, name), depth + 1)
            node.key_at = key.at
            if name in entries:
                first = entries[name].key_at
                line = f" (first on line {first.line})" if first and first.line else ""
                self._report(key.at, (*path, name), f"duplicate key{line}")
            else:
                entries[name] = node
        self._event()
        return entries
