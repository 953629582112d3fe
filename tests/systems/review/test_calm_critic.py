"""The critic speaks of what a change brings, in words that fit the file; and of what a change takes away."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from holdfast_systems.review.changelist import parse_diff
from holdfast_systems.review.findings import Finding
from holdfast_systems.review.guards import removed_guards
from holdfast_systems.review.offline_critic import review
from holdfast_systems.review.old_side import old_text, only_new
from holdfast_systems.review.path_kinds import path_kind
from tests.systems.review.test_offline_critic import KEY, added, not_run, reviewed, rules

pytestmark = [pytest.mark.spec("R8"), pytest.mark.slow]  # programs are started


def changed(path: str, before: str, after: str) -> str:
    """A diff of one hunk that replaces the whole file."""
    gone = "".join(f"-{line}\n" for line in before.splitlines())
    come = "".join(f"+{line}\n" for line in after.splitlines())
    sizes = f"-1,{len(before.splitlines())} +1,{len(after.splitlines())}"
    return f"--- a/{path}\n+++ b/{path}\n@@ {sizes} @@\n{gone}{come}"


def guards(diff: str) -> list[tuple[int, str]]:
    return [(finding.line, finding.rule) for finding in removed_guards(parse_diff(diff))]


async def test_what_was_there_before_is_not_said_again() -> None:
    before = "import os\nx = undefined_one\n"
    after = "x = undefined_one\nimport os\ny = undefined_two\n"
    found = await reviewed(changed("a.py", before, after), contents={"a.py": after})
    assert rules(found, "a.py") == {(3, "F821")}, "lines that only moved bring nothing"


def test_the_file_before_is_known_from_the_file_after_and_its_hunks() -> None:
    after = "one\ntwo\nnew\nfour\nfive\nlast\n"
    first = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,4 @@\n one\n-zwei\n+two\n+new\n four\n"
    diff = first + "@@ -4,3 +5,2 @@\n five\n-gone\n last\n"
    (file,) = parse_diff(diff).files
    assert old_text(file, after) == "one\nzwei\nfour\nfive\ngone\nlast\n"
    assert old_text(file, "one\n") is None, "hunks that do not fit the content"


def test_what_the_file_does_everywhere_is_its_way() -> None:
    def at(line: int) -> Finding:
        return Finding("a.py", line, "warning", "B006", "m", "ruff")

    texts, old = {"a.py": "a\nb\nc\nnew\n"}, {"a.py": "a\nb\nc\n"}
    assert only_new([at(4)], [at(1), at(2), at(3)], texts, old) == []
    assert only_new([at(4)], [at(1), at(2)], texts, old) == [at(4)]


def test_a_line_in_other_words_brings_nothing_that_it_had_not() -> None:
    def at(rule: str, line: int = 1) -> Finding:
        return Finding("a.py", line, "warning", rule, "m", "ruff")

    texts, old = {"a.py": "return cast(T, eval(x))\neval(y)\n"}, {"a.py": "return eval(x)\n"}
    assert only_new([at("S307")], [at("S307")], texts, old) == []
    assert only_new([at("S307"), at("S307", 2)], [at("S307")], texts, old) == [at("S307", 2)]
    assert only_new([at("secret")], [at("secret")], texts, old) == [at("secret")], "another secret in its place"
    assert only_new([at("S307", 2)], [at("S307")], {"a.py": "return eval(x)\neval(y)\n"}, old) == [at("S307", 2)]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("examples/app.js", "console.log(x)"),
        ("tests/types.ts", "console.log(x)"),
        ("examples/login.py", "password = 'foobar1'"),
        ("tests/test_auth.py", "h = 'Bearer aaaabbbbccccddddeeeeffff'"),
        ("src/vendor/lib.py", "import os  # revision 0123456789abcdef0123456789abcdef01234567"),
        ("src/version.py", "REVISION = '0123456789abcdef0123456789abcdef01234567'"),
        ("pkg/__init__.py", "import os"),
        ("src/compat.py", "text = unicode"),
        ("tests/test_a.py", "requests.get('http://127.0.0.1')"),
        ("yarn.lock", "  integrity sha512-" + "aB3" * 20),
    ],
)
async def test_what_is_right_in_its_place_gets_no_remark(path: str, line: str) -> None:
    assert {rule for _, rule in rules(await reviewed(added(path, line + "\n")), path)} - {"F821"} == set()


async def test_a_real_key_in_a_test_is_a_remark_and_in_the_product_an_error() -> None:
    found = await reviewed(added("tests/test_a.py", f"KEY = '{KEY}'\n"), added("src/a.py", f"KEY = '{KEY}'\n"))
    severities = {finding.path: finding.severity for finding in found.findings if finding.rule == "secret"}
    assert severities == {"tests/test_a.py": "info", "src/a.py": "error"}


async def test_the_same_small_remark_is_made_once_a_file() -> None:
    found = await reviewed(added("a.go", "x := 1  \ny := 2  \nz := 3  \n"))
    (remark,) = [finding for finding in found.findings if finding.rule == "trailing-space"]
    assert remark.line == 1 and remark.message.endswith("And 2 more in this file.")


def test_a_removed_check_and_a_widened_except_are_told() -> None:
    head = "--- a/src/a.py\n+++ b/src/a.py\n"
    gone = head + "@@ -1,5 +1,3 @@\n def f(x):\n-    if x is None:\n-        return 0\n     y = x.size\n     return y\n"
    assert guards(gone) == [(0, "removed-guard")]
    replaced = gone.replace("@@ -1,5 +1,3 @@", "@@ -1,5 +1,4 @@").replace(
        "     y =", "+    if x is None: raise ValueError\n     y ="
    )
    assert guards(replaced) == [], "another line checks the same"
    wider = head + "@@ -1,4 +1,4 @@\n try:\n     f()\n-except KeyError:\n+except Exception:\n     pass\n"
    assert guards(wider) == [(3, "widened-except")]
    narrower = wider.replace("-except KeyError", "-except Exception").replace("+except Exception", "+except KeyError")
    assert guards(narrower) == []
    explained = wider.replace("+1,4 @@", "+1,5 @@").replace(
        "+except Exception:\n", "+except Exception:\n+    # A driver's own.\n"
    )
    assert guards(explained) == [], "who writes why has thought of it"
    assert guards(wider.replace("     pass", "     close()\n     raise").replace("4 +1,4", "5 +1,5")) == []
    assert guards(gone.replace("src/a.py", "tests/test_a.py")) == []


def test_tests_that_go_with_their_code_are_told() -> None:
    code = "--- a/src/a.py\n+++ b/src/a.py\n@@ -1,1 +1,1 @@\n-x = 1\n+x = 2\n"
    tests = (
        "--- a/tests/test_a.py\n+++ b/tests/test_a.py\n@@ -1,3 +1,1 @@\n-def test_x():\n-    assert x == 1\n import a\n"
    )
    assert guards(code + tests) == [(0, "removed-tests")]
    assert guards(tests) == [], "tests alone may be tidied"
    renamed = code + tests.replace("+1,1 @@", "+1,2 @@").replace(" import a", "+def test_x(): ...\n import a")
    assert guards(renamed) == [], "it only moved"


async def test_linters_of_other_languages_are_used_where_they_are(tmp_path: Path) -> None:
    """Programs that answer as oxlint and gofmt do; without them, a remark says so."""
    answer = (
        '{"diagnostics": [{"message": "Invalid `typeof` comparison value.", "code": "eslint(valid-typeof)",'
        ' "severity": "error", "filename": "0/a.ts", "labels": [{"span": {"line": 1, "column": 5}}]}]}'
    )
    program(tmp_path / "oxlint", f"cat <<'END'\n{answer}\nEND")
    program(tmp_path / "gofmt", "echo 1/a.go; echo '1/a.go:2:3: expected declaration' >&2; exit 2")
    script, go = added("a.ts", 'if (typeof a === "strnig") {}\n'), added("a.go", "package a\nfun f() {}\n")
    found = await review(parse_diff(script + go), {}, timeout_s=20, search_path=f"{tmp_path}:/usr/bin:/bin")
    assert (1, "eslint(valid-typeof)") in rules(found, "a.ts")
    assert {(0, "gofmt"), (2, "invalid-syntax")} <= rules(found, "a.go")
    missing = not_run(await review(parse_diff(script), {}, timeout_s=20, search_path="/nowhere"))
    assert any(message.startswith("oxlint did not run") for message in missing)


@pytest.mark.parametrize("lines", [(1, 3), (3, 1), (3,)], ids=["declared first", "declared last", "alone"])
async def test_a_script_s_finding_stands_where_the_change_broke_it(tmp_path: Path, lines: tuple[int, ...]) -> None:
    labels = ", ".join(f'{{"span": {{"line": {line}, "column": 1}}}}' for line in lines)
    answer = (
        '{"diagnostics": [{"message": "Re-assigned.", "code": "eslint(no-const-assign)", "severity": "error",'
        f' "filename": "0/a.ts", "labels": [{labels}]}}]}}'
    )
    program(tmp_path / "oxlint", f"cat <<'END'\n{answer}\nEND")
    diff = "--- a/a.ts\n+++ b/a.ts\n@@ -1,2 +1,3 @@\n const a = 1;\n let b = 2;\n+a = b;\n"
    contents = {"a.ts": "const a = 1;\nlet b = 2;\na = b;\n"}
    found = await review(parse_diff(diff), contents, timeout_s=20, search_path=f"{tmp_path}:/usr/bin:/bin")
    # The old side is asked too and answers the same; only the line that the change brought is left.
    assert {line for line, rule in rules(found, "a.ts") if rule.startswith("eslint")} == {3}


async def test_a_file_that_cannot_be_read_is_told_once_where_it_was_broken() -> None:
    """The parser stumbles over the line after; the change is what broke it."""
    diff = "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,3 @@\n x = 1\n+y = (2,\n z = 3\n"
    found = await review(parse_diff(diff), {"a.py": "x = 1\ny = (2,\nz = 3\n"}, timeout_s=20)
    assert [(each.line, each.rule) for each in found.findings] == [(2, "invalid-syntax")]


@pytest.mark.parametrize(
    ("address", "rules_found"),
    [
        ("https://ann:pw@host/a", set()),
        ("postgresql://user:password@db.company.com/app", set()),
        ("postgresql://app:kZ8vQ2mR7x@localhost/app", set()),
        ("with semicolons (e.g. redis://user:secret@localhost:6379?a=1;b=2)", set()),
        ("postgresql://app:kZ8vQ2mR7x@db.company.com/app", {"secret"}),
    ],
)
async def test_an_address_that_shows_how_one_is_written_is_no_secret(address: str, rules_found: set[str]) -> None:
    found = await review(parse_diff(added("src/a.py", f'"""Reads {address}."""\n')), {}, timeout_s=20)
    assert {rule for _, rule in rules(found, "src/a.py")} & {"secret", "credential"} == rules_found


async def test_go_vet_speaks_of_files_that_stand_alone(tmp_path: Path) -> None:
    """A program that answers as go does: for one file with findings, for another with what it cannot import."""
    program(
        tmp_path / "go",
        """case "$1 $2" in
        "env GOROOT") echo "$0.root" ;;
        *alone.go) printf '# command-line-arguments\\n%s:3:1: unreachable code\\n' "$2" >&2; exit 1 ;;
        *) printf 'vet: %s:2:8: could not import x\\n' "$2" >&2; exit 1 ;;
        esac""",
    )
    (tmp_path / "go.root" / "bin").mkdir(parents=True)
    program(tmp_path / "go.root" / "bin" / "gofmt", "exit 0")
    diff = added("alone.go", "package a\n\nfunc f() {}\n") + added("needs.go", 'package a\nimport "x"\n')
    found = await review(parse_diff(diff), {}, timeout_s=20, search_path=f"{tmp_path}:/usr/bin:/bin")
    assert (3, "go-vet") in rules(found, "alone.go") and rules(found, "needs.go") == set()
    assert not any("gofmt" in message for message in not_run(found)), "gofmt is found beside go"


def program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("src/app.py", "product"),
        ("tests/test_app.py", "trial"),
        ("pkg/app_test.go", "trial"),
        ("docs/guide.md", "trial"),
        ("lib/latest.py", "product"),
        ("contest/entry.py", "product"),
        ("third_party/x.c", "foreign"),
        ("web/app.min.js", "foreign"),
        ("go.sum", "foreign"),
    ],
)
def test_a_path_tells_whose_a_file_is(path: str, kind: str) -> None:
    assert path_kind(path) == kind


async def test_a_print_of_what_is_run_by_itself_is_no_debugging() -> None:
    helper = "def f(x: int) -> int:\n    print(x)\n    return x\n\n\n"
    run = 'if __name__ == "__main__":\n    # Try it.\n    print(f(2))\n'
    assert rules(await reviewed(added("a.py", helper + run)), "a.py") == {(2, "debugging")}
    assert rules(await reviewed(added("b.py", helper.replace("print", "repr") + run)), "b.py") == set()


async def test_a_print_of_an_example_or_to_a_file_is_no_debugging() -> None:
    example = '    """Use it so:\n\n    print(f(1))\n    """\n'
    text = f"def f(out: int) -> None:\n{example}    print(1, file=out)\n    print(2)\n"
    assert rules(await reviewed(added("a.py", text)), "a.py") == {(7, "debugging")}


async def test_a_value_that_a_sentence_mentions_is_no_secret() -> None:
    mentioned = '"""\nThe `credentials` will have the value `"deadbeef12346ab9c0"`\n"""\n'
    assert rules(await reviewed(added("a.py", mentioned)), "a.py") == set()
    given = 'credentials = "deadbeef12346ab9c0"\n'
    assert {rule for _, rule in rules(await reviewed(added("a.py", given)), "a.py")} == {"secret"}


async def test_what_a_program_wrote_may_be_long_and_a_copy_may_be_pickled() -> None:
    row = "ROW = [" + "1, " * 60 + "]\n"
    assert rules(await reviewed(added("a.py", f"# Generated by make.\n{row}")), "a.py") == set()
    assert rules(await reviewed(added("a.py", row)), "a.py") == {(1, "long-line")}
    copy, read = "import pickle\nX = pickle.loads(pickle.dumps(1))\n", "import pickle\nX = pickle.loads(b'1')\n"
    assert rules(await reviewed(added("a.py", copy)), "a.py") == set()
    assert rules(await reviewed(added("a.py", read)), "a.py") == {(2, "S301")}


async def test_what_an_author_excused_or_renamed_is_not_told_to_them() -> None:
    assert rules(await reviewed(added("a.py", "import os  # noqa(F401)\n")), "a.py") == set()
    assert rules(await reviewed(added("a.py", "import os  # used\n")), "a.py") == {(1, "F401")}
    loop = "for i in range(2):\n    assert True\n"
    assert rules(await reviewed(added("tests/test_a.py", loop)), "tests/test_a.py") == set()
    code = changed("a.py", "x = 1\n", "x = 2\n")
    old, new = "def test_a():\n    assert 1\n", "def test_b():\n    assert 1\n"
    assert guards(code + changed("tests/test_a.py", old, new)) == []
    assert guards(code + changed("tests/test_a.py", old + new.replace("_b", "_c"), new)) == [(0, "removed-tests")]


async def test_a_raise_that_handlers_call_is_no_error() -> None:
    text = "import sys\n\n\ndef again(error):\n    if error is sys.exc_info()[1]:\n        raise\n    raise error\n"
    assert rules(await reviewed(added("a.py", text)), "a.py") == set()


async def test_the_same_words_about_a_file_are_said_once_and_errors_each_time() -> None:
    warned = "import sys\n\n\nA = eval(sys.argv[1])\nB = eval(sys.argv[2])\nC = eval(sys.argv[3])\n"
    (finding,) = (await reviewed(added("a.py", warned))).findings
    assert finding.line == 4 and finding.message.endswith("And 2 more in this file.")
    wrong = "A = undefined_name\nB = undefined_name\n"
    assert rules(await reviewed(added("b.py", wrong)), "b.py") == {(1, "F821"), (2, "F821")}


def test_a_guard_in_other_quotes_or_brackets_is_the_same_guard() -> None:
    def replaced(gone: str, come: str) -> list[tuple[int, str]]:
        return guards(changed("a.py", f"{gone}\n    return\nshow(data)\n", f"{come}\n    return\nshow(data)\n"))

    assert replaced("if len(data['email']) < 3:", 'if len(data["email"]) < 3:') == []
    assert replaced("if (a is None):  # not yet", "if a is None:") == []
    assert replaced("if name not in table.keys():", "if name not in table:") == []
    assert replaced("if read is False or not self.may(x):", "if read is False or x is None or not self.may(x):") == []
    assert replaced("if self.error is None:", "error = self.error\nif error is None:") == []
    assert replaced("if len(data['email']) < 3:", "while True:") == [(1, "removed-guard")]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("tests/data/cases/names.py", "print(nothing_of_this_name)\nx = never_named\n"),
        (
            "src/bundle.js",
            "(function (g, f) { typeof exports === 'object' && typeof module !== 'undefined' })\ndebugger\n",
        ),
        ("src/table.py", "# Generated by a program: do not edit\nimport os\n"),
        ("src/wasm.js", "debugger\nconst wasm = '" + "QUJD" * 1_000 + "'\n"),
        ("src/tool/cli/show.py", "def show(rows):\n    print(rows)\n"),
        ("src/report.py", "import argparse\n\nprint(argparse.__doc__)\n"),
        ("src/old.py", "import urllib2\ntry:\n    x = 1\nexcept ValueError, e:\n    print e\n"),
        ("src/keys.py", "ACCESS = 'AKIAIOSFODNN7" + "EXAMPLE'\n"),
        ("src/names.py", "from a import b\nfrom c import d\n"),
        ("src/show.py", "def show(row):\n    print('{0} of {1}'.format(*row))\n"),
        ("src/send.js", "if (process.env.VERBOSE)\n  console.log(data)\n"),
        ("src/task.py", "# TODO: as soon as it can\n# https://tracker.invalid/17\nx = 1\n"),
        ("src/task.py", "# TODO [engine:>=24]: then\nx = 1\n"),
        ("src/kept.py", "import functools\n\n\nclass A:\n    @functools.lru_cache(maxsize=9)\n    def f(self): ...\n"),
        ("src/tried.py", "try:\n    import fast\nexcept ImportError:\n    pass\n"),
        ("src/known.py", "import os  # pylint: disable=unused-import\n"),
        ("src/option.py", "def f():\n    import pdb  # noqa: T100\n\n    pdb.post_mortem()\n"),
        ("src/writer.py", "def write(*args, **kwargs):\n    print(*args, **kwargs)\n"),
        ("tests/test_old.py", "def test_it(raises):\n    with raises(ImportError):\n        import gone\n"),
        ("src/page.py", 'PAGE = """\nspaces   \n"""\n'),
        ("src/strict.py", f"# pyright: {'reportThis=false,' * 12}\n"),
        ("src/lib/union.js", '"use strict";\nObject.defineProperty(exports, "__esModule", {});\nx = 1;  \n'),
        ("src/option.py", "def f():\n    # only when it is needed\n    import pdb\n\n    pdb.post_mortem()\n"),
        ("src/settle.py", "def settle(cfg):\n    if cfg.print_config:\n        print(cfg)\n"),
        ("release.py", "try:\n    import twine\nexcept ImportError:\n    print('Please install twine first')\n"),
        ("src/task.py", "# TODO: when this is removed, put a type alias in its place, please. See #4556.\n"),
        ("tests/requests/031.py", 'request = {"uri": uri("/foo")}\n'),
        ("tests/run.sh", "#!/bin/sh\n. ./common.sh\necho $HOME\n"),
    ],
)
async def test_what_is_so_on_purpose_gets_no_remark(path: str, text: str) -> None:
    assert rules(await reviewed(added(path, text)), path) == set()


async def test_a_line_that_comes_from_another_file_is_nothing_new() -> None:
    task = "# TODO: a better way\nx = 1\n"
    moved = changed("old.py", task, "") + changed("new.py", "", task)
    assert rules(await reviewed(moved, contents={"new.py": task}), "new.py") == set()
    assert rules(await reviewed(changed("new.py", "", task), contents={"new.py": task}), "new.py") == {(1, "todo")}


def test_a_guard_whose_function_went_or_that_leaves_elsewhere_is_not_missed() -> None:
    whole = "def f(x):\n    if x is None:\n        return None\n    return x\n\ny = 1\n"
    assert guards(changed("a.py", whole, "y = 1\n")) == []
    before = "if count > most:\n    raise TooMany('no more')\nx = count\n"
    after = "def stop():\n    raise TooMany('no more')\n"
    assert guards(changed("a.py", before, "x = count\n") + changed("b.py", "", after)) == []
    assert guards(changed("a.py", before, "x = count\n")) == [(1, "removed-guard")]


def test_tests_that_go_are_counted_over_all_files() -> None:
    gone = "".join(changed(f"tests/test_{name}.py", f"def test_{name}(): ...\n", "x = 1\n") for name in "ab")
    code = changed("a.py", "x = 1\n", "x = 2\n")
    (finding,) = removed_guards(parse_diff(gone + code))
    assert finding.message.startswith("2 tests of 2 files went with this change")
