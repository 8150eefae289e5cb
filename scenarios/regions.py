"""Tables of links between regions: a CSV is read when a scenario is loaded, so that it holds them.

A line a pair: two names and a delay, a bandwidth or both, told by the names of the columns. Those
of published tables are known beside our own. What else there is in a line is left alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from scenarios.catalogue.files import csv_rows, header, named, wrong
from scenarios.problems import Mark, Problem, ScenarioError, got
from scenarios.strict_yaml import Node, node_of
from sim.strict import Name

FROM = ("from", "a", "source", "src", "local_hostname")
TO = ("to", "b", "target", "dst", "target_hostname")
NUMBERS = {
    "rtt_ms": ("rtt_ms", 1.0),
    "rtt_ms_median": ("rtt_ms", 1.0),
    "latency_ms": ("rtt_ms", 2.0),
    "delay_ms": ("rtt_ms", 2.0),
    "one_way_delay_ms": ("rtt_ms", 2.0),
    "mbps": ("mbps", 1.0),
    "bandwidth_mbps": ("mbps", 1.0),
    "bandwidth_mbit_s": ("mbps", 1.0),
    "mbit_s_median": ("mbps", 1.0),
    "bandwidth_gbit_s": ("mbps", 1e3),
    "usd_per_gb": ("usd_per_gb", 1.0),
}
"""Column, in lower case -> key of a link, and the factor. A delay is one way, half a round trip."""
NAME = re.compile(TypeAdapter(Name).json_schema()["pattern"])
Links = dict[str, dict[str, tuple[int, dict[str, float]]]]
"""From -> to -> (line, what is told of it)."""


def inline(root: Node, folder: Path) -> list[Problem]:
    """Put the links of the file that `network.regions` names into the document, under its own.

    Args:
        folder: of the scenario, where relative names start.
    """
    here: Any = root
    for block in ("network", "regions"):
        here = here.value.get(block) if here is not None and isinstance(here.value, dict) else None
    if here is None or not isinstance(here.value, dict):
        return []
    name, where = here.value.get("file"), here.value.get("where")
    if name is None or not isinstance(name.value, str):
        return []
    key = "network.regions.file"
    try:
        file = named(name, folder, key)
    except ScenarioError as error:
        return error.problems
    try:
        told = where.plain() if where is not None else {}
        read = links_of(file, told if isinstance(told, dict) else {})
    except ScenarioError as error:
        return [Problem(name.at, key, f"{file.name} is no table of links"), *error.problems]
    _under(here.value, read, file)
    for read_key in ("file", "where"):
        here.value.pop(read_key, None)
    return []


def links_of(file: Path, where: dict[str, Any]) -> Links:
    """The links in a CSV.

    Args:
        where: column -> text; other lines are left out.

    Raises:
        ScenarioError: with the line that is wrong.
    """
    lines = csv_rows(file)
    line, head = header(lines, file)
    a, b = _column(head, FROM, file, line), _column(head, TO, file, line)
    numbers = {i: NUMBERS[name.lower()] for i, name in enumerate(head) if name.lower() in NUMBERS}
    if not {"rtt_ms", "mbps"} & {key for key, _ in numbers.values()}:
        rates = ", ".join(name for name, (key, _) in NUMBERS.items() if key != "usd_per_gb")
        raise wrong(file, line, f"no column of a delay or a bandwidth: {rates}")
    missing = [column for column in where if column not in head]
    if missing:
        raise wrong(file, line, f"no column {', '.join(missing)}, which `where` asks for")
    found: Links = {}
    for line, cells in lines:
        if len(cells) != len(head):
            raise wrong(file, line, f"{len(cells)} cells under {len(head)} columns")
        if any(cells[head.index(column)] != str(text) for column, text in where.items()):
            continue
        link = _link(cells, numbers, file, line)
        ends = [_region(cells[i], file, line) for i in (a, b)]
        known = found.setdefault(ends[0], {}).get(ends[1])
        if known is not None and known[1] != link:
            message = f"{ends[0]} -> {ends[1]} is told otherwise in line {known[0]}"
            raise wrong(file, line, f"{message}; `where` keeps some lines of a table")
        found[ends[0]].setdefault(ends[1], (line, link))
    if not found:
        raise wrong(file, line, "no links in it" + (" that `where` keeps" if where else ""))
    return found


def _column(head: Sequence[str], names: Sequence[str], file: Path, line: int) -> int:
    for i, column in enumerate(head):
        if column.lower() in names:
            return i
    raise wrong(file, line, f"no column {' or '.join(names)}: not a table of links")


def _region(text: str, file: Path, line: int) -> str:
    if not NAME.match(text):
        raise wrong(file, line, f"not the name of a region {got(text)}")
    return text


def _link(
    cells: Sequence[str], numbers: dict[int, tuple[str, float]], file: Path, line: int
) -> dict[str, float]:
    """What a line tells of its link; an empty cell tells nothing."""
    link: dict[str, float] = {}
    for i, (key, factor) in numbers.items():
        if not cells[i] or key in link:
            continue
        try:
            value = factor * float(cells[i])
        except ValueError:
            raise wrong(file, line, f"{key} must be a number {got(cells[i])}") from None
        if not 0 <= value < math.inf or (key == "mbps" and value == 0):
            rule = "above 0" if key == "mbps" else "at least 0"
            raise wrong(file, line, f"{key} must be finite and {rule} {got(cells[i])}")
        link[key] = value
    if "mbps" not in link and not link.get("rtt_ms"):
        raise wrong(file, line, "needs a bandwidth, or a delay above 0 to derive it from")
    return link


def _under(regions: dict[str, Node], read: Links, file: Path) -> None:
    """The file's links, where the document has none of those ends itself."""
    links = regions.get("links") or node_of({}, regions["file"].at)
    if not isinstance(links.value, dict):
        return  # for validation to refuse
    regions["links"] = links
    for a, to in read.items():
        rows = {b: node_of(link, Mark(str(file), line, 1)) for b, (line, link) in to.items()}
        own = links.value.get(a)
        if own is None:
            links.value[a] = Node(dict(rows), links.at)
        elif isinstance(own.value, dict):
            own.value = {**rows, **own.value}
