"""Which repositories may be fetched: local paths under given roots, remote addresses by scheme and host.

Credentials in an address never reach a command line: they travel as a header for that host alone.
"""

from __future__ import annotations

import base64
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from holdfast import CallError, Category
from holdfast.providers.outbound import is_public


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


_SCP_LIKE = re.compile(r"(?P<user>[\w.-]+@)?(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*):(?P<path>(?!//)[^:].*)")


def parse_remote(repo: str, policy: GitPolicy) -> Remote | None:
    """The remote that `repo` names, or None for a local path. Refuses what the policy does not allow."""
    if "::" in repo.partition("/")[0]:
        raise _refused("remote helpers ('name::address') are not allowed")
    if "://" in repo:
        return _from_url(repo, policy)
    scp = _SCP_LIKE.fullmatch(repo)
    if scp is None or os.path.exists(repo):
        return None
    url = f"ssh://{scp['user'] or ''}{scp['host']}/{scp['path'].lstrip('/')}"
    return _from_url(url, policy, as_given=repo)


def _from_url(url: str, policy: GitPolicy, as_given: str | None = None) -> Remote:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise CallError.of(Category.VALIDATION, "REPOSITORY_INVALID", "The address is no URL.") from error
    if parts.scheme not in policy.remote_schemes:
        raise _refused(f"the scheme '{parts.scheme}' is not one of {', '.join(policy.remote_schemes)}")
    if host.startswith("-") or re.search(r"[\s\x00-\x1f\x7f]", url):
        raise _refused("it holds characters that have no place in an address")
    checked = parts.scheme != "file" and not policy.allow_private_hosts
    addresses = _public_addresses(host) if checked else []
    if parts.scheme not in ("http", "https"):
        return Remote(as_given or url)
    where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    settings = {}
    if addresses:  # git must connect to the very address that was checked
        settings["http.curloptResolve"] = f"{host}:{port or _PORTS[parts.scheme]}:{','.join(addresses)}"
    if parts.username is not None:
        settings[f"http.{where}/.extraHeader"] = _basic(parts.username, parts.password or "")
    return Remote(f"{where}{parts.path}", settings)


_PORTS = {"http": 80, "https": 443}


def _basic(user: str, password: str) -> str:
    secret = base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
    return f"Authorization: Basic {secret}"


def _public_addresses(host: str) -> list[str]:
    """The addresses of a host; refuses one inside our own network. A host without any fails in git."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
    if not all(is_public(address) for address in addresses):
        raise _refused(f"'{host}' has a private address")
    return addresses


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
