"""What is so on purpose: told from the whole file, or from the other files of the change."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import takewhile

from holdfast_systems.review.changelist import Changelist
from holdfast_systems.review.findings import NOT_RUN, Finding
from holdfast_systems.review.line_checks import CREDENTIAL, is_known_key
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
# A handler of Python 2 that newer versions read as one of two classes.
_OLD_HANDLER = re.compile(r"^\s*except\s+[\w.]+\s*,\s*[a-z]\w*\s*:", re.MULTILINE)
# What the parser of the plain language cannot read: templates, cells of notebooks, proposals.
_DIALECT = re.compile(r"\{%[-+]?\s*\w|<%|^[%!]\w|^\s*export \w+ from\b|\{\{\s*cookiecutter|%[A-Z]\w+\(", re.MULTILINE)
# Names that come by another way than a definition: from a table of names, or from what runs the file.
_NAMES_MADE = re.compile(
    r"\bglobals\(\)(?:\[|\.update)|^def __getattr__\b|^\s*exec\(|\b__?builtins?__?\b", re.MULTILINE
)
_NAMES_GIVEN = re.compile(r"`(?:_|N_|n?gettext|get_ipython|display|reveal_\w+|profile|SConscript|Import)`")
_COLUMNS = re.compile(
    r"^\s*(?:import|from)\s+\w*(?:sqlalchemy|sqlmodel|peewee|pony|pandas|numpy|polars|pyspark|ibis)\b", re.M
)
# What a handler of everything does that takes care: it goes on, or keeps what happened.
_TAKES_CARE = re.compile(r"\s*(?:raise\b|#)|.*(?:exc_info|format_exc|print_exc|\.exception\(|traceback\b)")
_EVALUATED_TEXT = re.compile(r"eval\(\s*[rbuRBU]?['\"]")
_LONG_TEXT = re.compile(r"(['\"`])[^'\"`]{100,}\1")  # a sentence or a table in one piece is not broken
_REDEFINED = re.compile(r"from line (\d+)")
_MANY_WORDS = re.compile(r"\$\{?\w*(?:OPT(?:ION)?|ARG|FLAG|PARAM|CMD|COMMAND|LIST|FILES)S?\b", re.IGNORECASE)
_TICKET = re.compile(r"https?://|#\d+|\b[A-Z]{2,}-\d+")
_TO_A_TOOL = re.compile(r"(?:#|//|/\*)\s*(?:pyright|mypy|pylint|ruff|flake8|type|isort|eslint|@ts|prettier|tslint)\b")
# `if (a = b)`, where somebody may have meant to compare.
_CONDITION = re.compile(r"\bif\s*\(")
_ASSIGNED_PLAINLY = re.compile(r"(?<![=!<>])=(?![=>])\s*(?:[\w$]+|'[^']*'|\"[^\"]*\")\s*(?:\)|&&|\|\|)")
_IMPORTED = re.compile(r"`(?:[\w.]*\.)?(?:\w+` as `)?(?:[\w.]+ as )?(\w+)` imported but unused")
_MISSING = re.compile(r"ImportError|ModuleNotFoundError")
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
    older |= {path for path, text in texts.items() if path.endswith(".py") and _OLD_HANDLER.search(text)}
    strange = {path for path, text in texts.items() if _DIALECT.search(text)}
    written = {path for path, text in texts.items() if is_written_by_a_program(text)}
    written |= {file.path for file in changelist.files if any(map(_is_written_line, file.added_lines))}
    typed = {path.removesuffix(".d.ts") for path in texts if path.endswith(".d.ts")}
    kept = []
    for finding in findings:
        if finding.critic == "ruff" and finding.path in older:
            continue  # written for Python 2: nothing that is said of it as Python 3 holds
        if finding.rule == "invalid-syntax" and finding.path in strange:
            continue
        lines = texts.get(finding.path, "").split("\n")
        line = lines[finding.line - 1] if 0 < finding.line <= len(lines) else ""
        if _is_shown(finding, line, texts.get(finding.path, "")):
            continue
        plain = "".join(line.split())
        moved = len(plain) >= _MOVED_CHARS_MIN and plain in gone
        if finding.rule in _MANNERS and finding.path.endswith(".js") and finding.path[:-3] in typed:
            continue  # a compiler wrote both this file and its types
        if finding.rule in _ALWAYS_TOLD or not (
            moved or finding.path in written or _is_meant(finding, line, lines, texts.get(finding.path, ""))
        ):
            kept.append(finding)
    return kept


def _is_shown(finding: Finding, line: str, content: str) -> bool:
    """An address with a password in a text of several lines, as documents show how one is written; and what only has
    the name of a secret in a docstring."""
    if finding.rule not in ("secret", CREDENTIAL) or is_known_key(line):
        return False
    if "Basic Auth Credentials" in finding.message:
        return finding.line in _lines_of_texts(content)
    named = finding.rule == CREDENTIAL or "Secret Keyword" in finding.message
    return named and finding.line in _lines_of_texts(content, documents=True)


def _is_written_line(added: tuple[int, str]) -> bool:
    return len(added[1]) > _WRITTEN_LINE_MAX


def is_written_by_a_program(text: str) -> bool:
    head = text[:1_000]
    return bool(_GENERATED.search(head) or _BUNDLE.search(head) or _COMPILED.search(text)) or any(
        len(line) > _WRITTEN_LINE_MAX for line in text.split("\n")
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """A finding with the line that it is about, and the file around it."""

    finding: Finding
    line: str
    lines: list[str]
    content: str

    @property
    def number(self) -> int:
        return self.finding.line

    @property
    def is_trial(self) -> bool:
        return path_kind(self.finding.path) == "trial"


def _is_meant(finding: Finding, line: str, lines: list[str], content: str) -> bool:
    meant = _MEANT.get(finding.rule)
    return meant is not None and meant(_Place(finding, line, lines, content))


def _is_offered_or_tried(place: _Place) -> bool:
    """An import that is tried, or that is itself what a test tries; one with its reason, and one of several."""
    tried = "find_spec" in place.finding.message or (place.line[:1].isspace() and place.is_trial)
    explained = place.number > 1 and place.lines[place.number - 2].lstrip().startswith("#")
    offered = _only_imports(place.content) or place.number in _lines_of_alternatives(place.content)
    return tried or explained or offered or _is_named_in_a_comment(place.finding, place.lines)


def _comes_from_elsewhere(place: _Place) -> bool:
    """A name that is put in its place while the program runs, that what runs the file gives to it, or that SQLAlchemy
    finds; the data of tests is run with names given to it."""
    if _NAMES_MADE.search(place.content) or _NAMES_GIVEN.search(place.finding.message):
        return True
    return bool(_MAPPED.search(place.line)) or (place.is_trial and not _OWN_NAMES.search(place.content))


def _is_kept_by_another(place: _Place) -> bool:
    """Whether what is defined a second time was given to a decorator the first time."""
    before = _REDEFINED.search(place.finding.message)
    return before is not None and place.lines[int(before[1]) - 2].lstrip().startswith("@")


def _is_asked_for(place: _Place) -> bool:
    """Whether a name is read to see that it is there: `try: set`."""
    before = place.lines[place.number - 2].strip() if place.number > 1 else ""
    return before == "try:"


def _takes_care(place: _Place) -> bool:
    """Whether the handler of a line lets the error go on, keeps it, or says why it takes all of them."""
    depth = len(place.line) - len(place.line.lstrip())
    below = place.lines[place.number :]
    inside = takewhile(lambda text: not text.strip() or len(text) - len(text.lstrip()) > depth, below)
    return any(_TAKES_CARE.match(text) for text in inside)


def _is_named_in_a_comment(finding: Finding, lines: list[str]) -> bool:
    """Whether types that stand in comments need the import."""
    imported = _IMPORTED.search(finding.message)
    named = re.compile(rf"#\s*type:.*\b{re.escape(imported[1])}\b") if imported else None
    return named is not None and any(map(named.search, lines))


def _only_imports(content: str) -> bool:
    """Whether a file has nothing of its own: what it imports is what it offers."""
    tree = _tree(content)
    body = tree.body if tree else []
    return len(body) > 1 and all(isinstance(node, ast.Import | ast.ImportFrom | ast.Expr) for node in body)


def _lines_of_alternatives(content: str) -> set[int]:
    """The lines of imports one of which is taken, by what is installed."""
    tried = [node for node in _nodes(content) if isinstance(node, ast.Try) and any(map(_is_missing, node.handlers))]
    return {line for node in tried for line in range(node.lineno, (node.end_lineno or 0) + 1)}


def _is_missing(handler: ast.ExceptHandler) -> bool:
    return handler.type is not None and bool(_MISSING.search(ast.unparse(handler.type)))


def _is_overload(number: int, content: str) -> bool:
    """Whether a line belongs to a signature that is there for type checkers only."""
    functions = [node for node in _nodes(content) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
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


def _lines_of_texts(content: str, *, documents: bool = False) -> set[int]:
    """The lines inside strings that go over several, or inside `documents` alone, which are for a reader and nobody
    else; none where the file cannot be read."""
    nodes = [
        node.value if isinstance(node, ast.Expr) else node
        for node in _nodes(content)
        if not documents or isinstance(node, ast.Expr)
    ]
    texts = [node for node in nodes if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno]
    spans = [range(text.lineno, (text.end_lineno or 0) + 1) for text in texts]
    return {line for span in spans if len(span) > 1 for line in span}


def _nodes(content: str) -> list[ast.AST]:
    tree = _tree(content)
    return list(ast.walk(tree)) if tree else []


def _tree(content: str) -> ast.Module | None:
    try:
        return ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


_MEANT: Mapping[str, Callable[[_Place], bool]] = {
    "todo": lambda at: any(_TICKET.search(following) for following in at.lines[at.number : at.number + 2]),
    "long-line": lambda at: bool(_TO_A_TOOL.search(at.line) or _LONG_TEXT.search(at.line)),
    "trailing-space": lambda at: at.finding.path.endswith(".py") and at.number in _lines_of_texts(at.content),
    "debugging": lambda at: at.finding.severity == "info" and _is_an_answer(at.finding, at.lines, at.content),
    "B006": lambda at: _is_overload(at.number, at.content),
    "B018": lambda at: "attribute access" in at.finding.message or _is_asked_for(at),  # it may load or connect
    "B019": lambda at: bool(_BOUNDED.search(at.line)),
    "E711": lambda at: bool(_COLUMNS.search(at.content)),  # columns answer to == and to nothing else
    "E722": _takes_care,
    "F401": _is_offered_or_tried,
    "F811": _is_kept_by_another,
    "F821": _comes_from_elsewhere,
    "F822": _comes_from_elsewhere,
    "PLE2515": lambda at: bool(_UNBLANKED.search(at.line)),
    "S307": lambda at: bool(_EVALUATED_TEXT.search(at.line)),
    "S602": lambda at: "seems safe" in at.finding.message,
    "S701": lambda at: "html" not in at.content.lower(),
    "SC2086": lambda at: bool(_MANY_WORDS.search(at.line)),
    # What is asked for or worked out in a condition is kept on purpose.
    "eslint(no-cond-assign)": lambda at: not _assigns_plainly(at.line),
}
