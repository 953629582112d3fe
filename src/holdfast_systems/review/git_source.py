"""Which repositories may be fetched: local paths under given roots, remote addresses by scheme and host.

Credentials in an address never reach a command line: they travel as a header for that host alone.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from holdfast import CallError, Category
from holdfast.providers.gate import PORTS, AddressRules, Destination, Resolver, find_way, refused


@dataclass(frozen=True, slots=True)
class GitPolicy:
    """`local_roots`: None allows every local path (a person at a terminal), () allows none."""

    local_roots: tuple[str, ...] | None = None
    remote_schemes: tuple[str, ...] = ("https", "ssh")
    private_hosts: frozenset[str] = frozenset()
    allow_private_hosts: bool = False


@dataclass(frozen=True, slots=True)
class Remote:
    """A remote repository: an address without secrets, the one protocol it is read by, and the settings that carry the
    secrets."""

    url: str
    protocol: str
    settings: Mapping[str, str] = field(default_factory=dict)


_SCP_LIKE = re.compile(r"(?:(?P<user>[\w.-]+)@)?(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*):(?P<path>(?!//)[^:].*)")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
# The configuration, the proxies and the forwardings of whoever runs the worker are not the caller's to use.
_SSH = (
    "ssh -F /dev/null -oBatchMode=yes -oProxyCommand=none -oProxyJump=none -oClearAllForwardings=yes"
    " -oPermitLocalCommand=no"
)


async def parse_remote(repo: str, policy: GitPolicy, *, resolver: Resolver | None = None) -> Remote | None:
    """The remote that `repo` names, or None for a local path. Refuses what the policy does not allow.

    git and ssh read addresses in their own ways, so neither is given what the user wrote: the address is written anew
    from the parts that the gate read, and the connection is pinned to the addresses that it checked."""
    if "::" in repo.partition("/")[0]:
        raise refused("remote helpers ('name::address') are not taken")
    if "://" not in repo:
        scp = _SCP_LIKE.fullmatch(repo)
        if scp is None or await asyncio.to_thread(os.path.exists, repo):
            return None
        repo = f"ssh://{scp['user'] + '@' if scp['user'] else ''}{scp['host']}/{scp['path'].lstrip('/')}"
    if repo.startswith("file://") and "file" in policy.remote_schemes:
        return Remote(repo, "file")
    schemes = frozenset(policy.remote_schemes) & set(PORTS)
    rules = AddressRules(schemes, policy.private_hosts, policy.allow_private_hosts, userinfo=True)
    way = await find_way(repo, rules, resolver=resolver)
    return _over_ssh(way) if way.location.scheme == "ssh" else _over_http(way)


def _over_http(way: Destination) -> Remote:
    there = way.location
    if there.rest.partition("?")[1]:
        raise refused("a repository's address has no query")
    settings: dict[str, str] = {}
    if way.addresses != (there.host,):  # a host that is its own address is looked up by nobody
        addresses = ",".join(f"[{address}]" if ":" in address else address for address in way.addresses)
        settings["http.curloptResolve"] = f"{there.host}:{there.port}:{addresses}"
    if there.userinfo is not None:
        user, _, password = there.userinfo.partition(":")
        settings[f"http.{there.scheme}://{there.netloc}/.extraHeader"] = _basic(user, password)
    return Remote(there.url, there.scheme, settings)


def _over_ssh(way: Destination) -> Remote:
    there = way.location
    if there.userinfo is not None and _USER.fullmatch(there.userinfo) is None:
        raise refused("its user is not a plain name (ssh takes no password from an address)")
    if not there.rest.isascii() or any(char in there.rest for char in "?'$;&()*!~%"):
        raise refused("its path holds characters that a shell at the other end could read")
    # The host's key is looked up by its name; the connection goes to the address that was checked.
    command = f"{_SSH} -oHostName={way.addresses[0]} -oHostKeyAlias={there.host}"
    user = f"{there.userinfo}@" if there.userinfo else ""
    return Remote(f"ssh://{user}{there.netloc}{there.rest}", "ssh", {"core.sshCommand": command})


def _basic(user: str, password: str) -> str:
    secret = base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
    return f"Authorization: Basic {secret}"


def check_local(repo: str, policy: GitPolicy) -> str:
    """The real path of a local repository that may be read."""
    path = os.path.realpath(repo.replace("\0", "/"))
    if not _is_allowed(path, policy):
        raise _refused("it lies outside the allowed directories")
    if not os.path.isdir(path):
        name = os.path.basename(path)
        shown = "" if re.search("[@?#]", name) else f" '{name}'"  # a mistyped address may carry credentials
        message = f"There is no directory{shown} to read a repository from."
        raise CallError.of(Category.NOT_FOUND, "REPOSITORY_NOT_FOUND", message)
    return path


def check_objects(objects: str, policy: GitPolicy) -> None:
    """Refuse a repository whose objects, or those it borrows, lie outside the allowed directories. A folder that was
    committed somewhere may pass for a repository, and name or link any other one."""
    if policy.local_roots is None:
        return
    pending, seen = [objects], set[str]()
    while pending:
        folder = os.path.realpath(pending.pop())
        links = (path for path in _entries(folder) if os.path.islink(path))
        if not _is_allowed(folder, policy) or not all(_is_allowed(os.path.realpath(link), policy) for link in links):
            raise _refused("its objects lie outside the allowed directories")
        seen.add(folder)
        pending += [path for path in _alternates(folder) if os.path.realpath(path) not in seen]


def _entries(folder: str) -> Iterator[str]:
    for parent, folders, files in os.walk(folder):
        yield from (os.path.join(parent, name) for name in (*folders, *files))


def _alternates(objects: str) -> list[str]:
    try:
        with open(os.path.join(objects, "info", "alternates"), encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read(65_536).splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []
    if any(line.startswith('"') for line in lines):
        raise _refused("it borrows objects by a quoted path")
    return [os.path.join(objects, line) for line in lines if line and not line.startswith("#")]


def _is_allowed(path: str, policy: GitPolicy) -> bool:
    roots = policy.local_roots
    return roots is None or any(_is_under(path, os.path.realpath(root)) for root in roots)


def _is_under(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _refused(reason: str) -> CallError:
    return CallError.of(Category.POLICY, "REPOSITORY_REFUSED", f"This repository is not allowed: {reason}.")
