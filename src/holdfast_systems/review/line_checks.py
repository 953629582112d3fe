"""Checks of our own on added lines, for every language: what no reviewer should have to say.

Each check is a function of one file of the change; none runs a program or needs the whole file, so they
always run, whatever tools are missing. No message ever quotes a line: the line may hold a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from holdfast_systems.review.changelist import ChangedFile
from holdfast_systems.review.findings import Finding, Severity

CRITIC = "lines"
LINE_CHARS_MAX = 160
BINARY_BYTES_MAX = 500_000
# Pictures, letters, sound and documents are never text; a program or a database seldom belongs to a change.
_BINARY_BY_NATURE = frozenset(
    {
        *(".png", ".jpg", ".jpeg", ".gif", ".webp", ".ico", ".icns", ".bmp", ".tif", ".tiff", ".avif", ".psd"),
        *(".woff", ".woff2", ".ttf", ".otf", ".eot", ".pdf", ".docx", ".xlsx", ".pptx", ".mo"),
        *(".mp3", ".mp4", ".m4a", ".wav", ".ogg", ".flac", ".webm", ".mov", ".wasm"),
    }
)
CREDENTIAL = "credential"

_MARKER_START = re.compile(r"(?:<{7}|>{7}|\|{7})(?: |$)")
_DEBUGGING: dict[re.Pattern[str], tuple[str, Severity]] = {
    re.compile(r"(?:breakpoint\(\)|(?:import i?pdb;\s*)?(?:i?pdb|pudb)\.set_trace\()"): (".py", "warning"),
    # A value or two as they are; what is put into words, or handed on from a caller, is meant for a reader.
    re.compile(
        r"^print\((?!.*\b(?:file|end|flush)=|.*\*\*|f?['\"](?:[^ ]+ ){3})"
        r"(?:[\w.\[\]'\" ,:*!?>=-]*|f['\"](?=.*=\}).*)\)\s*(?:#.*)?$"
    ): (
        ".py",
        "info",
    ),
    re.compile(r"debugger\b"): (".js .jsx .ts .tsx .mjs .cjs .vue .svelte", "warning"),
    # Whoever shows an error last reports it; a sentence is meant for a reader.
    re.compile(
        r"^console\.(?:log|debug|trace)\("
        r"(?!['\"`](?:[^'\"` ]+ ){3}[^'\"`]*['\"`]\)|.*\b(?:e|ex|err|error|exception|reason)\)*;?\s*$)"
    ): (
        ".js .jsx .ts .tsx .mjs .cjs .vue .svelte",
        "info",
    ),
    re.compile(r"(?:binding\.(?:pry|irb)|byebug)\b"): (".rb .erb", "warning"),
    re.compile(r"(?:var_dump|print_r|dd)\("): (".php", "warning"),
    re.compile(r"(?:dbg!|println!)\("): (".rs", "info"),
    re.compile(r"set -x\b"): (".sh .bash", "info"),
}
_TODO = re.compile(r"\b(TODO|FIXME)\b(?!\s*[\[(])(?![^\n]*(?:#\d|\b[A-Z]{2,}-\d|https?://))")
# Who says when it is to be done has thought of it.
_OCCASION = re.compile(
    r"\b(?:when|once|after|until|as soon as|(?:in|on|for|with|by)\b.{0,30}\b(?:release|version|v?\d+\.\d))", re.I
)
_PROSE = frozenset({"", ".md", ".rst", ".txt", ".adoc"})
_CODE = frozenset(
    {
        *(".py", ".pyi", ".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".vue", ".svelte", ".go", ".rs", ".java", ".kt"),
        *(".c", ".h", ".cc", ".cpp", ".hpp", ".cs", ".rb", ".php", ".swift", ".scala", ".sh", ".bash", ".pl", ".lua"),
    }
)
_KEEPS_TRAILING = frozenset({".md", ".rst", ".txt", ".html", ".diff", ".patch", ".snap"})

_URL_CREDENTIAL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@'\"]{1,64}:(?P<value>[^\s/@'\"]{3,})@")
_KEY_BLOCK = re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY")
_KNOWN_KEY = re.compile(
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36,}\b|\bsk-[A-Za-z0-9_-]{20,}|\bxox[baprs]-[\w-]{10,}"
    r"|\bglpat-[\w-]{20,}|\bAIza[\w-]{35}\b"
)
_ASSIGNED = re.compile(
    r"(?:passw(?:or)?d|passphrase|secret|api_?key|access_?key|auth_?token|token)\w{0,40}['\"]?\s{0,20}[:=]{1,2}>?\s{0,20}"
    r"['\"](?P<value>[^'\"\s]{6,})['\"]",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    r"^(?:\$|\{|<|%|x{3,}|\*{3,}|\.{3,}|your|example|change|dummy|fake|placeholder|redacted|none|null|true|false"
    r"|env[.:]|process\.|os\.|\(\?|[a-z]{3,6}://(?!\S*:\S*@))",
    re.IGNORECASE,
)


def check_lines(file: ChangedFile, *, size: int | None = None) -> Iterator[Finding]:
    """Every remark on one changed file."""
    if file.is_binary and not file.is_deleted:
        yield from _binary(file, size)
    if not file.is_text:
        return
    kind = PurePosixPath(file.path).suffix.lower()
    yield from _merge_markers(file)
    for number, text in file.added_lines:
        bare = text.removesuffix("\r")
        yield from _credentials(file, number, bare)
        yield from _debugging(file, number, bare, kind)
        yield from _manners(file, number, bare, kind)
    yield from _line_ends(file)
    if file.lacks_final_newline and file.added_lines:
        last = file.added_lines[-1][0]
        yield _finding(file, last, "info", "no-final-newline", "The file ends without a newline.")


def _finding(file: ChangedFile, line: int, severity: Severity, rule: str, message: str) -> Finding:
    return Finding(file.path, line, severity, rule, message, CRITIC)


def _binary(file: ChangedFile, size: int | None) -> Iterator[Finding]:
    if size is not None and size > BINARY_BYTES_MAX:
        message = f"A binary file of {size:,} bytes; every clone will carry it forever."
        yield _finding(file, 0, "warning", "large-binary", message)
    elif file.is_new and PurePosixPath(file.path).suffix.lower() not in _BINARY_BY_NATURE:
        yield _finding(file, 0, "info", "binary", "A binary file is added; its content was not reviewed.")


def _merge_markers(file: ChangedFile) -> Iterator[Finding]:
    """One remark for each conflict, at its first marker: a row of equals signs alone underlines headings."""
    ends = [(number, text[0]) for number, text in file.added_lines if _MARKER_START.match(text)]
    for (number, mark), (_, before) in zip(ends, [(0, ">"), *ends], strict=False):
        if mark != "<" and before != ">":
            continue  # the conflict's own end
        yield _finding(file, number, "error", "merge-conflict", "A merge conflict marker was left in.")


def _credentials(file: ChangedFile, number: int, text: str) -> Iterator[Finding]:
    if has_credential(text):
        message = "This looks like a credential in the code; move it out, and revoke it."
        yield _finding(file, number, "error", CREDENTIAL, message)


def is_known_key(text: str) -> bool:
    """True when a line holds a key of a form that nothing else has."""
    return bool(_KEY_BLOCK.search(text) or _KNOWN_KEY.search(text))


def has_credential(text: str) -> bool:
    """True when a line seems to hold a secret that is not a placeholder."""
    if is_known_key(text):
        return True
    found = [*_URL_CREDENTIAL.finditer(text), *_ASSIGNED.finditer(text)]
    return any(not _PLACEHOLDER.match(match["value"]) for match in found)


def _debugging(file: ChangedFile, number: int, text: str, kind: str) -> Iterator[Finding]:
    code = text.strip()
    for pattern, (kinds, severity) in _DEBUGGING.items():
        if kind in kinds.split() and pattern.match(code):
            yield _finding(file, number, severity, "debugging", "This looks like leftover debugging.")
            return


def _manners(file: ChangedFile, number: int, text: str, kind: str) -> Iterator[Finding]:
    if kind not in _PROSE and (task := _TODO.search(text)) and not _OCCASION.search(text, task.end()):
        yield _finding(file, number, "info", "todo", "A task is noted without an owner or a ticket.")
    if text != text.rstrip() and kind not in _KEEPS_TRAILING:
        yield _finding(file, number, "info", "trailing-space", "Trailing whitespace.")
    if len(text) > LINE_CHARS_MAX and kind in _CODE and "://" not in text:
        message = f"The line has {len(text)} characters; past {LINE_CHARS_MAX} nobody reads them."
        yield _finding(file, number, "info", "long-line", message)


def _line_ends(file: ChangedFile) -> Iterator[Finding]:
    """Both kinds of line ends in one file, by this change: said once, where CRLF begins."""
    visible = [line for hunk in file.hunks for line in hunk.lines if line.kind != "-"]
    with_crlf = [line for line in visible if line.text.endswith("\r")]
    added = [line.new_no for line in with_crlf if line.kind == "+"]
    if added and added[0] is not None and len(with_crlf) < len(visible):
        message = "CRLF and LF line ends are mixed in this file."
        yield _finding(file, added[0], "warning", "mixed-line-ends", message)
