"""Which repositories may be fetched: local paths under given roots, remote addresses by scheme and host.

Credentials in an address never reach a command line: they travel as a header for that host alone.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from holdfast import CallError, Category
from holdfast.providers.gate import PORTS, Destination, Resolver, Rules, find_way, refused


@dataclass(frozen=True, slots=True)
class GitPolicy:
    """`local_roots`: None allows every local path (a person at a terminal), () allows none."""

    local_roots: tuple[str, ...] | None = None
    remote_schemes: tuple[str, ...] = ("https", "ssh")
    allow_private_hosts: bool = False


@dataclass(frozen=True, slots=True)
class Remote:
    """A remote repository: an address without secrets, and the settings that carry them."""

    url: str
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
        return Remote(repo, {"protocol.file.allow": "always"})
    rules = Rules(frozenset(policy.remote_schemes) & set(PORTS), any_private=policy.allow_private_hosts, userinfo=True)
    way = await find_way(repo, rules, resolver=resolver)
    return _over_ssh(way) if way.location.scheme == "ssh" else _over_http(way)


def _over_http(way: Destination) -> Remote:
    there = way.location
    if there.rest.partition("?")[1]:
        raise refused("a repository's address has no query")
    addresses = ",".join(f"[{address}]" if ":" in address else address for address in way.addresses)
    settings = {
        f"protocol.{there.scheme}.allow": "always",
        "http.curloptResolve": f"{there.host}:{there.port}:{addresses}",
    }
    if there.userinfo is not None:
        user, _, password = there.userinfo.partition(":")
        settings[f"http.{there.scheme}://{there.netloc}/.extraHeader"] = _basic(user, password)
    return Remote(there.url, settings)


def _over_ssh(way: Destination) -> Remote:
    there = way.location
    if there.userinfo is not None and _USER.fullmatch(there.userinfo) is None:
        raise refused("its user is not a plain name (ssh takes no password from an address)")
    if not there.rest.isascii() or any(char in there.rest for char in "?'$;&()*!~%"):
        raise refused("its path holds characters that a shell at the other end could read")
    # The host's key is looked up by its name; the connection goes to the address that was checked.
    command = f"{_SSH} -oHostName={way.addresses[0]} -oHostKeyAlias={there.host}"
    user = f"{there.userinfo}@" if there.userinfo else ""
    return Remote(
        f"ssh://{user}{there.netloc}{there.rest}", {"protocol.ssh.allow": "always", "core.sshCommand": command}
    )


def _basic(user: str, password: str) -> str:
    secret = base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
    return f"Authorization: Basic {secret}"


def check_local(repo: str, policy: GitPolicy) -> str:
    """The real path of a local repository that may be read."""
    path = os.path.realpath(repo.replace("\0", "/"))
    roots = policy.local_roots
    if roots is not None and not any(_is_under(path, os.path.realpath(root)) for root in roots):
        raise _refused("it lies outside the allowed directories")
    if not os.path.isdir(path):
        message = f"There is no directory '{os.path.basename(path)}' to read a repository from."
        raise CallError.of(Category.NOT_FOUND, "REPOSITORY_NOT_FOUND", message)
    return path


def _is_under(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _refused(reason: str) -> CallError:
    return CallError.of(Category.POLICY, "REPOSITORY_REFUSED", f"This repository is not allowed: {reason}.")
