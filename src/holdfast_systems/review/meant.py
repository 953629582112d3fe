"""What is so on purpose: told from the whole file, or from the other files of the change."""

from __future__ import annotations

import ast
import re

from holdfast_systems.review.changelist import Changelist
from holdfast_systems.review.findings import NOT_RUN, Finding
from holdfast_systems.review.line_checks import CREDENTIAL
from holdfast_systems.review.path_kinds import path_kind, speaks_to_people

_ALWAYS_TOLD = frozenset({NOT_RUN, "merge-conflict", "invalid-syntax", "secret", CREDENTIAL})
_GENERATED = re.compile(
    r"\b(?:auto-?)?generated (?:by|from|with|automatically)\b|\bdo not (?:edit|modify)\b", re.IGNORECASE
)
# A bundle: written by a program from many files, with its loader at the top, or with a line that no person writes.
_BUNDLE = re.compile(
    r"typeof exports === ['\"]object['\"] && typeof module|__webpack_require__|webpackChunk|parcelRequire"
    r"|[\"']object[\"'] ?== ?typeof exports|\(function e\(t,n,r\)"
)
# What compilers of JavaScript write: how a module is marked, their helpers, and where the source is.
_COMPILED = re.compile(
    r"Object\.defineProperty\(exports, ['\"]__esModule['\"]|^exports\.__esModule = true;?$"
    r"|^(?:var|const|let|function) (?:__extends|__awaiter|__export|__toESM|__defProp|__assign"
    r"|_createClass|_classCallCheck|_inherits|_inheritsLoose|_setPrototypeOf"
    r"|_interopRequireDefault|_interopRequireWildcard)\b|^//# sourceMappingURL="
    r"|=== void 0 \? void 0 : ",
    re.MULTILINE,
)
_WRITTEN_LINE_MAX = 1_000
_MANNERS = frozenset({"long-line", "trailing-space", "no-final-newline"})
# Lao, Thai, Burmese, Khmer and Tibetan put no blanks between words; some put a blank of no width.
_UNBLANKED = re.compile("[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff]")
_RUN_BY_ITSELF = re.compile(r"if __name__ == |(?:async )?def (?:main|cli|run_cli)\b")
_COMMAND_LINE = re.compile(r"^\s*(?:import|from)\s+(?:argparse|click|typer|optparse|fire|docopt|cmd)\b", re.MULTILINE)
_IF = re.compile(r"\bif\b", re.IGNORECASE)
_ASKED = re.compile(r"verbose|debug|silent|quiet|log_?level|print|dump", re.IGNORECASE)
# A file of tests that has none of these is data: who runs it gives it its names.
_OWN_NAMES = re.compile(r"^\s*(?:import|from|def|async def|class)\s|\blambda\b", re.MULTILINE)
_MAPPED = re.compile(r"\bMapped\[[^'\"\n]{0,200}['\"]\w+['\"]")
_OLD_PYTHON = re.compile(
    r"^\s*print\s+[\"'%]|^\s*except\s+[\w.]+\s*,\s*\w+\s*:|^\s*raise\s+[\w.]+\s*,|^\s*(?:from|import)\s+[\w.]+\.async\b",
    re.MULTILINE,
)
_TICKET = re.compile(r"https?://|#\d+|\b[A-Z]{2,}-\d+")
_TO_A_TOOL = re.compile(r"(?:#|//|/\*)\s*(?:pyright|mypy|pylint|ruff|flake8|type|isort|eslint|@ts|prettier|tslint)\b")
# `if (a = b)`, where somebody may have meant to compare.
_CONDITION = re.compile(r"\bif\s*\(")
_ASSIGNED_PLAINLY = re.compile(r"(?<![=!<>])=(?![=>])\s*(?:[\w$]+|'[^']*'|\"[^\"]*\")\s*(?:\)|&&|\|\|)")
_IMPORTED = re.compile(r"`(?:[\w.]*\.)?(?:\w+` as `)?(?:[\w.]+ as )?(\w+)` imported but unused")
_BOUNDED = re.compile(r"maxsize\s*=\s*\d|lru_cache\(\d")
_MOVED_CHARS_MIN = 8


def unmeant(findings: list[Finding], changelist: Changelist, texts: dict[str, str]) -> list[Finding]:
    """The findings of what nobody meant to be so, and of what did not stand elsewhere before this change."""
    gone = {
        "".join(line.text.split())
        for file in changelist.files
        for hunk in file.hunks
        for line in hunk.lines
        if line.kind == "-"
    }
    broken = {finding.path for finding in findings if finding.rule == "invalid-syntax" and finding.critic == "ruff"}
    older = {path for path in broken if _OLD_PYTHON.search(texts.get(path, ""))}
    written = {path for path, text in texts.items() if is_written_by_a_program(text)}
    typed = {path.removesuffix(".d.ts") for path in texts if path.endswith(".d.ts")}
    kept = []
    for finding in findings:
        if _is_shown(finding, texts.get(finding.path, "")):
            continue
        if finding.critic == "ruff" and finding.path in older:
            continue  # written for Python 2: nothing that is said of it as Python 3 holds
        lines = texts.get(finding.path, "").split("\n")
        line = lines[finding.line - 1] if 0 < finding.line <= len(lines) else ""
        plain = "".join(line.split())
        moved = len(plain) >= _MOVED_CHARS_MIN and plain in gone
        if finding.rule in _MANNERS and finding.path.endswith(".js") and finding.path[:-3] in typed:
            continue  # a compiler wrote both this file and its types
        if finding.rule in _ALWAYS_TOLD or not (
            moved or finding.path in written or _is_meant(finding, line, lines, texts.get(finding.path, ""))
        ):
            kept.append(finding)
    return kept


def _is_shown(finding: Finding, content: str) -> bool:
    """An address with a password in a text of several lines, as documents show how one is written."""
    guessed = finding.rule == "secret" and "Basic Auth Credentials" in finding.message
    return guessed and finding.line in _lines_of_texts(content)


def is_written_by_a_program(text: str) -> bool:
    head = text[:1_000]
    return bool(_GENERATED.search(head) or _BUNDLE.search(head) or _COMPILED.search(text)) or any(
        len(line) > _WRITTEN_LINE_MAX for line in text.split("\n")
    )


def _is_meant(finding: Finding, line: str, lines: list[str], content: str) -> bool:
    rule, number = finding.rule, finding.line
    if rule == "todo":
        return any(_TICKET.search(following) for following in lines[number : number + 2])
    if rule == "long-line":
        return bool(_TO_A_TOOL.search(line))
    if rule == "trailing-space":
        return finding.path.endswith(".py") and number in _lines_of_texts(content)
    if rule == "F401":
        # an import that is tried, or that is itself what a test tries
        tried = "find_spec" in finding.message or (line[:1].isspace() and path_kind(finding.path) == "trial")
        explained = number > 1 and lines[number - 2].lstrip().startswith("#")
        return tried or explained or _is_named_in_a_comment(finding, lines) or _only_imports(content)
    if rule == "F821":
        mapped = _MAPPED.search(line) is not None  # SQLAlchemy finds the class by its name
        return mapped or (path_kind(finding.path) == "trial" and not _OWN_NAMES.search(content))
    if rule == "PLE2515":
        return bool(_UNBLANKED.search(line))
    if rule == "B006":
        return _is_overload(number, content)
    if rule == "B019":
        return bool(_BOUNDED.search(line))
    if rule == "eslint(no-cond-assign)":
        return not _assigns_plainly(line)  # what is asked for or worked out there is kept on purpose
    return rule == "debugging" and finding.severity == "info" and _is_an_answer(finding, lines, content)


def _is_named_in_a_comment(finding: Finding, lines: list[str]) -> bool:
    """Whether types that stand in comments need the import."""
    imported = _IMPORTED.search(finding.message)
    named = re.compile(rf"#\s*type:.*\b{re.escape(imported[1])}\b") if imported else None
    return named is not None and any(map(named.search, lines))


def _only_imports(content: str) -> bool:
    """Whether a file has nothing of its own: what it imports is what it offers."""
    try:
        body = ast.parse(content).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return len(body) > 1 and all(isinstance(node, ast.Import | ast.ImportFrom | ast.Expr) for node in body)


def _is_overload(number: int, content: str) -> bool:
    """Whether a line belongs to a signature that is there for type checkers only."""
    try:
        nodes = list(ast.walk(ast.parse(content)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return any(
        node.lineno <= number <= (node.end_lineno or 0)
        and any(ast.unparse(decorator).endswith("overload") for decorator in node.decorator_list)
        for node in functions
    )


def _is_an_answer(finding: Finding, lines: list[str], content: str) -> bool:
    """A print of a command, one that a setting asks for, what a Python file does when it is run by itself, or an
    example in a text."""
    before = lines[max(0, finding.line - 3) : finding.line - 1]
    if speaks_to_people(finding.path) or _COMMAND_LINE.search(content) or any(map(_is_when_asked, before)):
        return True
    if not finding.path.endswith(".py"):
        return False
    above = lines[: finding.line]
    outermost = next((line for line in reversed(above) if line[:1] not in ("", " ", "\t", "#", ")", "\r")), "")
    return bool(_RUN_BY_ITSELF.match(outermost)) or finding.line in _lines_of_texts(content)


def _assigns_plainly(line: str) -> bool:
    start = _CONDITION.search(line)
    return start is not None and _ASSIGNED_PLAINLY.search(line, start.end()) is not None


def _is_when_asked(line: str) -> bool:
    start = _IF.search(line)
    return start is not None and _ASKED.search(line, start.end()) is not None


def _lines_of_texts(content: str) -> set[int]:
    """The lines inside strings that go over several; none where the file cannot be read."""
    try:
        nodes = list(ast.walk(ast.parse(content)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    texts = [node for node in nodes if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno]
    spans = [range(text.lineno, (text.end_lineno or 0) + 1) for text in texts]
    return {line for span in spans if len(span) > 1 for line in span}
