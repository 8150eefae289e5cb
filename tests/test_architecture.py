"""Who may import whom, what stays light, how long a file may get. Read from the source itself."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("sim", "trainer", "scenarios", "analysis")
SOURCES = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
EVERY = sorted({*SOURCES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")})
MAX_LINES = 330

NEVER = {
    "sim": {"torch", "trainer", "scenarios", "analysis"},
    "trainer": {"simpy", "sim", "scenarios", "analysis"},
    "analysis": {"sim", "trainer", "scenarios"},
}
HEAVY = {"torch", "pandas", "matplotlib", "scipy", "pyarrow"}
"""Tenths of a second and more each: kept out of `--help`, `check` and `--dry-run`."""


class Import(NamedTuple):
    module: str
    line: int
    lazy: bool
    """Inside a function."""
    typing: bool
    """Under `if TYPE_CHECKING`: never runs."""


def imports_of(source: str) -> list[Import]:
    """Every import in a source, `from a import b` as a.b."""
    return list(_walk(ast.parse(source), lazy=False, typing=False))


def _walk(node: ast.AST, lazy: bool, typing: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, child.lineno, lazy, typing)
        elif isinstance(child, ast.ImportFrom):
            for alias in child.names:
                name = "." * child.level + f"{child.module or ''}.{alias.name}"
                yield Import(name, child.lineno, lazy, typing)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from _walk(child, lazy, True)
        else:
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _walk(child, lazy or function, typing)


def top(module: str) -> str:
    return module.split(".")[0]


def files_of(module: str) -> list[Path]:
    """Files of ours that importing a dotted name runs: packages on the way, and the module."""
    if top(module) not in PACKAGES:
        return []
    parts = module.split(".")
    paths = [ROOT.joinpath(*parts[:count]) for count in range(1, len(parts) + 1)]
    files = [path / "__init__.py" for path in paths] + [path.with_suffix(".py") for path in paths]
    return [file for file in files if file.is_file()]


@cache
def reached(file: Path, late: bool) -> tuple[frozenset[Path], frozenset[str]]:
    """Our files, and other top-level names, that importing a file brings in, late ones or not."""
    found: set[str] = set()
    todo, seen = [file], set[Path]()
    while todo:
        for each in imports_of(todo.pop().read_text(encoding="utf-8")):
            if each.typing or (each.lazy and not late):
                continue
            ours = files_of(each.module)
            found |= set() if ours else {top(each.module)}
            todo += [other for other in ours if other not in seen]
            seen |= set(ours)
    return frozenset(seen), frozenset(found)


def short(file: Path) -> str:
    return str(file.relative_to(ROOT))


def test_the_walker_sees_what_it_must() -> None:
    source = (
        "import a.b, c\nfrom d import e, f\nfrom . import g\n"
        "if TYPE_CHECKING:\n    import t\n"
        "try:\n    import h\nexcept ImportError:\n    pass\n"
        "class C:\n    import i\n    def m(self):\n        from j.k import l\n"
    )
    seen = [(each.module, each.lazy, each.typing) for each in imports_of(source)]
    assert seen == [
        ("a.b", False, False),
        ("c", False, False),
        ("d.e", False, False),
        ("d.f", False, False),
        ("..g", False, False),
        ("t", False, True),
        ("h", False, False),
        ("i", False, False),
        ("j.k.l", True, False),
    ]
    assert {short(file) for file in files_of("scenarios.load.dump")} == {
        "scenarios/__init__.py",
        "scenarios/load.py",
    }
    ours, others = reached(ROOT / "scenarios" / "load.py", late=False)
    assert {"pydantic", "yaml", "dataclasses"} <= others
    assert {"scenarios/strict_yaml.py", "sim/config.py"} <= {short(file) for file in ours}
    assert {short(file) for file in SOURCES} > {f"{name}/__init__.py" for name in PACKAGES}


@pytest.mark.parametrize("package", NEVER)
def test_the_walls_stand(package: str) -> None:
    crossings = [
        f"{short(file)}:{each.line}: {each.module}"
        for file in SOURCES
        if short(file).startswith(f"{package}/")
        for each in imports_of(file.read_text(encoding="utf-8"))
        if top(each.module) in NEVER[package] or each.module.startswith(".")
    ]
    assert crossings == []


def test_only_scenarios_import_late_and_never_to_dodge_a_cycle() -> None:
    """A late import keeps a command light, and could as well stand at the top."""
    wrong = []
    for file in SOURCES:
        for each in imports_of(file.read_text(encoding="utf-8")):
            cycle = any(file in reached(other, late=True)[0] for other in files_of(each.module))
            if each.lazy and (cycle or not short(file).startswith("scenarios/")):
                wrong.append(f"{short(file)}:{each.line}: {each.module}")
    assert wrong == []


@pytest.mark.parametrize("module", ["cli", "load", "schema"])
def test_what_light_commands_import_is_light(module: str) -> None:
    assert reached(ROOT / "scenarios" / f"{module}.py", late=False)[1] & HEAVY == set()


@pytest.mark.parametrize(
    "code",
    [
        "import scenarios.schema",
        "import scenarios.load as l; l.json_schema(); l.dump(l.Scenario(name='a')); l.bundled()",
    ],
)
def test_light_commands_stay_light_when_they_run(code: str) -> None:
    code += f"; import sys; print(sorted({HEAVY} & set(sys.modules)))"
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_file_fits_in_the_head() -> None:
    lines = {short(file): len(file.read_text(encoding="utf-8").splitlines()) for file in EVERY}
    assert {file: count for file, count in lines.items() if count > MAX_LINES} == {}
