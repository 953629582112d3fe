"""What the critic spares a reader: kinds of findings that were false in releases of well-known packages."""

from __future__ import annotations

import pytest

from tests.systems.review.test_calm_critic import changed, guards
from tests.systems.review.test_offline_critic import added, reviewed, rules

pytestmark = [pytest.mark.spec("R8"), pytest.mark.slow]  # programs are started


async def test_a_stub_only_describes() -> None:
    text = "class Rows:\n    def __delitem__(self, key: str, again: bool) -> None: ...\n    x: Unknown\n"
    assert rules(await reviewed(added("a.pyi", text)), "a.pyi") == {(3, "F821")}
    assert rules(await reviewed(added("a.py", text)), "a.py") == {(2, "PLE0302"), (3, "F821")}


async def test_a_function_that_puts_another_in_its_place_is_no_redefinition() -> None:
    text = "import os\n\n\ndef wait():\n    global wait\n    wait = os.wait\n    return wait()\n"
    assert rules(await reviewed(added("a.py", text)), "a.py") == set()
    twice = "def wait():\n    pass\n\n\ndef wait():\n    return 1\n"
    assert rules(await reviewed(added("b.py", twice)), "b.py") == {(5, "F811")}


async def test_an_error_that_is_shown_is_no_debugging() -> None:
    assert rules(await reviewed(added("a.js", 'console.log("Request failed:", error);\n')), "a.js") == set()
    assert rules(await reviewed(added("a.js", "console.log(rows);\n")), "a.js") == {(1, "debugging")}


def test_a_condition_that_is_asked_elsewhere_is_not_removed() -> None:
    old = "if self.rows is not None or self.done:\n    return True\nreturn self.rows[0]\n"
    kept = "return self.rows[0] or self.done or (self.rows is not None)\n"
    assert guards(changed("a.py", old, kept)) == []
    assert guards(changed("a.py", old, "return self.rows[0]\n")) == [(1, "removed-guard")]


def test_a_check_that_goes_with_what_it_checked_is_not_missed() -> None:
    def left(read: str, *, before: str = "", after: str = "") -> list[tuple[int, str]]:
        old = f"{before}if host is None:\n    return 0\n{read}\n"
        return guards(changed("a.py", old, f"{after}{read}\n"))

    assert left("return host.name") == [(1, "removed-guard")]
    assert left("return row.name") == [], "nobody reads it any more"
    assert left("return row.host") == [], "that is another"
    plain = "if host is None:\n    return 'HERE'\n"
    assert guards(changed("a.py", f"{plain}return host or 'HERE'\n", "return host or 'HERE'\n")) == [], (
        "the same answer"
    )
    assert guards(changed("a.py", f"{plain}return host\n", "return host\n")) == [(1, "removed-guard")]
    assert left("return host.name", before="host = row.host\n", after="host = row.host or HERE\n") == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", "from typing import List\n\nrows = sorted(())  # type: List[int]\n"),
        ("a.py", "# Loaded now, and not in the first request.\nimport encodings.idna\n"),
        ("src/_compat.py", "import collections as collections_abc\n\ncallable = callable\n"),
        ("a.py", "from b import *\n\nnames = read()\n"),
        ("a.py", "DAYS = ['\u0ea7\u0eb1\u0e99\u200b\u0eaa\u0eb8\u0e81']\n"),
        ("a.py", "from typing import overload\n\n\n@overload\ndef merge(keys: int, weights=[]) -> bool: ...\n"),
        ("a.py", "from orm import Mapped\n\nmaker: Mapped['User'] = None\n"),
        ("a.js", f"function _inheritsLoose(sub, sup) {{ sub.prototype = sup; }}\n{'x' * 161};\n"),
        ("a.egg-info/PKG-INFO", 'TOKEN = "abc123def456"\n'),
        ("tests/exceptions/source/modern.py", "from typing import Union\n"),
        ("a.py", "is_key = 'BEGIN OPENSSH PRIVATE KEY' in str()\n"),
        ("a.js", f"{'x' * 150} = (_a = this.shim) === null || _a === void 0 ? void 0 : _a.shell;\n"),
        ("a.py", 'class Url:\n    """\n    https://ada:a%20secret@host.de:1234/path\n    """\n'),
        ("a.js", "// => { username: 'ada', password: 'engine-no-1' }\nread();\n"),
        ("a.js", "console.trace('passing an array is deprecated');\n"),
        ("a.js", "if (found = rows.find(name)) use(found);\n"),
        ("LICENSE", "word " * 50 + "end\n"),
    ],
)
async def test_what_an_author_means_gets_no_remark(path: str, text: str) -> None:
    assert rules(await reviewed(added(path, text)), path) == set()


async def test_its_neighbours_that_nobody_means_do() -> None:
    assert rules(await reviewed(added("a.py", "from typing import List\n\nrows = read()\n")), "a.py") == {
        (1, "F401"),
        (3, "F821"),
    }
    wrong = "DAY = 'so\u200bon'\n\n\ndef merge(keys, weights=[]) -> bool: ...\n"
    assert rules(await reviewed(added("a.py", wrong)), "a.py") == {(1, "PLE2515"), (4, "B006")}
    assert rules(await reviewed(added("a.js", "console.log('here');\n")), "a.js") == {(1, "debugging")}
    secret = "const login = { username: 'ada', password: 'engine-no-1' };\n"
    assert {rule for _, rule in rules(await reviewed(added("a.js", secret)), "a.js")} == {"secret"}


async def test_a_script_that_comes_with_its_types_was_written_by_a_compiler() -> None:
    script, types = added("a.js", "x" * 161 + ";\n"), added("a.d.ts", "export declare const a: string;\n")
    assert rules(await reviewed(script), "a.js") == {(1, "long-line")}
    assert rules(await reviewed(script + types), "a.js") == set()
