"""What the strict reader takes, refuses, and where it says so."""

from __future__ import annotations

import math
from typing import Any

import pytest

from scenarios.problems import Mark, ScenarioError
from scenarios.strict_yaml import MAX_BYTES, MAX_DEPTH, Node, decode, read, read_value


def refused(text: str) -> list[str]:
    try:
        return [str(problem) for problem in read(text, "f")[1]]
    except ScenarioError as error:
        return str(error).splitlines()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("1e-3", 1e-3),
        ("-1.5E+3", -1500.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("017", 17),
        ("0o17", 15),
        ("0x1F", 31),
        ("-7", -7),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("off", "off"),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("0b1", "0b1"),
        ("2026-09-16", "2026-09-16"),
        ("=", "="),
        ("<<", "<<"),
        ("TRUE", True),
        ("false", False),
        ("~", None),
        ("Null", None),
        ("", None),
        ("'1'", "1"),
        ('"null"', "null"),
        ("9" * 101, "9" * 101),
        ("[1, {a: off}]", [1, {"a": "off"}]),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text: str, value: Any) -> None:
    node, problems = read(f"k: {text}\n", "f")
    assert problems == []
    assert node.plain() == {"k": value}
    assert type(node.plain()["k"]) is type(value)


@pytest.mark.parametrize("text", [".nan", ".NaN", ".NAN"])
def test_nan_is_a_float(text: str) -> None:
    assert math.isnan(read(f"k: {text}", "f")[0].plain()["k"])


def below(node: Node, *path: str | int) -> Node:
    for part in path:
        if isinstance(part, int):
            assert isinstance(node.value, list)
            node = node.value[part]
        else:
            assert isinstance(node.value, dict)
            node = node.value[part]
    return node


def test_every_key_and_value_has_its_place() -> None:
    node, _ = read("a:\n  b: [1,\n    2]\nc: {d: x}\n", "f")
    b, d = below(node, "a", "b"), below(node, "c", "d")
    assert (b.key_at, b.at) == (Mark("f", 2, 3), Mark("f", 2, 6))
    assert below(b, 1).at == Mark("f", 3, 5)
    assert (d.key_at, d.at) == (Mark("f", 4, 5), Mark("f", 4, 8))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", ["f:1:1: the file is empty"]),
        ("# only a comment\n", ["f:1:1: the file is empty"]),
        ("---\n", ["f:1:1: the file is empty"]),
        ("a: 1\nb: 2\na: 3\n", ["f:3:1: a: duplicate key (first on line 1)"]),
        ("a: {b: 1, b: 1}", ["f:1:11: a.b: duplicate key (first on line 1)"]),
        ("1: x", ["f:1:1: a key must be text, if need be in quotes (got 1)"]),
        ("a: {null: x}", ["f:1:5: a: a key must be text, if need be in quotes (got null)"]),
        ("? [a, b]\n: x", ["f:1:3: a key must be text, if need be in quotes (got ['a', 'b'])"]),
        ('"a\\nb": 1', ["f:1:1: a key must be printable text (got 'a\\nb')"]),
        ("a: !foo 1", ["f:1:4: a: tags are not read (got '!foo')"]),
        ("a: !!str 1", ["f:1:4: a: tags are not read (got 'tag:yaml.org,2002:str')"]),
        (
            "a: !!python/object/apply:os.system [x]",
            ["f:1:4: a: tags are not read (got 'tag:yaml.org,2002:python/object/apply:os.system')"],
        ),
        (
            "a: &x {b: 1}\nc: *x\n",
            [
                "f:1:4: a: anchors are not read; use extends (got '&x')",
                "f:2:4: c: aliases are not read; use extends (got '*x')",
            ],
        ),
        ("a: 1\n---\nb: 2\n", ["f:2:1: several documents; a scenario is one"]),
        ("a: 1\n\tb: 2\n", ["f:2:1: not valid YAML: a tab cannot indent; use spaces"]),
        (
            "a: [1, 2\nb: 3\n",
            [
                "f:2:2: not valid YAML: expected ',' or ']', but got ':'"
                " (while parsing a flow sequence from line 1)"
            ],
        ),
        ("a: \x07\n", ["f:1:4: unprintable character '\\x07'"]),
        ('a: "\\0"', ["f:1:4: a: not text (got '\\x00')"]),
        ('a: "\\ud800"', ["f:1:4: a: not text (got '\\ud800')"]),
        ('a: "\\U00110000"', ["f:1:7: not valid YAML: number or escape out of range"]),
        ("%YAML 1." + "9" * 5000, ["f:1:9: not valid YAML: number or escape out of range"]),
        ("a: 1\nb: &x 2\na: !y 3\n2: 4\n", [
            "f:2:4: b: anchors are not read; use extends (got '&x')",
            "f:3:4: a: tags are not read (got '!y')",
            "f:3:1: a: duplicate key (first on line 1)",
            "f:4:1: a key must be text, if need be in quotes (got 2)",
        ]),
    ],
)  # fmt: skip
def test_what_is_not_allowed_is_named_with_its_place(text: str, lines: list[str]) -> None:
    assert refused(text) == lines


@pytest.mark.parametrize("shape", ["[", "{a: ", "- ", "? "])
def test_nesting_is_bounded_long_before_python_is(shape: str) -> None:
    (line,) = refused(shape * 20_000)
    assert line.endswith(f"nested deeper than {MAX_DEPTH} levels")
    assert line.startswith("f:1:")


def test_nesting_up_to_the_bound_is_read() -> None:
    node, _ = read("a: " + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1), "f")
    assert str(node.plain()).count("[") == MAX_DEPTH - 1


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"a: 1\nb: \xc3\xa9\xff\n", "f:2:5: not UTF-8 text (byte 0xff)"),
        ("a: 1".encode("utf-16"), "f:1:1: not UTF-8 text (byte 0xff)"),
        (b" " * (MAX_BYTES + 1), "f:1:1: larger than 1,000,000 bytes: not a scenario"),
    ],
)
def test_bytes_that_are_no_scenario(data: bytes, line: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        decode(data, "f")
    assert str(caught.value) == line


def test_a_byte_order_mark_moves_nothing() -> None:
    node, _ = read(decode(b"\xef\xbb\xbfa: 1", "f"), "f")
    assert node.plain() == {"a": 1}
    assert below(node, "a").key_at == Mark("f", 1, 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("{kind: none}", {"kind": "none"}),
        ("[skip, idle]", ["skip", "idle"]),
        ("> 0.9", "> 0.9"),
        (">= 1", ">= 1"),
        ("< 0.9", "< 0.9"),
        ('| a "b" \\c', '| a "b" \\c'),
        ("null", None),
        ("", None),
        ("a=b", "a=b"),
    ],
)
def test_values_of_the_command_line(text: str, value: Any) -> None:
    node, problems = read_value(text, Mark("o"))
    assert problems == []
    assert node.plain() == value
    assert node.marks() == {Mark("o")}
