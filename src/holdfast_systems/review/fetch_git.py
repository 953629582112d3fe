"""Fetches a range of a git repository, local or remote, without trusting the repository.

    A..B     what B has over A            A...B    what B has over the merge base of both
    REV      what that commit changed     an empty side is HEAD

A local repository is only asked to name commits (`rev-parse`, `merge-base`), with its dangerous settings
overridden. Everything that reads content runs in an empty repository of our own that borrows the objects
(alternates), so that the repository's configuration, hooks, attributes, replace refs, external diff and
textconv programs have no say: a `.gitattributes` that calls code binary hides nothing.

What git does not let us ignore: while naming commits it parses the repository's own config file (and files
that one includes); it can change which refs are found, it can start no program: git may fetch by no protocol
there, whatever the config says. A remote is cloned bare and partial into a directory that is removed
afterwards, by the one protocol of its address.
"""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast import CallError, Category
from holdfast_systems.review.changelist import DIFF_BYTES_MAX, SUBMODULE_MODE, SYMLINK_MODE, FetchedDiff
from holdfast_systems.review.command import Ran, run
from holdfast_systems.review.git_failure import git_failure
from holdfast_systems.review.git_source import GitPolicy, Remote, check_local, check_objects, parse_remote

CONTENT_BYTES_MAX = 1_000_000
CONTENTS_BYTES_MAX = 16_000_000
FILE_BYTES_MAX = 2 << 30
PINS_SINCE = (2, 37)

_SETTINGS: Mapping[str, str] = {
    "core.attributesFile": "/dev/null",
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "core.askPass": "true",
    "credential.helper": "",
    "http.followRedirects": "false",
    "submodule.recurse": "false",
}
_PASSED_ON = ("PATH", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR")
_EMPTY_TREES = {
    "sha1": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "sha256": "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}


@dataclass(frozen=True, slots=True)
class _Git:
    """How git is called: in which directory, with which settings, for how long at most."""

    directory: str
    timeout_s: float
    settings: Mapping[str, str]
    protocol: str = ""
    empty_tree: str = ""
    ceiling: str = ""

    async def __call__(self, *arguments: str, stdin: bytes = b"", stdout_bytes_max: int = 1_000_000) -> Ran:
        return await run(
            ("git", "--no-pager", "--no-replace-objects", *arguments),
            timeout_s=self.timeout_s,
            env=_environment(self.settings, self.protocol) | {"GIT_CEILING_DIRECTORIES": self.ceiling},
            cwd=self.directory,
            stdin=stdin,
            stdout_bytes_max=stdout_bytes_max,
            file_bytes_max=FILE_BYTES_MAX,
        )

    async def text(self, *arguments: str, stdout_bytes_max: int = 1_000_000) -> str:
        """The output of a call that must succeed."""
        ran = await self(*arguments, stdout_bytes_max=stdout_bytes_max)
        if ran.code != 0:
            raise self.failure(ran.stderr)
        return ran.stdout.decode("utf-8", "replace").strip("\n")

    def failure(self, stderr: str) -> CallError:
        """What went wrong. A remote's host has no say in the words."""
        return git_failure(stderr, with_words=not self.protocol)


def _environment(settings: Mapping[str, str], protocol: str) -> dict[str, str]:
    env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    env |= {
        "LC_ALL": "C.UTF-8",
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        # This list counts for more than any `protocol.*` of a repository's own config; without a remote it is empty.
        "GIT_ALLOW_PROTOCOL": protocol or "none",
        "GIT_NO_LAZY_FETCH": "0" if protocol else "1",
        "GIT_CONFIG_COUNT": str(len(settings)),
    }
    for index, (key, value) in enumerate(settings.items()):
        env[f"GIT_CONFIG_KEY_{index}"] = key
        env[f"GIT_CONFIG_VALUE_{index}"] = value
    return env


async def fetch_range(repo: str, rev_range: str, *, timeout_s: float, policy: GitPolicy | None = None) -> FetchedDiff:
    """The diff, title, author and new file contents of `rev_range` in `repo` (a path or a URL).

    Writes nothing into `repo`, and leaves nothing behind elsewhere. `timeout_s` bounds each git call.
    """
    allowed = policy or GitPolicy()
    ends = _parse_range(rev_range)
    with tempfile.TemporaryDirectory(prefix="holdfast-review-") as scratch:
        remote = await parse_remote(repo, allowed)
        if remote is not None:
            source = own = await _clone(remote, scratch, timeout_s)
        else:
            path = check_local(repo, allowed)
            # With allowed roots, a directory inside one must not lead to a repository above it.
            ceiling = os.path.dirname(path) if allowed.local_roots is not None else ""
            source = _Git(path, timeout_s, dict(_SETTINGS), ceiling=ceiling)
            own = await _borrow(source, scratch, allowed)
        old, new = await _resolve(source, ends, own.empty_tree)
        return await _read(own, old, new)


@dataclass(frozen=True, slots=True)
class _Ends:
    old: str | None
    new: str
    from_merge_base: bool = False


_REV = re.compile(r"[^\s\x00-\x1f\x7f:?*\[\\-][^\s\x00-\x1f\x7f:?*\[\\]{0,249}")


def _parse_range(rev_range: str) -> _Ends:
    """Split a range. Nothing that git could take for an option, a path or a search passes."""
    old: str | None
    for separator in ("...", ".."):
        if separator in rev_range:
            old, _, new = rev_range.partition(separator)
            ends = _Ends(old or "HEAD", new or "HEAD", separator == "...")
            break
    else:
        ends = _Ends(None, rev_range)
    for rev in (ends.old, ends.new):
        if rev is not None and (not _REV.fullmatch(rev) or ".." in rev):
            message = f"'{rev_range[:100]}' is no range of revisions; use A..B, A...B or one revision."
            raise CallError.of(Category.VALIDATION, "REVISION_INVALID", message)
    return ends


async def _clone(remote: Remote, scratch: str, timeout_s: float) -> _Git:
    """A bare partial clone: commits and trees now, the blobs of the diff when it is made."""
    git = _Git(scratch, timeout_s, {**_SETTINGS, **remote.settings}, remote.protocol)
    if "http.curloptResolve" in remote.settings:
        await _check_version(git)
    target = os.path.join(scratch, "clone.git")
    options = ("--quiet", "--bare", "--filter=blob:none", "--template=")
    await git.text("clone", *options, "--", remote.url, target)
    return await _ready(replace(git, directory=target))


async def _check_version(git: _Git) -> None:
    """An older git would ignore the pinned address, and look the host up by itself."""
    found = re.search(r"(\d+)\.(\d+)", await git.text("version"))
    if found is None or (int(found[1]), int(found[2])) < PINS_SINCE:
        message = f"Remote repositories over http need git {PINS_SINCE[0]}.{PINS_SINCE[1]} or newer here."
        raise CallError.of(Category.BUG, "GIT_TOO_OLD", message)


async def _borrow(source: _Git, scratch: str, policy: GitPolicy) -> _Git:
    """An empty repository of our own that sees the source's objects."""
    objects = await source.text("rev-parse", "--path-format=absolute", "--git-path", "objects")
    await asyncio.to_thread(check_objects, objects, policy)
    object_format = await source.text("rev-parse", "--show-object-format")
    own = os.path.join(scratch, "own.git")
    git = replace(source, directory=scratch)
    await git.text("init", "--quiet", "--bare", "--template=", f"--object-format={object_format}", "--", own)
    if "\n" in objects:
        message = "The repository's path has a newline in it; move it."
        raise CallError.of(Category.VALIDATION, "REPOSITORY_INVALID", message)
    alternates = Path(own, "objects", "info", "alternates")
    await asyncio.to_thread(alternates.write_text, f"{objects}\n", encoding="utf-8")
    return await _ready(replace(git, directory=own))


async def _ready(git: _Git) -> _Git:
    """The same git, told to take attributes from nowhere."""
    empty_tree = _EMPTY_TREES[await git.text("rev-parse", "--show-object-format")]
    return replace(git, settings={**git.settings, "attr.tree": empty_tree}, empty_tree=empty_tree)


async def _resolve(git: _Git, ends: _Ends, empty_tree: str) -> tuple[str, str]:
    """The commits (or the empty tree) to compare."""
    new = await _commit(git, ends.new)
    if ends.old is None:
        parents = (await git.text("rev-list", "--parents", "--max-count=1", new)).split()[1:]
        return (parents[0] if parents else empty_tree), new
    old = await _commit(git, ends.old)
    if ends.from_merge_base:
        ran = await git("merge-base", old, new)
        if ran.code != 0:
            message = f"'{ends.old}' and '{ends.new}' have no common ancestor."
            raise CallError.of(Category.NOT_FOUND, "REVISION_NOT_FOUND", message)
        old = ran.stdout.decode().split()[0]
    return old, new


async def _commit(git: _Git, rev: str) -> str:
    ran = await git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}")
    name = ran.stdout.decode("ascii", "replace").strip()
    if ran.code == 0 and re.fullmatch(r"[0-9a-f]{40,64}", name):
        return name
    if ran.stderr.strip():
        raise git.failure(ran.stderr)
    message = f"The repository has no commit '{rev}'; check its spelling, or fetch it first."
    raise CallError.of(Category.NOT_FOUND, "REVISION_NOT_FOUND", message)


_DIFF = ("-r", "--find-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--no-relative")
_PATCH = ("--patch", "--full-index", "--unified=3", "--src-prefix=a/", "--dst-prefix=b/", "--submodule=short")


async def _read(git: _Git, old: str, new: str) -> FetchedDiff:
    diff = await git("diff-tree", *_DIFF, *_PATCH, old, new, stdout_bytes_max=DIFF_BYTES_MAX * 2)
    if diff.code != 0:
        raise git.failure(diff.stderr)
    listing = ("--raw", "-z", "--no-abbrev")
    raw = await git.text("diff-tree", *_DIFF, *listing, old, new, stdout_bytes_max=8_000_000)
    blobs = _changed_blobs(raw)
    sizes = await _sizes(git, blobs)
    named = await git.text("log", "-1", "--no-mailmap", "--no-show-signature", "--format=%an <%ae>%n%s", new)
    author, _, title = named.partition("\n")
    return FetchedDiff(
        diff=diff.stdout.decode("utf-8", "replace"),
        title=title,
        author=author,
        contents=await _contents(git, blobs, sizes),
        sizes=sizes,
    )


def _changed_blobs(raw: str) -> dict[str, str]:
    """Path -> blob of the new side, for regular files. An entry is ':mode mode old new X', then its paths."""
    blobs: dict[str, str] = {}
    fields = iter(raw.split("\0"))
    for entry in fields:
        if not entry.startswith(":"):
            continue
        _, mode, _, blob, status = entry[1:].split()
        path = next(fields)
        if status[0] in "RC":
            path = next(fields)
        if status[0] != "D" and mode not in (SYMLINK_MODE, SUBMODULE_MODE):
            blobs[path] = blob
    return blobs


async def _sizes(git: _Git, blobs: Mapping[str, str]) -> dict[str, int]:
    if not blobs:
        return {}
    names = "".join(f"{blob}\n" for blob in blobs.values()).encode()
    ran = await git("cat-file", "--batch-check=%(objectsize)", "--buffer", stdin=names)
    if ran.code != 0:
        raise git.failure(ran.stderr)
    lines = ran.stdout.decode().splitlines()
    return {path: int(size) for path, size in zip(blobs, lines, strict=True) if size.isdigit()}


async def _contents(git: _Git, blobs: Mapping[str, str], sizes: Mapping[str, int]) -> dict[str, str]:
    """The text of the changed files, smallest first until the limit is reached."""
    wanted: list[str] = []
    total = 0
    for path in sorted(sizes, key=lambda path: (sizes[path], path)):
        total += sizes[path]
        if sizes[path] > CONTENT_BYTES_MAX or total > CONTENTS_BYTES_MAX:
            break
        wanted.append(path)
    names = "".join(f"{blobs[path]}\n" for path in wanted).encode()
    ran = await git("cat-file", "--batch", "--buffer", stdin=names, stdout_bytes_max=CONTENTS_BYTES_MAX * 2)
    contents: dict[str, str] = {}
    at = 0
    for path in wanted:
        start = ran.stdout.index(b"\n", at) + 1
        data = ran.stdout[start : start + sizes[path]]
        at = start + sizes[path] + 1
        if b"\0" not in data[:8_000]:
            contents[path] = data.decode("utf-8", "replace")
    return dict(sorted(contents.items()))
