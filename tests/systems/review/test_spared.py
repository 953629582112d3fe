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
        ("a.py", "try:\n    open()\nexcept:\n    raise ValueError\n"),
        ("a.py", "try:\n    open()\nexcept:  # whatever a plugin does\n    # it must not end us\n    pass\n"),
        ("a.py", "import sqlalchemy\n\nrows = sqlalchemy.select(t := 1).where(t == None)\n"),
        ("a.py", "from b import on\n\n\n@on('x')\ndef go():\n    pass\n\n\n@on('y')\ndef go():\n    pass\n"),
        ("a.py", "try:\n    import simplejson as json\nexcept ImportError:\n    import json\n\nx = 1\n"),
        ("a.py", "globals().update(NAMES={})\n\nnames = NAMES\n"),
        ("a.py", "title = _('Words')\n"),
        ("a.py", "try:\n    open()\nexcept OSError, e:\n    e.args\n"),
        ("a.py", 'class Login:\n    """\n    >>> login(password=\'bar-baz-9\')\n    """\n'),
        ("a.py", "print(1, end='..')\n"),
        ("a.py", "# TODO: remove in version 3.0\n"),
        ("a.py", "class Row:\n    __slots__ = ('a',)\n\n    def __init__(self):\n        self.b = 1\n"),
        ("a.py", "{% if rows %}\nimport os\n{% endif %}\n"),
        ("a.js", "var rows = <%= rows %>;\n"),
        ("a.sh", "#!/bin/sh\ncurl $CURL_OPTS x\n"),
        ("lib.sh", 'rows="$(cat x)"\n'),
        ("tab/packages/xls/a.py", "import os\n"),
        ("tab/extern/a.py", "import os\n"),
        ("a.py", "try:\n    set\nexcept NameError:\n    set = list\n"),
        ("a.py", "half = eval('\"\\\\uD800\"')\n"),
        ("a.py", f"say('{'word ' * 40}')\n".replace("say", "print")),
        (".pytest.expect", "row " * 60 + "end\n"),
        ("a.py", 'TOKEN_URL = "https://token.rows.de/token_new"\n'),
        ("a.py", "shape = r'password:\"(?P<password>.*?)\"'\n"),
        ("tox.ini", "DB_PASSWORD =  {env:DB_PASSWORD:debug_rows}\n"),
        ("lib/a.js", f"{'x' * 1001};\n// TODO: mend it\n"),
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
    caught = "try:\n    open()\nexcept:\n    pass\n\nrows = open() == None\n"
    assert rules(await reviewed(added("a.py", caught)), "a.py") == {(3, "E722"), (6, "E711")}
    assert rules(await reviewed(added("a.py", "# TODO: remove\nprint(1, 2)\n")), "a.py") == {
        (1, "todo"),
        (2, "debugging"),
    }
    assert rules(await reviewed(added("a.sh", "#!/bin/sh\ncurl $target\n")), "a.sh") == {(2, "SC2086")}
    assert rules(await reviewed(added("packages/xls/a.py", "import os\n")), "packages/xls/a.py") == {(1, "F401")}
    assert rules(await reviewed(added("a.js", "console.log('here');\n")), "a.js") == {(1, "debugging")}
    secret = "const login = { username: 'ada', password: 'engine-no-1' };\n"
    assert {rule for _, rule in rules(await reviewed(added("a.js", secret)), "a.js")} == {"secret"}


async def test_a_script_that_comes_with_its_types_was_written_by_a_compiler() -> None:
    script, types = added("a.js", "x" * 161 + ";\n"), added("a.d.ts", "export declare const a: string;\n")
    assert rules(await reviewed(script), "a.js") == {(1, "long-line")}
    assert rules(await reviewed(script + types), "a.js") == set()


async def test_what_a_test_breaks_on_purpose_is_no_error() -> None:
    text = "import os\nx = os.name + rows\n"
    found = await reviewed(added("tests/test_a.py", text), added("a.py", text))
    assert {(finding.path, finding.severity) for finding in found.findings if finding.rule == "F821"} == {
        ("tests/test_a.py", "warning"),
        ("a.py", "error"),
    }


async def test_a_conflict_is_one_remark_and_a_picture_none() -> None:
    conflict = "<<<<<<< ours\na\n||||||| base\n=======\nb\n>>>>>>> theirs\n"
    assert rules(await reviewed(added("a.txt", f"{conflict}c\n{conflict}")), "a.txt") == {
        (1, "merge-conflict"),
        (8, "merge-conflict"),
    }
    assert rules(await reviewed(added("a.txt", "b\n>>>>>>> theirs\n")), "a.txt") == {(2, "merge-conflict")}
    binary = "diff --git a/{0} b/{0}\nnew file mode 100644\nindex 0..1\nBinary files /dev/null and b/{0} differ\n"
    found = await reviewed(binary.format("logo.png"), binary.format("tool.exe"))
    assert rules(found, "logo.png") == set() and rules(found, "tool.exe") == {(0, "binary")}


def test_a_suite_that_goes_elsewhere_takes_no_tests_away() -> None:
    code = changed("src/a.py", "x = 1\n", "x = 2\n")

    def gone(name: str, text: str = "def test_x(): ...\n") -> str:
        path = f"tests/{name}"
        head = f"diff --git a/{path} b/{path}\ndeleted file mode 100644\n--- a/{path}\n+++ /dev/null\n"
        return f"{head}@@ -1,1 +0,0 @@\n-{text}"

    assert guards(code + gone("test_a.py")) == [(0, "removed-tests")]
    assert guards(code + "".join(map(gone, ("test_a.py", "test_b.py", "test_c.py")))) == []
    assert guards(code + gone("test_a.py", "def test_suite(): ...\n")) == [], "that gathers tests and is none"
