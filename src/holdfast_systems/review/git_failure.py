"""Reads git's complaints. git has one exit code for nearly everything, so its words decide.

The locale is fixed to C where git is called; the words are stable across many releases.
"""

from __future__ import annotations

import re

from holdfast import CallError, Category
from holdfast.kit.redaction import redact_text

_KNOWN: tuple[tuple[str, Category, str, str], ...] = (
    (
        r"dubious ownership|safe\.directory",
        Category.AUTH,
        "REPOSITORY_NOT_OWNED",
        "The repository belongs to another user; run as its owner, or clone it.",
    ),
    (
        r"unknown revision|bad revision|ambiguous argument|Needed a single revision|bad object"
        r"|not a valid object",
        Category.NOT_FOUND,
        "REVISION_NOT_FOUND",
        "The repository has no such revision.",
    ),
    (
        r"Authentication failed|could not read Username|Permission denied|terminal prompts disabled"
        r"|Host key verification failed|error: 40[13]\b",
        Category.AUTH,
        "REPOSITORY_DENIED",
        "The repository's host refused us; check the credentials.",
    ),
    (
        r"transport '.*' not allowed",
        Category.POLICY,
        "REPOSITORY_REFUSED",
        "This kind of repository address is not allowed.",
    ),
    (
        r"Could not resolve host|Connection refused|Connection timed out|Connection reset|Failed to connect"
        r"|unable to connect|early EOF|RPC failed|Network is unreachable|error: 5\d\d\b|hung up unexpectedly"
        r"|unable to connect to cache daemon|Operation timed out|ssh: connect to host|Connection closed by"
        r"|Empty reply from server|transfer closed|TLS connection was|SSL_ERROR_SYSCALL|Recv failure|Send failure"
        r"|error: (?:408|425|429)\b",
        Category.NETWORK,
        "REPOSITORY_UNREACHABLE",
        "The repository's host cannot be reached.",
    ),
    (
        r"not a git repository|does not appear to be a git repository|[Rr]epository .*not found"
        r"|error: 404\b|does not exist",
        Category.NOT_FOUND,
        "REPOSITORY_NOT_FOUND",
        "There is no git repository at this address.",
    ),
    (
        # What git says when a limit of a file's size or of memory, under which we run it, ends a part of it.
        r"invalid index-pack output|died of signal 25|File too large|[Oo]ut of memory|Cannot allocate memory",
        Category.VALIDATION,
        "REPOSITORY_TOO_LARGE",
        "The repository is larger than what is cloned here, or damaged; give the change as a diff.",
    ),
    (
        r"missing blob|lazy fetching disabled|unable to read [0-9a-f]{40}|object file .* is empty|is corrupt",
        Category.NOT_FOUND,
        "REPOSITORY_INCOMPLETE",
        "The repository lacks objects of this range (a shallow, partial or damaged clone).",
    ),
)


def git_failure(stderr: str, *, with_words: bool = True) -> CallError:
    """The failure behind what git said. Its own words follow ours, with secrets removed; those about a stranger's host
    are left out, for they tell what answered there."""
    words = f" {_said(stderr)}".rstrip() if with_words else ""
    for pattern, category, error_class, sentence in _KNOWN:
        if re.search(pattern, stderr):
            network = category is Category.NETWORK
            return CallError.of(category, error_class, f"{sentence}{words}", faults=network)
    return CallError.of(Category.BUG, "GIT_FAILED", f"git cannot read this repository; try `git clone` of it.{words}")


def _said(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if re.match(r"\s*(fatal|error|remote):", line)]
    return redact_text(" ".join(lines)[:500])
