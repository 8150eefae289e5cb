"""From a scenario file to a Scenario: strict YAML, extends, overrides; every problem at once.

`extends: other.yaml` merges maps and replaces everything else. Files come from strangers: they may
only extend files in or below their own folder, or a bundled scenario by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from scenarios import regions
from scenarios.catalogue.files import inline
from scenarios.cells import Cell, lay_out, validate
from scenarios.explain import mark_of
from scenarios.layers import Layer, merge
from scenarios.problems import Mark, Problem, ScenarioError, dotted, got
from scenarios.schema import Scenario
from scenarios.shapes import fill_tags
from scenarios.strict_yaml import MAX_BYTES, Node, decode, read, read_value, scalar
from scenarios.traces import replay_of
from sim.config import TraceOutages
from sim.traces.trace import TraceError

__all__ = ["Loaded", "Mark", "Problem", "ScenarioError", "bundled", "dump", "json_schema", "load"]

BUNDLED = Path(__file__).parent
NOT_ON_THE_COMMAND_LINE = ("extends",)


@dataclass(frozen=True)
class Loaded:
    """A scenario file that is right, its overrides applied."""

    scenario: Scenario
    study: tuple[Cell, ...]
    """What to run, seeds left aside: no-failure runs first, then the cells, then controls."""
    document: dict[str, Any]
    """What the scenario was made of: files and overrides merged, defaults left out."""
    path: Path
    root: Path
    """Folder that relative paths in the scenario start from."""

    @property
    def cells(self) -> dict[str, Scenario]:
        """By label the cells in which things may break; without a sweep the scenario itself."""
        return {cell.label: cell.scenario for cell in self.study if cell.control is None}


def bundled() -> dict[str, Path]:
    """Scenarios that come with the package, by name."""
    return {path.stem: path for path in sorted(BUNDLED.glob("*.yaml"))}


def load(path: str | Path, overrides: Sequence[str] = ()) -> Loaded:
    """Read a file (or a bundled scenario by name) and lay `key.path=value` overrides over it.

    An override sets a key, whatever stood there; an arm of a sweep does the same over the result.
    Raises ScenarioError with every problem.
    """
    file = _named(path)
    root, problems = _read_chain(file)
    layer = Layer(root, Scenario, NOT_ON_THE_COMMAND_LINE)
    for text in overrides:
        problems += _override(layer, text)
    problems += inline(root, file.parent) + regions.inline(root, file.parent)
    fill_tags(root, Scenario)
    scenario, found = validate(root)
    cells, of_cells = lay_out(root, {(p.key, p.message) for p in found})
    read_wrong = {(problem.at, problem.key) for problem in problems}
    problems += [p for p in found + of_cells if (p.at, p.key) not in read_wrong]
    if problems or scenario is None:
        raise ScenarioError(problems)
    if unreadable := _traces(root, cells, file.parent):
        raise ScenarioError(unreadable)
    return Loaded(scenario, tuple(cells), root.plain(), file, file.parent)


def dump(scenario: Scenario) -> str:
    """The scenario with every default filled in, as a file that loads back to an equal one."""
    return yaml.dump(
        scenario.model_dump(),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=None,
        width=96,
    )


def json_schema() -> dict[str, Any]:
    """JSON Schema of a scenario file, for editors.

    After `stageout check --schema > stageout.schema.json`, a first line of
    `# yaml-language-server: $schema=stageout.schema.json` gives completion and checks while typing.
    """
    schema = Scenario.model_json_schema()
    required = schema.pop("required", [])
    schema["properties"]["extends"] = {
        "type": "string",
        "description": "A file beside this one, or a bundled scenario; this one's keys win.",
    }
    schema["anyOf"] = [{"required": required}, {"required": ["extends"]}]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


# --- files ----------------------------------------------------------------------------------


def _named(path: str | Path) -> Path:
    file = Path(path)
    known = bundled()
    name = str(path).removesuffix(".yaml")
    return known[name] if name in known and not file.is_file() else file


def _read_chain(file: Path) -> tuple[Node, list[Problem]]:
    """The file over the files it extends."""
    chain: list[Node] = []
    problems: list[Problem] = []
    seen: set[Path] = set()
    folder = file.parent
    while True:
        node, found = read(decode(_bytes(file), str(file)), str(file))
        seen.add(file.resolve())
        problems += found
        if not isinstance(node.value, dict):
            problems.append(Problem(node.at, "", f"must be a map of keys {got(node.plain())}"))
            raise ScenarioError(problems)
        chain.append(node)
        extends = node.value.pop("extends", None)
        if extends is None:
            break
        if isinstance(extends.value, str):
            target, folder, wrong = _base(extends.value, file, folder)
        else:
            target, wrong = None, f"must be a file or a bundled scenario {got(extends.plain())}"
        if target is not None and target.resolve() in seen:
            wrong = f"extends itself {got(extends.value)}"
        if target is None or wrong:
            if all(problem.at != extends.at for problem in problems):  # else reading has told it
                problems.append(Problem(extends.at, "extends", wrong))
            raise ScenarioError(problems)
        file = target
    root = chain.pop()
    while chain:
        root = merge(root, chain.pop(), Scenario)
    return root, problems


def _base(name: str, file: Path, folder: Path) -> tuple[Path | None, Path, str]:
    """File that `extends: name` means in `file`, its folder, and what is wrong with it."""
    target = file.parent / name
    try:
        inside = target.resolve().is_relative_to(folder.resolve())
        exists = target.is_file()
    except (OSError, ValueError, RuntimeError):
        return None, folder, f"not a file name {got(name)}"
    if Path(name).is_absolute() or ".." in Path(name).parts or not inside:
        return None, folder, f"must stay in the scenario's own folder {got(name)}"
    known = bundled()
    if not exists and name.removesuffix(".yaml") in known:
        return known[name.removesuffix(".yaml")], BUNDLED, ""
    if not exists:
        return None, folder, f"no such file {got(name)}{_bundled_hint(name)}"
    return target, folder, ""


def _bytes(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        message = f"no such file{_bundled_hint(str(file))}"
    except ValueError:
        message = "not a file name"
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
    raise ScenarioError([Problem(Mark(str(file), 1, 1), "", message)])


def _bundled_hint(name: str) -> str:
    names = list(bundled())
    near = get_close_matches(name.removesuffix(".yaml"), names, 1)
    if near:
        return f"; did you mean '{near[0]}'?"
    return f"; bundled: {', '.join(names)}" if names else ""


# --- overrides ------------------------------------------------------------------------------


def _override(layer: Layer, text: str) -> list[Problem]:
    short = text if len(text) <= 80 else text[:77] + "..."
    at = Mark(f"override {ascii(short) if not short.isprintable() else repr(short)}")
    key, equals, value = text.partition("=")
    if not equals:
        return [Problem(at, "", "must be key.path=value")]
    if not key.isprintable():
        return [Problem(at, "", "not a key path such as cluster.stages")]
    try:
        node, problems = read_value(value, at)
    except ScenarioError as error:
        return [Problem(p.at, key, p.message) for p in error.problems]
    node.key_at = at
    return [Problem(p.at, key, p.message) for p in problems] or layer.assign(key, node)


def _traces(root: Node, cells: Sequence[Cell], folder: Path) -> list[Problem]:
    """What is wrong with the trace files that the cells replay."""
    problems: dict[TraceOutages, Problem | None] = {}
    for cell in cells:
        outages = cell.scenario.outages
        if not isinstance(outages, TraceOutages) or outages in problems:
            continue
        problems[outages] = None
        try:
            replay_of(outages, folder)
        except TraceError as error:
            arm = ("sweep", "arms", cell.arm) if cell.arm is not None else ("outages", "path")
            text = f"{error} (in the cell '{cell.label}')" if cell.arm is not None else str(error)
            problems[outages] = Problem(mark_of(root, arm), dotted(arm), text)
    return [problem for problem in problems.values() if problem is not None]


# --- writing --------------------------------------------------------------------------------


class _Dumper(yaml.SafeDumper):
    """Writes what `read` reads back: text that looks like a YAML 1.2 number is quoted."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    simple = isinstance(scalar(text), str) and text.isascii() and text.isprintable()
    style = None if simple else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
