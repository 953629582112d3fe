"""The offline critic on real tools: what it finds, what it keeps silent about, what it admits."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from holdfast_systems.review.changelist import Changelist, parse_diff
from holdfast_systems.review.findings import Review
from holdfast_systems.review.offline_critic import review

pytestmark = [pytest.mark.spec("R8"), pytest.mark.slow]  # programs are started

KEY = "AKIA" + "Q3EGRVLSWD7NBX2M"


def added(path: str, text: str) -> str:
    """A diff that adds the whole file."""
    lines = text.split("\n")[:-1]
    body = "".join(f"+{line}\n" for line in lines)
    head = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
    return f"{head}@@ -0,0 +1,{len(lines)} @@\n{body}"


async def reviewed(*diffs: str, contents: dict[str, str] | None = None, **options: object) -> Review:
    return await review(parse_diff("".join(diffs)), contents or {}, timeout_s=60, **options)  # type: ignore[arg-type]


def rules(found: Review, path: str) -> set[tuple[int, str]]:
    return {(finding.line, finding.rule) for finding in found.findings if finding.path == path}


def not_run(found: Review) -> list[str]:
    return [finding.message for finding in found.findings if finding.rule == "not-run"]


async def test_python_shell_and_secrets_are_really_reviewed() -> None:
    python = "import os\n\n\ndef f(x=[]):\n    return undefined + eval(x)\n"
    shell = '#!/bin/sh\nrm -rf $1/*\nif [ $x == "a" ]; then echo hi; fi\n'
    found = await reviewed(
        added("src/a.py", python), added("run.sh", shell), added("conf.yml", f"key: {KEY}\n"), added("s.py", "def (:\n")
    )
    assert {(1, "F401"), (4, "B006"), (5, "F821"), (5, "S307")} <= rules(found, "src/a.py")
    assert {(2, "SC2086"), (3, "SC3014")} <= rules(found, "run.sh")
    assert rules(found, "conf.yml") == {(1, "secret")}
    assert (1, "invalid-syntax") in rules(found, "s.py")
    assert not_run(found) == []
    assert KEY not in repr(found)
    by_rule = {finding.rule: finding.severity for finding in found.findings}
    assert (by_rule["F821"], by_rule["F401"], by_rule["secret"]) == ("error", "warning", "error")


async def test_only_changed_lines_are_spoken_of() -> None:
    whole = "import os\nimport sys\nx = undefined_one\ny = undefined_two\n"
    diff = "--- a/a.py\n+++ b/a.py\n@@ -2,2 +2,3 @@\n import sys\n x = undefined_one\n+y = undefined_two\n"
    found = await reviewed(diff, contents={"a.py": whole})
    assert rules(found, "a.py") == {(4, "F821")}


async def test_a_diff_without_contents_is_scanned_for_secrets_and_says_that_linters_were_blind() -> None:
    start = 10**17  # a diff may give a line any number: nothing is as long as that
    diff = f"--- a/a.py\n+++ b/a.py\n@@ -40,1 +{start},2 @@\n import sys\n+token = '{KEY}'\n"
    found = await reviewed(diff)
    assert (start + 1, "secret") in rules(found, "a.py")
    assert not_run(found) == ["linters did not run: 1 changed source file came without full content."]


@pytest.mark.parametrize(
    ("path", "line", "rule"),
    [
        ("a.txt", "<<<<<<< HEAD", "merge-conflict"),
        ("a.py", "    breakpoint()", "debugging"),
        ("a.ts", "  console.log(x)", "debugging"),
        ("a.rb", "binding.pry", "debugging"),
        ("a.go", "// TODO make it work", "todo"),
        ("a.go", "x := 1  ", "trailing-space"),
        ("a.c", "int x = " + "1 + " * 60 + "1;", "long-line"),
        ("a.conf", "url = postgres://app:Tr0ub4dor@db.internal/x", "secret"),
        ("a.pem", "-----BEGIN RSA PRIVATE KEY-----", "secret"),
    ],
)
async def test_what_needs_no_language(path: str, line: str, rule: str) -> None:
    assert (1, rule) in rules(await reviewed(added(path, line + "\n")), path)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("doc.rst", "======="),
        ("a.rs", "// TODO(ada): make it work"),
        ("a.rs", "// TODO make it work, see #12"),
        ("a.md", "two spaces  "),
        ("a.py", '"""print() shows it."""'),
        ("a.py", 'password = "${DB_PASSWORD}"'),
        ("a.conf", "url = postgres://app:${PASSWORD}@db/x"),
        ("a.md", "long " * 60),
        ("a.csv", "1," * 200),
    ],
)
async def test_what_deserves_no_remark(path: str, line: str) -> None:
    assert rules(await reviewed(added(path, line + "\n")), path) == set()


async def test_line_ends_final_newline_and_binaries() -> None:
    mixed = "--- a/m.txt\n+++ b/m.txt\n@@ -1,1 +1,2 @@\n one\n+two\r\n"
    all_crlf = "--- a/c.txt\n+++ b/c.txt\n@@ -1,1 +1,2 @@\n one\r\n+two\r\n"
    bare = "--- a/n.cfg\n+++ b/n.cfg\n@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n"
    binary = "diff --git a/{0} b/{0}\nnew file mode 100644\nindex 0..1\nBinary files /dev/null and b/{0} differ\n"
    found = await reviewed(
        mixed, all_crlf, bare, binary.format("big.bin"), binary.format("small.bin"), sizes={"big.bin": 9_000_000}
    )
    assert rules(found, "m.txt") == {(2, "mixed-line-ends")} and rules(found, "c.txt") == set()
    assert rules(found, "n.cfg") == {(1, "no-final-newline")}
    assert rules(found, "big.bin") == {(0, "large-binary")} and rules(found, "small.bin") == {(0, "binary")}


async def test_a_missing_tool_is_named_and_the_rest_still_runs(tmp_path: Path) -> None:
    python, shell = added("a.py", "x = undefined\n"), added("a.sh", "#!/bin/sh\necho $1 \n")
    found = await reviewed(python, shell, search_path=str(tmp_path))
    assert [message.split(":")[0] for message in not_run(found)] == ["ruff did not run", "shellcheck did not run"]
    assert (2, "trailing-space") in rules(found, "a.sh")
    assert "2 checks did not run" in found.summary


@pytest.mark.slow
async def test_a_tool_that_hangs_or_babbles_is_named_too(tmp_path: Path) -> None:
    for name, body in (("ruff", "exec sleep 60"), ("shellcheck", "echo '{'")):
        tool = tmp_path / name
        tool.write_text(f"#!/bin/sh\n{body}\n")
        tool.chmod(0o755)
    diff = added("a.py", "x = undefined\n") + added("a.sh", "#!/bin/sh\necho $1\n")
    path = os.pathsep.join((str(tmp_path), "/usr/bin", "/bin"))
    found = await review(parse_diff(diff), {}, timeout_s=3, search_path=path)
    assert [message.split(":")[0] for message in not_run(found)] == ["ruff did not run", "shellcheck did not run"]


async def test_nothing_stays_on_disk_and_no_path_of_the_change_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    diff = added("../../escape.py", "x = undefined\n") + added("/etc/evil.py", "y = undefined\n")
    found = await reviewed(diff, added("-rf.sh", "#!/bin/sh\necho $1\n"), added(".py", "import os\n"))
    assert (1, "F821") in rules(found, "../../escape.py") and (1, "F821") in rules(found, "/etc/evil.py")
    assert (2, "SC2086") in rules(found, "-rf.sh") and not_run(found) == []
    assert os.listdir(tmp_path) == []


async def test_a_change_cannot_configure_its_own_review() -> None:
    config = added("ruff.toml", 'lint.ignore = ["F821"]\n') + added(".shellcheckrc", "disable=all\n")
    evil = added("json.py", "raise SystemExit(0)\n") + added("detect_secrets.py", "raise SystemExit(0)\n")
    found = await reviewed(config, evil, added("a.py", "x = undefined\n"), added("k.txt", f"{KEY}\n"))
    assert (1, "F821") in rules(found, "a.py") and (1, "secret") in rules(found, "k.txt")


async def test_a_configuration_above_the_scratch_directory_has_no_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "ruff.toml").write_text('lint.per-file-ignores = {"*" = ["ALL"]}\n')
    (tmp_path / ".shellcheckrc").write_text("disable=all\n")
    found = await reviewed(added("a.py", "x = undefined\n"), added("a.sh", "#!/bin/sh\necho $1\n"))
    assert (1, "F821") in rules(found, "a.py") and (2, "SC2086") in rules(found, "a.sh")


async def test_the_same_change_gives_the_same_review() -> None:
    diff = added("a.py", f"import os\nx = undefined\nk = '{KEY}'\n") + added("b.sh", "#!/bin/sh\necho $1\n")
    assert await reviewed(diff) == await reviewed(diff)


async def test_an_empty_change_is_reviewed_as_empty() -> None:
    found = await review(Changelist("1", "", "", (), ""), {}, timeout_s=10)
    assert found.findings == () and found.summary.startswith("0 files")


def test_the_tools_are_installed_beside_the_interpreter() -> None:
    assert all(shutil.which(name, path=os.path.dirname(sys.executable)) for name in ("ruff", "shellcheck"))
