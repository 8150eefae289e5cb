"""Price files of the user's own: read when a scenario is loaded, so that it holds their rows.

Three forms: a YAML catalogue (`catalogue.file`), SkyPilot's `vms.csv` (`catalogue.vms`), a series
of spot prices (`spot_series` of an instance). Everything wrong is told as file:line.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from scenarios.catalogue.prices import Vms
from scenarios.problems import Mark, Problem, ScenarioError, got
from scenarios.strict_yaml import Node, decode, node_of, read

MAX_CSV_BYTES = 64_000_000
COLUMNS = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "SpotPrice", "Region")
ZONAL = ("on_demand_usd_per_h", "spot_usd_per_h")
EPOCH_S = 1e8
"""Numbers below are seconds since some start, above seconds since 1970."""
LAST_S = 2.5e11
"""Beyond this, and for NaN, it is no time: the year 9892."""
Map = dict[str, Node]


def inline(root: Node, folder: Path) -> list[Problem]:
    """Put the rows of the price files that `catalogue` names into the document, under its own.

    Of a `vms.csv` only the instances are taken that the document mentions. A map that is not as it
    must be is left as it is: validation tells why.

    Args:
        folder: of the scenario, where relative names start.
    """
    found = root.value.get("catalogue") if isinstance(root.value, dict) else None
    if found is None or not isinstance(found.value, dict):
        return []
    try:
        _inline(found.value, folder, set(_texts(root)), "catalogue")
    except ScenarioError as error:
        return error.problems
    return []


def _inline(map_: Map, folder: Path, mentioned: set[str], key: str) -> None:
    _with_series(map_, folder, key)
    vms = map_.get("vms")
    if vms is not None and isinstance(vms.value, dict) and (told := _vms(vms)) is not None:
        file = named(vms.value["file"], folder, f"{key}.vms.file")
        _under(map_, "instances", _instances(file, told, mentioned, vms, f"{key}.vms.region"))
        del map_["vms"]
    name = map_.get("file")
    if name is not None and isinstance(name.value, str):
        del map_["file"]
        file = named(name, folder, f"{key}.file")
        node, problems = read(decode(file.read_bytes(), str(file)), str(file))
        if isinstance(node.value, dict) and "file" in node.value:
            place = node.value["file"]
            problems.append(Problem(place.key_at or place.at, "file", "cannot name another file"))
        if not isinstance(node.value, dict):
            problems.append(Problem(node.at, "", f"must be a map {got(node.plain())}"))
        if problems or not isinstance(node.value, dict):
            raise ScenarioError(problems)
        _inline(node.value, file.parent, mentioned, key)
        for block, rows in node.value.items():
            if isinstance(rows.value, dict):
                _under(map_, block, rows)
            else:
                map_.setdefault(block, rows)  # for validation to refuse


def _under(map_: Map, block: str, rows: Node) -> None:
    """Rows of a file, where the block has none of that name itself."""
    own = map_.get(block)
    if own is None or own.value is None:
        map_[block] = rows
    elif isinstance(own.value, dict) and isinstance(rows.value, dict):
        own.value = {**rows.value, **own.value}


def _texts(node: Node) -> Iterator[str]:
    """Every text in a document."""
    if isinstance(node.value, str):
        yield node.value
    elif isinstance(node.value, dict):
        for inner in node.value.values():
            yield from _texts(inner)
    elif isinstance(node.value, list):
        for inner in node.value:
            yield from _texts(inner)


def named(name: Node, folder: Path, key: str) -> Path:
    """The file that a key names, if it is there."""
    try:
        path = folder / str(name.value)
        if path.is_file():
            return path
    except (OSError, ValueError):
        pass
    raise ScenarioError([Problem(name.at, key, f"no such file {got(name.plain())}")])


def csv_rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of a CSV file, empty lines left out."""
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_CSV_BYTES + 1)
        if len(data) > MAX_CSV_BYTES:
            raise wrong(file, 1, f"larger than {MAX_CSV_BYTES:,} bytes")
        reader = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""))
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, [cell.strip() for cell in cells]
    except UnicodeDecodeError as error:
        raise wrong(file, data[: error.start].count(b"\n") + 1, "not UTF-8 text") from None
    except csv.Error as error:
        raise wrong(file, reader.line_num, f"not CSV ({error})") from None


def header(lines: Iterator[tuple[int, list[str]]], file: Path) -> tuple[int, list[str]]:
    """(line, names of columns) of the first line, each of them once; empty where there is none."""
    line, head = next(lines, (1, []))
    for name in filter(None, head):
        if head.count(name) > 1:
            raise wrong(file, line, f"two columns of one name {got(name)}")
    return line, head


def wrong(file: Path, line: int, message: str) -> ScenarioError:
    return ScenarioError([Problem(Mark(str(file), line, 1), "", message)])


def _price(text: str, file: Path, line: int) -> float:
    """A price, finite and not negative."""
    try:
        value = float(text)
    except ValueError:
        raise wrong(file, line, f"a price must be a number {got(text)}") from None
    if not 0 <= value < math.inf:
        raise wrong(file, line, f"a price must be finite and not negative {got(text)}")
    return value


# --- SkyPilot's vms.csv ---------------------------------------------------------------------------


def _vms(node: Node) -> Vms | None:
    try:
        return Vms.model_validate(node.plain())
    except ValidationError:
        return None


def _instances(file: Path, told: Vms, mentioned: set[str], at: Node, key: str) -> Node:
    """Rows of a `vms.csv` as rows of our own, with their lines."""
    lines = csv_rows(file)
    line, head = header(lines, file)
    missing = [name for name in COLUMNS if name not in head]
    if missing:
        raise wrong(file, line, f"no column {', '.join(missing)}: not a vms.csv of SkyPilot")
    found: Map = {}
    regions: set[str] = set()
    for line, cells in lines:
        if len(cells) != len(head):
            raise wrong(file, line, f"{len(cells)} cells under {len(head)} columns")
        row = dict(zip(head, cells, strict=True))
        regions.add(row["Region"])
        name = row["InstanceType"]
        if row["Region"] != told.region or name not in mentioned:
            continue
        new = _instance(row, told, file, line)
        if name in found:  # a row a zone
            before = found[name].plain()
            new |= {key: _lowest(new[key], before[key]) for key in ZONAL}
        found[name] = node_of(new, Mark(str(file), line, 1))
    if told.region not in regions:
        some = ", ".join(sorted(regions)[:8])
        where = at.value["region"].at if isinstance(at.value, dict) else at.at
        message = f"no row of {file.name} is of it {got(told.region)}; there are {some}"
        raise ScenarioError([Problem(where, key, message)])
    return Node(dict(found), at.at, at.key_at)


def _lowest(*prices: float | None) -> float | None:
    return min((price for price in prices if price is not None), default=None)


def _instance(row: dict[str, str], told: Vms, file: Path, line: int) -> dict[str, Any]:
    name, device, count = row["InstanceType"], row["AcceleratorName"], row["AcceleratorCount"]
    try:
        gpus = float(count or 0)
    except ValueError:
        raise wrong(file, line, f"AcceleratorCount must be a number {got(count)}") from None
    if not device or not gpus >= 1 or gpus != int(min(gpus, 1e6)):
        raise wrong(file, line, f"{name} has no whole accelerator {got(f'{count} {device}')}")
    return {
        "cloud": told.cloud,
        "region": told.region,
        "gpus": int(gpus),
        "device": device,
        "on_demand_usd_per_h": _price(row["Price"], file, line) if row["Price"] else None,
        "spot_usd_per_h": _price(row["SpotPrice"], file, line) if row["SpotPrice"] else None,
        "notice_s": told.notice_s,
        "date": told.date,
        "source": f"SkyPilot catalogue, {file.name} line {line}",
    }


# --- a series of prices ---------------------------------------------------------------------------


def _with_series(map_: Map, folder: Path, key: str) -> None:
    """Instances that name a series get its mean, its range and, where they tell none, its date."""
    block = map_.get("instances")
    for name, row in block.value.items() if block and isinstance(block.value, dict) else ():
        series = row.value.get("spot_series") if isinstance(row.value, dict) else None
        if not isinstance(row.value, dict) or series is None or "spot_usd_per_h" in row.value:
            continue
        if not isinstance(series.value, str):
            continue
        mean, seen, last = _mean_price(named(series, folder, f"{key}.instances.{name}.spot_series"))
        del row.value["spot_series"]
        row.value["spot_usd_per_h"] = node_of(mean, series.at)
        row.value["spot_seen_usd_per_h"] = node_of(list(seen), series.at)
        if "date" not in row.value and last >= EPOCH_S:
            day = datetime.fromtimestamp(last, UTC).date().isoformat()
            row.value["date"] = node_of(day, series.at)


def _mean_price(file: Path) -> tuple[float, tuple[float, float], float]:
    """(mean over time, (lowest, highest), last instant): a price holds until the next one.

    The last price has no time of its own, and counts where it is the only one. Lines may come in
    any order: the cloud's own histories start with the newest.
    """
    found: list[tuple[float, float]] = []
    for line, cells in csv_rows(file):
        if len(cells) != 2:
            raise wrong(file, line, f"must be time,price (got {len(cells)} cells)")
        t_s = _time(cells[0])
        if t_s is None and not found and line == 1:
            continue  # a head
        if t_s is None:
            message = f"a time must be seconds or like 2026-07-20T12:00:00Z {got(cells[0])}"
            raise wrong(file, line, message)
        found.append((t_s, _price(cells[1], file, line)))
    if not found:
        raise wrong(file, 1, "no prices in it")
    found.sort(key=lambda pair: pair[0])
    prices = [price for _, price in found]
    last_s = found[-1][0]
    whole_s = last_s - found[0][0]
    held = math.fsum(price * (next_s - t_s) for (t_s, price), (next_s, _) in pairwise(found))
    mean = held / whole_s if whole_s else prices[-1]
    return mean, (min(prices), max(prices)), last_s


def _time(text: str) -> float | None:
    """Seconds of an instant; a time without a zone is UTC."""
    try:
        value = float(text)
        return value if abs(value) < LAST_S else None
    except ValueError:
        pass
    try:
        told = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp()
