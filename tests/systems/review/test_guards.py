"""What a change takes away, and when it has a reason to."""

from __future__ import annotations

from difflib import unified_diff

import pytest

from tests.systems.review.test_calm_critic import changed, guards

pytestmark = pytest.mark.spec("R8")


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        (
            "a.py",
            "def put(name=None, value=''):\n    if name is None:\n        raise TypeError('no name')\n    send(name)\n",
            "def put(name, value=''):\n    send(name)\n",
        ),
        (
            "a.js",
            "  is(types) {\n    if (!types) return typeis(this);\n    return typeis(this, types);\n  }\n",
            "  is(...types) {\n    return typeis(this, ...types);\n  }\n",
        ),
    ],
)
def test_a_check_of_what_is_declared_anew_is_not_missed(path: str, before: str, after: str) -> None:
    assert guards(_diff(path, before, after)) == []
    undeclared = before.splitlines(keepends=True)[0] + "".join(after.splitlines(keepends=True)[1:])
    assert [rule for _, rule in guards(_diff(path, before, undeclared))] == ["removed-guard"]


def test_a_check_of_what_comes_from_elsewhere_now_is_not_missed() -> None:
    before = "const type = paths[p];\nif (type.value === undefined) {\n  continue;\n}\nrun(type.value);\n"
    after = "const type = withValues[i];\nrun(type.value);\n"
    assert guards(_diff("a.js", before, after)) == []
    unchanged = after.replace("withValues[i]", "paths[p]")
    assert [rule for _, rule in guards(_diff("a.js", before, unchanged))] == ["removed-guard"]


def test_a_wider_handler_that_keeps_the_error_is_meant() -> None:
    def widened(handler: str) -> list[tuple[int, str]]:
        before = f"try:\n    serve()\nexcept OSError as error:\n    {handler}\n"
        after = before.replace("OSError", "Exception")
        return guards(_diff("a.py", before, after))

    assert widened("self.error = error") == widened("done.set_exception(error)") == []
    assert widened("log(error)") == [(3, "widened-except")]


def test_tests_in_other_words_and_tests_of_a_module_that_went_are_not_missed() -> None:
    code = changed("a.js", "x = 1\n", "x = 2\n")
    old = "  it('parses a string', (done) => {\n  it('parses a list', (done) => {\n"
    new = "    t.test('parses a string', function (st) {\n    st.test('parses a list', function (t) {\n"
    assert guards(code + changed("test/parse.js", old, new)) == []
    assert guards(code + changed("test/parse.js", old, "x = 1\n")) == [(0, "removed-tests")]
    test = "--- a/tests/test_poll.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-def test_poll(): ...\n"
    module = "--- a/src/poll.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x = 1\n"
    assert guards(code + test + module) == []
    assert guards(code + test + module.replace("poll", "push")) == [(0, "removed-tests")]


def _diff(path: str, before: str, after: str) -> str:
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    return "".join(unified_diff(old, new, f"a/{path}", f"b/{path}"))
