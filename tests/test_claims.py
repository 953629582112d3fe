"""Sentences of ARCHITECTURE and of docstrings that say "only", "never" or "the one place" are kept true here."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from holdfast.core.job import EDGES, State

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCE = REPOSITORY / "src" / "holdfast"
WRITES = re.compile(r"\b(?:INSERT INTO|UPDATE|DELETE FROM)\s+(holdfast_\w+)")
TREE = (REPOSITORY / "ARCHITECTURE.md").read_text().partition("## The tree")[2].partition("## A job's states")[0]


def modules(folder: Path) -> Iterator[Path]:
    return iter(sorted(folder.rglob("*.py")))


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


def calls(path: Path) -> Iterator[str]:
    """The names that a module calls, as they are written: `jobs.turn`, `perform`."""
    for node in nodes(path):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def imports(path: Path) -> Iterator[str]:
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


FAMILIES = sorted(path.name for path in (SOURCE / "kernel").iterdir() if (path / "__init__.py").exists())


def modules_of(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.py")} - {"__init__"}


@pytest.mark.parametrize("folder, after", [("core", "tables/"), ("kernel", "and families")])
def test_architecture_draws_the_modules_that_there_are(folder: str, after: str) -> None:
    drawn = set(re.findall(r"[a-z_]+", TREE.partition(f"{folder}/ ")[2].partition(after)[0].partition(":")[2]))
    there = modules_of(SOURCE / folder)
    assert (sorted(there - drawn), sorted(drawn - there)) == ([], []), "not drawn, and not there"


@pytest.mark.parametrize("family", FAMILIES)
def test_architecture_draws_each_family_of_the_kernel(family: str) -> None:
    drawn = set(re.findall(r"[a-z_]+", TREE.partition(f"    {family}/ ")[2].partition(":")[0]))
    there = modules_of(SOURCE / "kernel" / family)
    assert (sorted(there - drawn), sorted(drawn - there)) == ([], []), "not drawn, and not there"


def test_architecture_draws_every_folder() -> None:
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and not path.name.startswith("__")}
    assert sorted(name for name in folders if f"{name}/" not in TREE) == []


def test_architecture_lists_every_edge_that_a_job_may_take() -> None:
    """Beside the drawing: no more, and no fewer, than `core/job.py` has."""
    table = (REPOSITORY / "ARCHITECTURE.md").read_text().partition("| from | to |")[2].partition("## Walk 1")[0]
    rows = [re.findall(r"\b(?:" + "|".join(State) + r")\b", line) for line in table.splitlines() if "|" in line]
    listed = [(row[0], to) for row in rows if row for to in row[1:]]
    assert sorted(listed) == sorted(EDGES)


def test_kernel_tables_are_written_by_the_statements_in_tables_alone() -> None:
    """ "nobody else writes state". The bookkeeping of migrations lives with the stores."""
    writers = {
        (path.parent.name, table)
        for path in [*modules(SOURCE), *SOURCE.rglob("*.sql")]
        for table in WRITES.findall(path.read_text())
        if path.parent.name not in ("tables", "migrations")
    }
    assert writers <= {("stores", "holdfast_schema")}


@pytest.mark.parametrize("name", ["ops", "depth"])
def test_what_says_that_it_only_reads_only_reads(name: str) -> None:
    assert WRITES.findall((SOURCE / "tables" / f"{name}.sql").read_text()) == []


def test_attempts_are_leased_and_ended_in_one_module() -> None:
    """`kernel/turn.py`: the one place where jobs enter and leave `processing`."""
    doors = {"jobs.turn", "jobs.claim_one"}
    assert {path.name for path in modules(SOURCE) if doors & set(calls(path))} == {"turn.py"}


def test_drivers_are_named_in_one_file() -> None:
    """`main.py` names concrete stores and transports; the test kit brings its own."""
    driver = re.compile(r"holdfast\.(stores\.(sqlite|postgres)\.\w+Store|transports(\.\w+)+Transport)$")
    naming = {path.name for path in modules(SOURCE) if any(driver.match(name) for name in imports(path))}
    assert naming == {"main.py", "worlds.py"}


@pytest.mark.parametrize("name", ["reconcile", "verify", "look_into"])
def test_what_never_sends_cannot_send(name: str) -> None:
    path = SOURCE / "kernel" / "ledger" / f"{name}.py"
    senders = {"holdfast.kernel.effects.perform", "holdfast.kernel.effects._send", "holdfast.kernel.call.make"}
    assert senders & set(imports(path)) == set()
    assert not any(re.search(r"\bsend(_|$)|\.send$", name) for name in calls(path))


def test_the_kernel_reads_no_clock_and_no_dice_but_those_it_is_given() -> None:
    """`stores/clock.py`: the only place where the kernel's wall time and luck come from."""
    banned = re.compile(
        r"^(time\.time(_ns)?|(\w+\.)?(datetime|date)\.(now|utcnow|today)|random\.\w+|os\.urandom|(uuid\.)?uuid[14]"
        r"|secrets\.(token_\w+|choice|rand\w+))$"
    )
    readers = {
        f"{path.parent.name}/{path.name}"
        for folder in ("core", "kernel", "tables", "stores", "operator", "engines")
        for path in modules(SOURCE / folder)
        for name in calls(path)
        if banned.match(name)
    }
    assert readers == {"stores/clock.py", "kernel/kernel.py"}, "the kernel's own `uuid4` is the clock's"


def test_only_work_and_a_person_who_says_so_migrate() -> None:
    """`kernel/upkeep/schema.py`, `cli/migrate.py`: to look at a database never changes its schema."""
    callers: dict[str, set[str]] = {"migrate": set(), "bring_forward": set()}
    for path in modules(SOURCE):
        for name in calls(path):
            if name.rpartition(".")[2] in callers:
                callers[name.rpartition(".")[2]].add(path.relative_to(SOURCE).as_posix())
    assert callers == {
        "migrate": {"kernel/kernel.py", "kernel/upkeep/schema.py", "cli/migrate.py", "testing/worlds.py"},
        "bring_forward": {"engines/run.py"},
    }


def test_the_core_imports_the_standard_library_and_itself() -> None:
    """For its types it may name others."""
    for path in [*modules(SOURCE / "core"), SOURCE / "errors.py"]:
        typing_only = {
            id(part)
            for node in nodes(path)
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for part in ast.walk(node)
        }
        named = {
            name
            for node in nodes(path)
            if id(node) not in typing_only and isinstance(node, ast.Import | ast.ImportFrom)
            for name in (
                [node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
            )
        }
        others = {name for name in named if name.partition(".")[0] not in sys.stdlib_module_names}
        assert {name for name in others if not re.match(r"holdfast\.(core|errors)\b", name)} == set(), path.name


@pytest.mark.parametrize("package", ["holdfast", "holdfast_proof", "holdfast_systems"])
def test_a_broad_except_hides_nothing(package: str) -> None:
    """It raises again, or hands on what it caught, or says beside it why not."""
    silent = []
    for path in modules(SOURCE.parent / package):
        lines = path.read_text().splitlines()
        for node in nodes(path):
            if isinstance(node, ast.ExceptHandler) and _is_broad(node):
                body = [part for statement in node.body for part in ast.walk(statement)]
                is_used = any(isinstance(part, ast.Raise) or getattr(part, "id", node) == node.name for part in body)
                has_reason = any("#" in line for line in lines[node.lineno - 1 : node.body[0].lineno])
                if not is_used and not has_reason:
                    silent.append(f"{path.relative_to(SOURCE.parent)}:{node.lineno}")
    assert silent == []


def _is_broad(handler: ast.ExceptHandler) -> bool:
    names = set() if handler.type is None else {getattr(node, "id", "") for node in ast.walk(handler.type)}
    return handler.type is None or bool(names & {"Exception", "BaseException"})


def test_state_changes_of_jobs_are_statements_that_name_the_state_they_come_from() -> None:
    """An UPDATE that sets a job's state says in its statement which one it expects."""
    for path in sorted((SOURCE / "tables").glob("*.sql")):
        for block in re.split(r"^-- name: ", path.read_text(), flags=re.MULTILINE)[1:]:
            for update in re.findall(r"UPDATE holdfast_jobs\b(.*?)(?=UPDATE |INSERT |\Z)", block, re.DOTALL):
                if re.search(r"\bSET\b.*?\bstate\s*=", update.partition("WHERE")[0], re.DOTALL):
                    chosen = re.search(r"\bWHERE\b.*?\bstate\s*(=|<>|IN)", block, re.DOTALL)
                    assert chosen, f"{path.name}: {block.split()[0]}"


TABLES = {
    table
    for path in sorted((SOURCE / "tables" / "migrations").glob("*.sql"))
    for table in re.findall(r"CREATE TABLE (?:IF NOT EXISTS )?(holdfast_\w+)", path.read_text())
}
WRITES_WITH_US = {"grading/submissions.sql": {"holdfast_idempotency", "holdfast_outbox"}}
"""A POST as one statement: the answer of its key and its message, in the commit of the submission."""


def test_systems_join_views_and_no_table_of_the_kernel() -> None:
    """`tables/migrations/026_views.sql`. What a system has migrated already stays as it was written."""
    systems = SOURCE.parent / "holdfast_systems"
    named = {
        path.relative_to(systems).as_posix(): TABLES & set(re.findall(r"\bholdfast_\w+", path.read_text()))
        for path in [*systems.rglob("*.sql"), *systems.rglob("*.py")]
        if path.parent.name != "sim" and not path.parent.name.startswith("migrations")
    }
    assert {name: tables for name, tables in named.items() if tables} == WRITES_WITH_US
    assert "holdfast_jobs" in TABLES


def test_every_decision_is_named_beside_the_code_that_it_explains() -> None:
    """By its path, in the docstring of a module; and what is named there is there."""
    texts = [path.read_text() for root in ("src", "tests") for path in sorted((REPOSITORY / root).rglob("*.py"))]
    named = {name for text in texts for name in re.findall(r"^Why so: docs/decisions/(\S+)$", text, re.MULTILINE)}
    assert named == {path.name for path in (REPOSITORY / "docs" / "decisions").glob("*.md")}
