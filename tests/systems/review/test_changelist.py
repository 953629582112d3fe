"""Reading a diff: what is changed where, and what is refused because it cannot be trusted."""

import subprocess
from pathlib import Path

import pytest

from holdfast.core.failure import Category
from holdfast.errors import CallError
from holdfast_systems.review.changelist import parse_diff

pytestmark = pytest.mark.spec("R8")

SIMPLE = """\
diff --git a/src/a.py b/src/a.py
index 1111111..2222222 100644
--- a/src/a.py
+++ b/src/a.py
@@ -1,3 +1,4 @@ def f():
 one
-two
+TWO
+three
 four
"""


def refusal(text: str | bytes, **limits: int) -> str:
    with pytest.raises(CallError) as caught:
        parse_diff(text, **limits)
    assert caught.value.failure.category is Category.VALIDATION
    assert not caught.value.failure.retryable
    return caught.value.failure.error_class


def test_added_lines_carry_their_number_in_the_new_file() -> None:
    (file,) = parse_diff(SIMPLE).files
    assert (file.path, file.old_path) == ("src/a.py", "src/a.py")
    assert file.added_lines == ((2, "TWO"), (3, "three"))
    assert not (file.is_new or file.is_deleted or file.is_rename or file.is_binary)


def test_an_empty_diff_is_an_empty_change() -> None:
    assert parse_diff("").files == ()


@pytest.mark.parametrize(
    "text",
    [
        "garbage",
        "<html><body>Sign in to continue</body></html>",
        SIMPLE.replace("+three\n", ""),  # shorter than its header says
        SIMPLE + "+hidden\n",  # longer: the parser alone would take the line for commentary
        SIMPLE + "\n+hidden after a blank\n",
        SIMPLE[: SIMPLE.index("@@")],  # cut after the file's header
        "diff --cc a.py\nindex 1,2..3\n--- a/a.py\n+++ b/a.py\n@@@ -1,1 -1,1 +1,2 @@@\n  x\n++y\n",
        "@@ -1 +1 @@\n-a\n+b\n",
    ],
)
def test_what_cannot_be_read_whole_is_refused(text: str) -> None:
    assert refusal(text) == "DIFF_UNREADABLE"


def test_a_huge_diff_is_refused_before_it_is_parsed() -> None:
    assert refusal(SIMPLE, bytes_max=100) == "DIFF_TOO_LARGE"
    assert refusal(SIMPLE, files_max=0) == "DIFF_TOO_LARGE"


def test_a_diff_converted_to_crlf_reads_like_the_plain_one() -> None:
    assert parse_diff(SIMPLE.replace("\n", "\r\n")).files == parse_diff(SIMPLE).files


def test_crlf_lines_in_a_plain_diff_stay_crlf() -> None:
    (file,) = parse_diff(SIMPLE.replace("+three\n", "+three\r\n")).files
    assert file.added_lines == ((2, "TWO"), (3, "three\r"))


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    (file,) = parse_diff(SIMPLE.encode().replace(b"+TWO", b"+caf\xe9")).files
    assert file.added_lines[0] == (2, "caf\ufffd")


def test_a_line_of_a_form_feed_or_a_lone_return_does_not_shift_the_numbers() -> None:
    (file,) = parse_diff(SIMPLE.replace("+TWO", "+T\x0c\u2028\rWO")).files
    assert file.added_lines == ((2, "T\x0c\u2028\rWO"), (3, "three"))


def test_a_pure_rename_a_mode_change_and_a_binary_file_have_no_added_lines() -> None:
    text = (
        "diff --git a/old name.py b/new name.py\nsimilarity index 100%\n"
        "rename from old name.py\nrename to new name.py\n"
        "diff --git a/run b/run\nold mode 100644\nnew mode 100755\n"
        "diff --git a/x.png b/x.png\nnew file mode 100644\nindex 0000000..1234567\n"
        "Binary files /dev/null and b/x.png differ\n"
    )
    renamed, run, image = parse_diff(text).files
    assert (renamed.old_path, renamed.path, renamed.is_rename) == ("old name.py", "new name.py", True)
    assert (run.path, run.mode) == ("run", "100755")
    assert image.is_binary and image.is_new and not image.is_text
    assert not renamed.added_lines + run.added_lines + image.added_lines


def test_a_deleted_file_keeps_its_old_path() -> None:
    text = "diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n"
    (file,) = parse_diff(text).files
    assert file.is_deleted and file.path == "x"


def test_a_missing_final_newline_is_seen_on_the_new_side_only() -> None:
    marker = "\\ No newline at end of file\n"
    by_change = parse_diff(f"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n{marker}").files[0]
    before = parse_diff(f"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n{marker}+b\n").files[0]
    assert by_change.lacks_final_newline and not before.lacks_final_newline


def test_a_mailed_patch_with_its_signature_is_read() -> None:
    mail = f"From: Ada <ada@example.test>\nSubject: [PATCH] Do it\n\n---\n a.py | 3 ++-\n\n{SIMPLE}-- \n2.39.5\n\n"
    assert [file.path for file in parse_diff(mail).files] == ["src/a.py"]


def test_what_git_writes_for_odd_names_is_read_back(tmp_path: Path) -> None:
    names = ["plain.py", "with space.py", 'quo"te.py', "tab\there.py", "größe.py", "deep/er/x.py"]

    def git(*arguments: str) -> bytes:
        identity = ("-c", "user.name=T", "-c", "user.email=t@example.test")
        return subprocess.run(("git", *identity, *arguments), cwd=tmp_path, check=True, capture_output=True).stdout

    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "-m", "start")
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "names")
    for quoting in ("true", "false"):
        files = parse_diff(git("-c", f"core.quotePath={quoting}", "diff", "HEAD^", "HEAD")).files
        assert sorted(file.path for file in files) == sorted(names)
        assert all(file.is_new and file.added_lines == ((1, "x"),) for file in files)


@pytest.mark.spec("K30")
@pytest.mark.parametrize(
    "line",
    [
        "diff --git " + "://" * 500 + " " * 500,
        "diff --git " + "x://y " * 500,
        "Binary files " + " and " * 500,
    ],
)
def test_a_header_on_which_the_parser_would_work_for_hours_is_refused(line: str) -> None:
    assert refusal(f"{line}\n") == "DIFF_UNREADABLE"


def test_two_addresses_are_a_header() -> None:
    text = SIMPLE.replace("a/src/a.py", "svn://host/a.py").replace("b/src/a.py", "svn://host/a.py")
    assert [file.path for file in parse_diff(text).files] == ["svn://host/a.py"]
