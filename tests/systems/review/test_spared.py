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
    old = "if self.rows is not None or self.done:\n    return True\nreturn self.late\n"
    kept = "return self.late or self.done or (self.rows is not None)\n"
    assert guards(changed("a.py", old, kept)) == []
    assert guards(changed("a.py", old, "return self.late\n")) == [(1, "removed-guard")]
