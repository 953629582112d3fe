"""Repositories made to harm: a local one runs nothing and shows no other, a remote leads nowhere and is not quoted."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.systems.review.git_repo import Repo

from holdfast.errors import CallError
from holdfast.settings import read
from holdfast_systems.review import fetch_git
from holdfast_systems.review.fetch_git import fetch_range
from holdfast_systems.review.git_source import GitPolicy, parse_remote
from holdfast_systems.review.settings import ReviewSettings

pytestmark = pytest.mark.spec("K30")
SECRET = "what-only-the-other-repository-has"
HERE = GitPolicy(remote_schemes=("http",), private_hosts=frozenset({"127.0.0.1", "::1"}))


async def failure_of(repo: str, rev_range: str = "HEAD", policy: GitPolicy | None = None) -> CallError:
    with pytest.raises(CallError) as caught:
        await fetch_range(repo, rev_range, timeout_s=20, policy=policy)
    return caught.value


# Configs by which git would start a program as soon as it misses an object.
PROMISORS = {
    "a command": ("ext::sh -c touch% {proof}", {"protocol.ext.allow": "always", "protocol.allow": "always"}),
    "an ssh command": ("ssh://host/x", {"core.sshCommand": "touch {proof} #", "protocol.ssh.allow": "always"}),
    "an upload-pack": (
        "file://{folder}",
        {"remote.origin.uploadpack": "touch {proof} #", "protocol.file.allow": "always"},
    ),
    "a helper": ("x", {"remote.origin.vcs": "ext", "protocol.ext.allow": "always"}),
    "another name": ("safe:x", {"url.ext::sh -c touch% {proof};.insteadOf": "safe:", "protocol.ext.allow": "always"}),
}


@pytest.mark.parametrize("way", PROMISORS)
async def test_a_local_repository_that_misses_an_object_starts_no_program(way: str, tmp_path: Path) -> None:
    repo, proof = Repo(tmp_path / "r"), tmp_path / "proof"
    repo.commit("One", {"a.py": "one\n"})
    url, settings = PROMISORS[way]
    settings = {**settings, "core.repositoryformatversion": "1", "extensions.partialClone": "origin"}
    for name, value in {**settings, "remote.origin.promisor": "true", "remote.origin.url": url}.items():
        told = {"proof": str(proof), "folder": str(tmp_path / "r")}
        repo.git("config", name.format(**told), value.format(**told))
    for rev_range in ("1" * 40, "HEAD.." + "2" * 40, "HEAD..." + "3" * 40):
        failure = (await failure_of(str(repo.path), rev_range)).failure
        assert failure.error_class in ("REPOSITORY_INCOMPLETE", "REPOSITORY_REFUSED", "REVISION_NOT_FOUND")
    assert not proof.exists()


def _commondir(evil: Path, other: Path) -> None:
    evil.mkdir()
    (evil / "HEAD").write_text("ref: refs/heads/main\n")
    (evil / "commondir").write_text(f"{other}/.git\n")


def _gitdir(evil: Path, other: Path) -> None:
    evil.mkdir()
    (evil / ".git").write_text(f"gitdir: {other}/.git\n")


def _linked_objects(evil: Path, other: Path) -> None:
    shutil.copytree(other / ".git", evil)
    shutil.rmtree(evil / "objects")
    (evil / "objects").symlink_to(other / ".git" / "objects")


def _linked_packs(evil: Path, other: Path) -> None:
    subprocess.run(["git", "-C", str(other), "gc", "-q"], check=True)
    shutil.copytree(other / ".git", evil)
    shutil.rmtree(evil / "objects" / "pack")
    (evil / "objects" / "pack").symlink_to(other / ".git" / "objects" / "pack")


def _alternates(evil: Path, other: Path) -> None:
    shutil.copytree(other / ".git", evil)
    shutil.rmtree(evil / "objects")
    (evil / "objects" / "info").mkdir(parents=True)
    (evil / "empty").mkdir()
    (evil / "objects" / "info" / "alternates").write_text(f"# both\n{other}/.git/objects\n../empty\n")


def _quoted_alternates(evil: Path, other: Path) -> None:
    _alternates(evil, other)
    (evil / "objects" / "info" / "alternates").write_text(f'"{other}/.git/objects"\n')


@pytest.mark.parametrize(
    "disguise", [_commondir, _gitdir, _linked_objects, _linked_packs, _alternates, _quoted_alternates]
)
async def test_a_folder_that_passes_for_a_repository_shows_no_other(
    disguise: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    """A bare repository is only files: whoever may commit files somewhere can commit one."""
    other = Repo(tmp_path / "other")
    other.commit("Secret", {"a.py": f"{SECRET}\n"})
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    disguise(allowed / "evil", other.path)
    commit = other.git("rev-parse", "HEAD").strip()
    for rev_range in ("main", commit):
        error = await failure_of(str(allowed / "evil"), rev_range, GitPolicy(local_roots=(str(allowed),)))
        assert error.failure.error_class.startswith("REPOSITORY_") and SECRET not in str(error)


async def test_objects_that_are_borrowed_inside_the_allowed_folders_are_read(tmp_path: Path) -> None:
    other = Repo(tmp_path / "other")
    other.commit("Shared", {"a.py": "one\n"})
    _alternates(tmp_path / "borrower", other.path)
    fetched = await fetch_range(
        str(tmp_path / "borrower"), "main", timeout_s=20, policy=GitPolicy(local_roots=(str(tmp_path),))
    )
    assert fetched.title == "Shared"


@dataclass
class Site:
    """A web server of files, with answers of its own for some paths."""

    folder: Path
    replies: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(head)
        path = head.split()[1].partition("?")[0]
        reply = next((each for start, each in self.replies.items() if path.startswith(start)), None)
        file = self.folder / path.lstrip("/")
        if reply is None and file.is_file():
            body = file.read_bytes()
            reply = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body
        writer.write(reply or b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()


@asynccontextmanager
async def site(folder: Path, host: str = "127.0.0.1", **replies: bytes) -> AsyncIterator[Site]:
    place = Site(folder, {f"/{name}": reply for name, reply in replies.items()})
    server = await asyncio.start_server(place.serve, host, 0)
    place.port = server.sockets[0].getsockname()[1]
    try:
        yield place
    finally:
        server.close()


def redirect(to: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


def publish(repo: Repo, to: Path) -> None:
    """What a plain web server needs of a repository, without its objects."""
    subprocess.run(["git", "clone", "-q", "--bare", str(repo.path), str(to)], check=True)
    subprocess.run(["git", "-C", str(to), "update-server-info"], check=True)
    shutil.rmtree(to / "objects")
    (to / "objects" / "info").mkdir(parents=True)


async def test_a_remote_leads_to_no_other_host(tmp_path: Path) -> None:
    """Neither by a redirect, nor by a list of other places for its objects."""
    repo = Repo(tmp_path / "r")
    repo.commit("One", {"a.py": "one\n"})
    bare = tmp_path / "bare.git"
    publish(repo, bare)
    async with site(tmp_path) as inner, site(tmp_path) as outer:
        outer.replies["/moved"] = redirect(f"http://127.0.0.1:{inner.port}/bare.git")
        for name in ("http-alternates", "alternates"):
            (bare / "objects" / "info" / name).write_text(f"http://127.0.0.1:{inner.port}/objects\n")
        for path in ("bare.git", "moved"):
            error = await failure_of(f"http://127.0.0.1:{outer.port}/{path}", policy=HERE)
            assert not error.failure.retryable or error.failure.error_class == "REPOSITORY_UNREACHABLE"
        assert any("/objects/" in each for each in outer.asked) and inner.asked == []


async def test_an_error_repeats_nothing_that_the_host_answered(tmp_path: Path) -> None:
    said = (
        f"HTTP/1.1 403 {SECRET}\r\nContent-Type: text/plain\r\nContent-Length: {len(SECRET)}\r\n\r\n{SECRET}".encode()
    )
    pack = b"001e# service=git-upload-pack\n0000%04xERR %s" % (len(SECRET) + 8, SECRET.encode())
    kind = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n"
    told = kind + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(pack) + pack
    async with site(tmp_path, denied=said, odd=told) as outer:
        for path in ("denied", "odd", "missing"):
            error = await failure_of(f"http://127.0.0.1:{outer.port}/{path}", policy=HERE)
            assert SECRET not in str(error) and str(outer.port) not in str(error)
    assert len(outer.asked) >= 3


async def test_the_environment_lends_no_proxy_password_or_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proof = tmp_path / "proof"
    (tmp_path / ".netrc").write_text(f"machine 127.0.0.1 login ann password {SECRET}\n")
    (tmp_path / ".gitconfig").write_text(f"[credential]\n\thelper = !touch {proof}; echo password={SECRET}\n")
    async with site(tmp_path) as proxy, site(tmp_path) as outer:
        away = f"http://127.0.0.1:{proxy.port}"
        for name in ("http_proxy", "HTTPS_PROXY", "ALL_PROXY", "GIT_PROXY_COMMAND"):
            monkeypatch.setenv(name, away)
        for name in ("GIT_SSH_COMMAND", "GIT_SSH", "GIT_ASKPASS", "SSH_ASKPASS", "GIT_EXTERNAL_DIFF", "GIT_EXEC_PATH"):
            monkeypatch.setenv(name, f"touch {proof}")
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("GIT_CONFIG_PARAMETERS", f"'http.proxy'='{away}'")
        denied = (
            b'HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm="x"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'
        )
        outer.replies["/denied"] = denied
        for path in ("denied", "missing"):
            await failure_of(f"http://127.0.0.1:{outer.port}/{path}", policy=HERE)
        assert proxy.asked == [] and not proof.exists()
        assert outer.asked and not any("Authorization" in each for each in outer.asked)


@pytest.mark.may_skip("IPv6")
@pytest.mark.skipif(not os.path.exists("/proc/net/if_inet6"), reason="a machine without IPv6")
async def test_a_host_that_is_an_address_of_the_newer_kind_is_asked(tmp_path: Path) -> None:
    async with site(tmp_path, "::1") as outer:
        error = await failure_of(f"http://[::1]:{outer.port}/x", policy=HERE)
        assert error.failure.error_class == "REPOSITORY_NOT_FOUND" and outer.asked


async def test_a_clone_that_never_ends_fills_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = Repo(tmp_path / "r")
    repo.commit("Large", {"a.bin": os.urandom(400_000).hex()})
    monkeypatch.setattr(fetch_git, "FILE_BYTES_MAX", 100_000)
    away = GitPolicy(remote_schemes=("file",))
    assert (await failure_of(f"file://{repo.path}", policy=away)).failure.error_class == "REPOSITORY_TOO_LARGE"


async def test_a_private_host_is_let_through_by_its_name_alone() -> None:
    async def inner(host: str, port: int) -> list[str]:
        return ["10.0.0.7"]

    policy = read(ReviewSettings, {"REVIEW_PRIVATE_HOSTS": "git.intern"}).git_policy(trusted=False)
    remote = await parse_remote("https://git.intern/x", policy, resolver=inner)
    assert remote is not None and remote.settings["http.curloptResolve"] == "git.intern:443:10.0.0.7"
    with pytest.raises(CallError):
        await parse_remote("https://other.intern/x", policy, resolver=inner)
