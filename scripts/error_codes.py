"""Finds the error classes and problem codes in the source, for the reference page.

A class is a text that stands beside a `Category`, or that is handed to a function which puts it there.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TypeGuard

from holdfast.core import outcome
from holdfast.core.failure import RETRYABLE, Category
from holdfast.http.problem import CODES, KNOWN
from holdfast_systems.conversion.codes import TABLE, Code
from holdfast_systems.grading.reasons import REASONS as REASONS_OF_SUBMISSIONS
from holdfast_systems.grading.reasons import REASONS_OF_LETTERS

# Rehearsals of failures, not failures.
LEFT_OUT = ("holdfast_proof/", "holdfast/testing/", "holdfast/demo")
REASONS = {
    "deadline": "Its deadline passed; or nobody called back in time.",
    "discarded": "Its own code gave it up.",
    "exhausted": "The last try of the stage failed as well; or its provider put it off for too long.",
    "no_time": "The next try could only have come after its deadline; the error class is the real cause.",
    "permanent": "It failed in a way that no retry fixes.",
    "poison": "It lost too many workers; it may be what kills them.",
    "taken_back": "It had succeeded, and its provider does not know the effect that it was marked with.",
}
Table = Callable[..., str]


def page(source: Path, table: Table) -> str:
    parts = [
        "# Error codes",
        "Codes never change their meaning; alert on them, and match them in clients.",
        "## Error classes",
        "Every failed attempt and every dead letter has one, in one of nine categories. "
        f"Retried: {', '.join(f'`{one}`' for one in Category if one in RETRYABLE)}; the others reach a person. "
        "A provider may say otherwise with its answer, and a system with its own table. Where no category stands, the "
        "class refines a failure and keeps its category. Two classes are decisions and no failures of an attempt: "
        "`DEADLINE_EXCEEDED` ends a job whose time is over, wherever it was, and `DISCARDED` one that its own code "
        "gave up; neither is retried.",
        table(("class", "category", "from"), _class_rows(source)),
        "## Reasons of a dead letter",
        "The `failure_reason`: why nothing was tried any more.",
        table(("reason", "what it means"), _reason_rows(source / "holdfast")),
        "## Codes of an explanation",
        "The `code` that `holdfast jobs show --json` and `GET /api/ops/jobs/{job_id}` give with the sentence that says "
        "why a job is where it is.",
        ", ".join(f"`{code}`" for code in _explanations(source / "holdfast" / "kernel" / "questions" / "explain.py"))
        + ".",
        "## Problem codes",
        "The `code` of an HTTP answer of 400 or more.",
        table(("code", "status", "from"), _problem_rows(source)),
        "## Failure reasons of a submission",
        "The `failureReason` of a submission that is FAILED. A foreign grading service may bring others, as its "
        "callback says them; metrics count those as `OTHER`.",
        table(
            ("reason", "what it means"), [(f"`{name}`", meaning) for name, meaning in REASONS_OF_SUBMISSIONS.items()]
        ),
        "A letter of `grading.dlq` has one of these as its `failureReason`, or:",
        table(("reason", "what it means"), [(f"`{name}`", meaning) for name, meaning in REASONS_OF_LETTERS.items()]),
        "## Codes of a conversion",
        "All that a client of the conversion API sees of a failed job, whatever the cause was.",
        table(("code", "what the client is told"), [(f"`{code}`", TABLE[code].message) for code in Code]),
        "Which error class leads to which of them, also when a converter of your own raises it; a class that is not "
        "here goes by its category.",
        table(
            ("class or category", "code", "what the client is told"),
            [(f"`{name}`", f"`{one.code}`", one.message) for name, one in sorted(TABLE.items()) if name not in {*Code}],
        ),
        "## Codes of a failed grading",
        "The `type` and `code` of the error in a callback. A code of an audio file is its error class. All are final "
        "but `CIRCUIT_OPEN`, which tells that the grading waits for a provider and goes on by itself.",
        table(("type", "code"), _grading_rows(source / "holdfast_systems" / "grading" / "answers.py")),
    ]
    return "\n\n".join(parts)


def _class_rows(source: Path) -> list[tuple[str, str, str]]:
    found: dict[str, tuple[set[str], set[str]]] = {}
    for part, tree in _modules(source):
        for name, category in _classes(tree):
            categories, parts = found.setdefault(name, (set(), set()))
            categories |= {category} - {""}
            parts.add(part)
    return [
        (f"`{name}`", ", ".join(f"`{one}`" for one in sorted(categories)), ", ".join(sorted(parts)))
        for name, (categories, parts) in sorted(found.items())
    ]


def _modules(source: Path) -> Iterator[tuple[str, ast.Module]]:
    """Every module with the part of Holdfast it belongs to."""
    for path in sorted(source.rglob("*.py")):
        name = path.relative_to(source).as_posix()
        if not name.startswith(LEFT_OUT):
            parts = name.split("/")
            yield (parts[1] if parts[0] == "holdfast_systems" else "kernel"), ast.parse(path.read_text())


def _classes(tree: ast.Module) -> Iterator[tuple[str, str]]:
    yield from _of_outcomes(tree)
    yield from _of_overdue(tree)
    yield from _in_default(tree)
    yield from _by_keyword(tree)
    for function in [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))]:
        for node in ast.walk(function):
            if isinstance(node, ast.AnnAssign | ast.keyword):
                yield from ((name, "") for name in _named_class(node))
            values = node.args if isinstance(node, ast.Call) else node.elts if isinstance(node, ast.Tuple) else []
            for category, value in pairwise(values):
                if _is_category(category):
                    for name in _values(value, function, tree):
                        yield name, Category[category.attr].value


def _of_outcomes(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """An outcome's own class, with the category that the decision about such an outcome gives it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.match_case) and isinstance(node.pattern, ast.MatchClass):
            made = getattr(outcome, ast.unparse(node.pattern.cls), None)
            default = getattr(made, "__dataclass_fields__", {}).get("error_class")
            given = [one.attr for part in node.body for one in ast.walk(part) if _is_category(one)]
            if default is not None and given:
                yield str(default.default), Category[given[0]].value


def _of_overdue(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """A class handed to an outcome whose category the decision gives: `Overdue("CALLBACK_OVERDUE")`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Overdue":
            for name in _texts(node):
                yield name, Category.BUG.value


def _in_default(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """What stands in where none was kept: `row.error_class or "EFFECT_FAILED"`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BoolOp) and ast.unparse(node.values[0]).endswith(".error_class"):
            yield from ((name, "") for name in _texts(node))


def _by_keyword(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """`category=Category.BUG, error_class="SETTLE_FAILED"` in one call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            named = {one.arg: one.value for one in node.keywords}
            category, name = named.get("category"), named.get("error_class")
            if category is not None and _is_category(category) and isinstance(name, ast.Constant):
                yield str(name.value), Category[category.attr].value


def _is_category(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and ast.unparse(node.value) == "Category"


def _named_class(node: ast.AnnAssign | ast.keyword) -> list[str]:
    name = node.arg if isinstance(node, ast.keyword) else ast.unparse(node.target)
    return _texts(node.value) if name == "error_class" and isinstance(node.value, ast.Constant) else []


def _values(value: ast.expr, function: ast.Module | ast.FunctionDef, tree: ast.Module) -> Iterator[str]:
    """The texts an expression may be: itself, a module's table of them, or what callers hand to a parameter."""
    if isinstance(value, ast.Constant | ast.IfExp):
        yield from _texts(value)
    elif isinstance(value, ast.Starred):
        named = ast.unparse(value.value).partition("[")[0]
        for node in tree.body:
            if isinstance(node, ast.AnnAssign | ast.Assign) and node.value and named in _targets(node):
                yield from _texts(node.value)
    elif isinstance(value, ast.Name) and isinstance(function, ast.FunctionDef):
        yield from _handed(value.id, function, tree)


def _handed(name: str, function: ast.FunctionDef, tree: ast.Module) -> Iterator[str]:
    names = [one.arg for one in function.args.args]
    at = names.index(name) if name in names else -1
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and name in _targets(node):
            yield from _texts(node.value)
    for node in ast.walk(tree):
        if at >= 0 and isinstance(node, ast.Call) and ast.unparse(node.func) == function.name and len(node.args) > at:
            yield from _texts(node.args[at])


def _targets(node: ast.AnnAssign | ast.Assign) -> list[str]:
    return [ast.unparse(one) for one in (node.targets if isinstance(node, ast.Assign) else [node.target])]


def _texts(node: ast.AST | None) -> list[str]:
    found = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)] if node else []
    return [one for one in found if isinstance(one, str) and one.isupper() and one.replace("_", "").isalnum()]


def _problem_rows(source: Path) -> list[tuple[str, str, str]]:
    found: dict[tuple[str, int], set[str]] = {(code, status): {"kernel"} for status, code in CODES.items()}
    for _, status, code, _ in KNOWN:
        found.setdefault((code, status), set()).add("kernel")
    for part, tree in _modules(source):
        for status, code in _problems(tree):
            found.setdefault((code, status), set()).add(part)
    return [(f"`{code}`", str(status), ", ".join(sorted(parts))) for (code, status), parts in sorted(found.items())]


def _problems(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        made, first = ast.unparse(node.func), node.args[0]
        if made == "Problem" and isinstance(first, ast.Constant) and len(node.args) > 1:
            yield from ((int(str(first.value)), code) for code in _code(node.args[1]))
        if made.endswith("Refusal"):
            yield from ((409, code) for code in _texts(first))


def _code(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("Code."):
        return [Code[ast.unparse(node).split(".")[1]].value]
    return _texts(node)


def _reason_rows(holdfast: Path) -> list[tuple[str, str]]:
    """Every reason that a decision gives; one that has no sentence here, or no decision any more, is a KeyError."""
    found = set()
    for node in ast.walk(ast.parse((holdfast / "core" / "decide.py").read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "_buried":
            found.add(ast.literal_eval(node.args[3]))
    for node in ast.walk(ast.parse((holdfast / "kernel" / "ledger" / "reopen.py").read_text())):
        if isinstance(node, ast.keyword) and node.arg == "buried":
            found.add(ast.literal_eval(node.value))
    if found != set(REASONS):
        raise KeyError(f"reasons of a dead letter that are told on one side only: {found ^ set(REASONS)}")
    return [(f"`{reason}`", REASONS[reason]) for reason in sorted(found)]


def _explanations(explain: Path) -> list[str]:
    """The codes in the facts of an explanation, and the kinds of event that are codes themselves."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(explain.read_text())):
        if isinstance(node, ast.Dict):
            found |= {
                code for key, one in zip(node.keys, node.values, strict=True) if _is_code(key) for code in _texts(one)
            }
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "_finished":
            found |= set(_texts(node.args[1]))
        if isinstance(node, ast.Compare) and ast.unparse(node.left) == "kind" and isinstance(node.ops[0], ast.In):
            found |= {one.upper() for one in ast.literal_eval(node.comparators[0])}
    return sorted(found)


def _is_code(key: ast.expr | None) -> bool:
    return isinstance(key, ast.Constant) and key.value == "code"


def _grading_rows(answers: Path) -> list[tuple[str, str]]:
    """What the one function that names a failed grading may return."""
    tree = ast.parse(answers.read_text())
    names = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "_names")
    found: dict[str, set[str]] = {}
    for node in ast.walk(names):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            kind, code = node.value.elts
            said = {one for one in _texts(code) if not one.endswith("_")}
            said |= {"AUDIO_*"} if "error_class" in _names_in(code) else set()
            found.setdefault(_texts(kind)[0], set()).update(said)
    for kind in _told_in_passing(tree):
        found.setdefault(kind, set()).add(kind)
    return [(f"`{kind}`", ", ".join(f"`{code}`" for code in sorted(codes))) for kind, codes in sorted(found.items())]


def _told_in_passing(tree: ast.Module) -> Iterator[str]:
    """The type of an error that is no end: `ErrorDetail(type=CIRCUIT_OPEN, code=CIRCUIT_OPEN, ...)`."""
    named = {target: node.value for node in tree.body if isinstance(node, ast.Assign) for target in _targets(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "ErrorDetail":
            for one in node.keywords:
                if one.arg == "type":
                    yield from _texts(named.get(ast.unparse(one.value), one.value))


def _names_in(node: ast.expr) -> set[str]:
    body = node.body if isinstance(node, ast.IfExp) else node
    return {one.id for one in ast.walk(body) if isinstance(one, ast.Name)}
