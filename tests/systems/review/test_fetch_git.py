"""Fetching a git range, from repositories that may mean harm."""

import base64
import os
import select
import sys
import time
from pathlib import Path

import pytest

from holdfast.core.failure import Category
from holdfast.errors import CallError
from holdfast_systems.review.changelist import parse_diff
from holdfast_systems.review.command import run
from holdfast_systems.review.fetch_git import fetch_range
from holdfast_systems.review.git_failure import git_failure
from holdfast_systems.review.git_source import GitPolicy, parse_remote
from tests.systems.review.git_repo import Repo

pytestmark = [pytest.mark.spec("R8"), pytest.mark.slow]  # programs are started

FILE_ALLOWED = GitPolicy(remote_schemes=("https", "file"))


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo(tmp_path / "repo")
    repo.commit("Start", {"a.py": "one\ntwo\n", "old.txt": "some text\n" * 20})
    return repo


async def failure_of(repo: str, rev_range: str, policy: GitPolicy | None = None) -> tuple[Category, str]:
    with pytest.raises(CallError) as caught:
        await fetch_range(repo, rev_range, timeout_s=30, policy=policy)
    return caught.value.failure.category, caught.value.failure.error_class


async def test_a_range_gives_diff_title_author_and_new_contents(repo: Repo) -> None:
    repo.git("mv", "old.txt", "new.txt")
    repo.commit(
        "Change: two things",
        {"a.py": "one\nTWO\n", "größe b.sh": "echo hi\n", "pic.bin": b"\0\1" * 300, "latin.txt": b"caf\xe9\n"},
    )
    fetched = await fetch_range(str(repo.path), "HEAD~1..HEAD", timeout_s=30)
    assert (fetched.title, fetched.author) == ("Change: two things", "Ada <ada@example.test>")
    files = {file.path: file for file in parse_diff(fetched.diff).files}
    assert set(files) == {"a.py", "new.txt", "größe b.sh", "pic.bin", "latin.txt"}
    assert files["a.py"].added_lines == ((2, "TWO"),)
    assert files["new.txt"].old_path == "old.txt" and files["pic.bin"].is_binary
    assert fetched.contents["a.py"] == "one\nTWO\n" and fetched.contents["größe b.sh"] == "echo hi\n"
    assert fetched.contents["latin.txt"] == "caf\ufffd\n" and "pic.bin" not in fetched.contents
    assert fetched.sizes["pic.bin"] == 600


async def test_the_forms_of_a_range(repo: Repo) -> None:
    repo.git("checkout", "--quiet", "-b", "topic")
    repo.commit("Topic", {"topic.py": "t\n"})
    repo.git("checkout", "--quiet", "main")
    repo.commit("Main", {"main.py": "m\n"})

    async def paths(rev_range: str) -> set[str]:
        fetched = await fetch_range(str(repo.path), rev_range, timeout_s=30)
        return {file.path for file in parse_diff(fetched.diff).files}

    assert await paths("main..topic") == {"main.py", "topic.py"}
    assert await paths("main...topic") == {"topic.py"}
    assert await paths("topic") == {"topic.py"}
    assert await paths("HEAD^..") == {"main.py"}
    assert await paths("main~1") == {"a.py", "old.txt"}  # the first commit, against nothing
    assert await paths("main..main") == set()


async def test_a_remote_is_cloned_and_nothing_is_left_behind(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.commit("Second", {"a.py": "one\nTWO\n"})
    fetched = await fetch_range(f"file://{repo.path}", "main~1..main", timeout_s=30, policy=FILE_ALLOWED)
    assert parse_diff(fetched.diff).files[0].added_lines == ((2, "TWO"),)
    assert fetched.contents == {"a.py": "one\nTWO\n"}
    assert (await failure_of(f"file://{repo.path}", "gone", FILE_ALLOWED))[1] == "REVISION_NOT_FOUND"
    assert list(scratch.iterdir()) == []


async def test_a_hostile_repository_runs_nothing_and_hides_nothing(repo: Repo, tmp_path: Path) -> None:
    proof = tmp_path / "ran"
    script = tmp_path / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch {proof}\n")
    script.chmod(0o755)
    repo.commit("Hide", {".gitattributes": "*.py binary diff=evil\n", "a.py": "one\nevil()\n"})
    for key in (
        "diff.evil.textconv", "diff.evil.command", "diff.external", "core.fsmonitor", "core.pager",
        "core.sshCommand", "core.askPass", "credential.helper", "pager.diff-tree", "gpg.program",
    ):  # fmt: skip
        repo.git("config", key, str(script))
    repo.git("config", "log.showSignature", "true")
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        (hooks / name).symlink_to(script)
    repo.git("config", "core.hooksPath", str(hooks))
    info = repo.path / ".git" / "info"
    info.mkdir(exist_ok=True)
    (info / "attributes").write_text("*.py binary\n")
    proof.unlink(missing_ok=True)
    for place, policy in ((str(repo.path), None), (f"file://{repo.path}", FILE_ALLOWED)):
        fetched = await fetch_range(place, "HEAD", timeout_s=30, policy=policy)
        files = {file.path: file for file in parse_diff(fetched.diff).files}
        assert files["a.py"].added_lines == ((2, "evil()"),)
    assert not proof.exists()


async def test_fetching_writes_nothing_into_the_repository(repo: Repo) -> None:
    repo.commit("Second", {"a.py": "one\nTWO\n"})

    def state() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in repo.path.rglob("*")}

    before = state()
    await fetch_range(str(repo.path), "HEAD", timeout_s=30)
    assert state() == before


async def test_bad_revisions_and_places_are_told_apart(repo: Repo, tmp_path: Path) -> None:
    path = str(repo.path)
    assert await failure_of(path, "nosuch..HEAD") == (Category.NOT_FOUND, "REVISION_NOT_FOUND")
    assert await failure_of(path, "f" * 40) == (Category.NOT_FOUND, "REVISION_NOT_FOUND")
    assert await failure_of(str(tmp_path), "HEAD") == (Category.NOT_FOUND, "REPOSITORY_NOT_FOUND")
    assert await failure_of(str(tmp_path / "none"), "HEAD") == (Category.NOT_FOUND, "REPOSITORY_NOT_FOUND")
    missing = f"file://{tmp_path}/none"
    assert await failure_of(missing, "HEAD", FILE_ALLOWED) == (Category.NOT_FOUND, "REPOSITORY_NOT_FOUND")


@pytest.mark.parametrize(
    "rev_range",
    ["--output=/tmp/x", "-p..HEAD", "HEAD..--all", "", "a b", "HEAD:a.py", ":/fix", "a..b..c", "x\0y", "HEAD\n"],
)
async def test_nothing_like_an_option_or_a_search_is_a_revision(repo: Repo, rev_range: str) -> None:
    if rev_range == "":
        assert (await failure_of(str(repo.path), rev_range))[0] is Category.VALIDATION
        return
    category, error_class = await failure_of(str(repo.path), rev_range)
    assert (category, error_class) == (Category.VALIDATION, "REVISION_INVALID")


@pytest.mark.parametrize(
    "address",
    [
        "ext::sh -c 'touch /tmp/x'", "fd::7", "file:///etc", "http://example.test/x", "git://example.test/x",
        "https://127.0.0.1/x", "https://[::1]/x", "https://169.254.169.254/x", "ssh://-oProxyCommand=x/y",
        "https://localhost/x", "git@127.0.0.1:x/y.git",
    ],
)  # fmt: skip
async def test_addresses_outside_the_policy_are_refused(address: str) -> None:
    assert await failure_of(address, "HEAD") == (Category.POLICY, "ADDRESS_REFUSED")


async def test_local_roots_fail_closed(repo: Repo, tmp_path: Path) -> None:
    outside = GitPolicy(local_roots=(str(tmp_path / "other"),))
    assert (await failure_of(str(repo.path), "HEAD", outside))[1] == "REPOSITORY_REFUSED"
    link = tmp_path / "other" / "link"
    link.parent.mkdir()
    link.symlink_to(repo.path)
    assert (await failure_of(str(link), "HEAD", outside))[1] == "REPOSITORY_REFUSED"
    assert (await failure_of(str(repo.path), "HEAD", GitPolicy(local_roots=())))[1] == "REPOSITORY_REFUSED"
    inside = repo.path / "sub"
    inside.mkdir()
    above = await failure_of(str(inside), "HEAD", GitPolicy(local_roots=(str(inside),)))
    assert above[1] == "REPOSITORY_NOT_FOUND"
    await fetch_range(str(repo.path), "HEAD", timeout_s=30, policy=GitPolicy(local_roots=(str(tmp_path),)))


@pytest.mark.may_skip("root")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
async def test_a_repository_of_another_user_is_refused_in_plain_words(repo: Repo) -> None:
    for path in (repo.path, repo.path / ".git"):
        os.chown(path, 65_534, 65_534)
    assert await failure_of(str(repo.path), "HEAD") == (Category.AUTH, "REPOSITORY_NOT_OWNED")


async def test_credentials_of_an_address_leave_it_for_a_header_of_that_host() -> None:
    async def found(host: str, port: int) -> list[str]:
        return ["8.8.8.8", "2606:4700::1111"]

    remote = await parse_remote("https://ada:s3cr%40t@git.example:8443/x.git", GitPolicy(), resolver=found)
    assert remote is not None and remote.url == "https://git.example:8443/x.git"
    assert remote.settings["http.curloptResolve"] == "git.example:8443:8.8.8.8,[2606:4700::1111]"
    header = remote.settings["http.https://git.example:8443/.extraHeader"]
    assert header == "Authorization: Basic " + base64.b64encode(b"ada:s3cr@t").decode()
    assert await parse_remote("plain/path", GitPolicy()) is None


async def test_ssh_is_pinned_and_reads_no_configuration() -> None:
    async def found(host: str, port: int) -> list[str]:
        return ["8.8.8.8"]

    remote = await parse_remote("git@git.example:team/x.git", GitPolicy(), resolver=found)
    assert remote is not None and remote.url == "ssh://git@git.example/team/x.git"
    command = remote.settings["core.sshCommand"]
    assert "-oHostName=8.8.8.8 -oHostKeyAlias=git.example" in command and "-F /dev/null" in command
    for path in ("/x;touch y", "/x$(id)", "/'x'", "/~root/x"):
        with pytest.raises(CallError) as caught:
            await parse_remote(f"ssh://git@git.example{path}", GitPolicy(), resolver=found)
        assert caught.value.failure.error_class == "ADDRESS_REFUSED"


async def test_an_unreachable_host_is_transient() -> None:
    policy = GitPolicy(remote_schemes=("http",), allow_private_hosts=True)
    assert await failure_of("http://127.0.0.1:9/x.git", "HEAD", policy) == (
        Category.NETWORK,
        "REPOSITORY_UNREACHABLE",
    )


@pytest.mark.parametrize(
    "words",
    [
        "ssh: connect to host 192.0.2.7 port 22: No route to host",
        "kex_exchange_identification: Connection closed by remote host",
        "fatal: unable to access 'https://h/r/': The requested URL returned error: 408",
        "fatal: unable to access 'https://h/r/': The requested URL returned error: 429",
        "fatal: unable to access 'https://h/r/': Empty reply from server",
        "fatal: unable to access 'https://h/r/': transfer closed with 470 bytes remaining to read",
        "fatal: unable to access 'h': gnutls_handshake() failed: The TLS connection was non-properly terminated.",
    ],
)
def test_a_host_that_breaks_off_or_asks_for_patience_is_tried_again(words: str) -> None:
    failure = git_failure(words, with_words=False).failure
    assert (failure.error_class, failure.retryable) == ("REPOSITORY_UNREACHABLE", True)
    assert not git_failure("fatal: unable to access 'https://h/r/': error: 410").failure.retryable


async def test_a_timeout_kills_the_whole_process_group(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"sleep 60 & echo $! > {pid_file}.tmp; mv {pid_file}.tmp {pid_file}; wait"
    started = time.monotonic()
    with pytest.raises(CallError) as caught:
        await run(("sh", "-c", script), timeout_s=1.0, env={"PATH": os.environ["PATH"]})
    assert caught.value.failure.error_class == "COMMAND_TIMEOUT" and caught.value.failure.retryable
    assert time.monotonic() - started < 20
    assert _has_ended(int(pid_file.read_text()))
    with pytest.raises(CallError) as caught:
        await run(("yes",), timeout_s=20, env={"PATH": os.environ["PATH"]}, stdout_bytes_max=1_000)
    assert caught.value.failure.error_class == "COMMAND_OUTPUT_TOO_LARGE"
    with pytest.raises(CallError) as caught:
        await run(("no-such-program",), timeout_s=20, env={"PATH": os.environ["PATH"]})
    assert caught.value.failure.error_class == "COMMAND_MISSING"


@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process are Linux's own")
async def test_a_program_has_no_more_memory_than_its_limit() -> None:
    code = "input(); bytearray(200 << 20)"  # it goes on when the limit is set
    ran = await run((sys.executable, "-I", "-c", code), timeout_s=60, env={}, stdin=b"go\n", memory_bytes_max=100 << 20)
    assert ran.code == 1 and "MemoryError" in ran.stderr


def _has_ended(pid: int) -> bool:
    """True once the process is dead, waiting a little for the kernel."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], 10)[0])
    finally:
        os.close(handle)
