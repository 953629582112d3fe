"""The Perforce adapter against a p4 that answers from files."""

import json
import os
from pathlib import Path

import pytest

from holdfast.core.failure import Category
from holdfast.errors import CallError
from holdfast_systems.review.changelist import FetchedDiff, parse_diff
from holdfast_systems.review.fetch_p4 import P4Policy, fetch_changelist

pytestmark = [pytest.mark.spec("R8"), pytest.mark.slow]  # programs are started

MAIN = P4Policy(depots=("//depot/main/",))
DESCRIBE = """\
Change 1234 by ada@ada-laptop on 2026/03/01 10:11:12

\tFix the pump
\t
\t... //secret/quoted#1 edit

Affected files ...

... //depot/main/pump.c#3 edit
... //depot/main/new.py#1 add
... //depot/main/gone.txt#2 delete

Differences ...

==== //depot/main/pump.c#3 (text) ====

@@ -1,2 +1,3 @@
 one
+two
 three
"""


class FakeP4:
    """A `p4` on PATH: answers by its arguments, and writes down each argument vector."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "calls"
        self.answers: dict[str, str] = {}

    def install(self, monkeypatch: pytest.MonkeyPatch, answers: dict[str, str], error: str = "") -> None:
        (self.folder / "answers.json").write_text(json.dumps(answers))
        script = self.folder / "p4"
        script.write_text(
            "#!/usr/bin/env python3\nimport json, pathlib, sys\n"
            f"here = pathlib.Path({str(self.folder)!r})\n"
            "with open(here / 'calls', 'a') as log: log.write(json.dumps(sys.argv[1:]) + '\\n')\n"
            f"error = {error!r}\n"
            "if error: sys.exit(error)\n"
            "print(json.loads((here / 'answers.json').read_text())[sys.argv[-1]], end='')\n"
        )
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{self.folder}{os.pathsep}{os.environ['PATH']}")

    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []


@pytest.fixture
def p4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeP4:
    fake = FakeP4(tmp_path)
    contents = {"//depot/main/pump.c#3": "one\ntwo\nthree\n", "//depot/main/new.py#1": "x = 1\ny = 2"}
    fake.install(monkeypatch, {"1234": DESCRIBE, **contents})
    return fake


async def fetch(number: str = "1234", policy: P4Policy = MAIN) -> FetchedDiff:
    return await fetch_changelist(number, policy=policy, timeout_s=30)


async def failure_of(number: str = "1234", policy: P4Policy = MAIN) -> tuple[Category, str]:
    with pytest.raises(CallError) as caught:
        await fetch(number, policy)
    return caught.value.failure.category, caught.value.failure.error_class


async def test_a_changelist_becomes_a_unified_diff_with_contents(p4: FakeP4) -> None:
    fetched = await fetch()
    assert (fetched.title, fetched.author) == ("Fix the pump", "ada")
    pump, new, gone = parse_diff(fetched.diff).files
    assert (pump.path, pump.added_lines) == ("depot/main/pump.c", ((2, "two"),))
    assert new.is_new and new.added_lines == ((1, "x = 1"), (2, "y = 2")) and new.lacks_final_newline
    assert gone.is_deleted
    assert fetched.contents == {"depot/main/pump.c": "one\ntwo\nthree\n", "depot/main/new.py": "x = 1\ny = 2"}
    assert p4.calls()[0] == ["describe", "-du", "1234"]


@pytest.mark.parametrize(
    "depots",
    [(), ("//depot/other/",), ("//depot/mai",), ("//depot/main/pump.c",), ("",), ("/",), ("//",), ("depot/main",)],
)
async def test_the_allow_list_fails_closed(p4: FakeP4, depots: tuple[str, ...]) -> None:
    assert await failure_of(policy=P4Policy(depots)) == (Category.POLICY, "DEPOT_REFUSED")
    assert [call[0] for call in p4.calls()] == ["describe"]  # no content was asked for


@pytest.mark.parametrize(
    "line",
    ["... //depot/secret/x.c#1 edit", "... //depot/main/../secret/x.c#1 edit", "... //depot/main/...#1 edit"],
)
async def test_one_path_outside_refuses_the_whole_changelist(
    p4: FakeP4, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    p4.install(monkeypatch, {"1234": DESCRIBE.replace("\nDifferences", f"{line}\n\nDifferences")})
    assert (await failure_of())[1] == "DEPOT_REFUSED"


async def test_a_path_that_only_the_differences_name_is_refused_too(
    p4: FakeP4, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = "\n==== //depot/secret/x.c#1 (text) ====\n\n@@ -1 +1 @@\n-a\n+b\n"
    p4.install(monkeypatch, {"1234": DESCRIBE + extra})
    assert (await failure_of())[1] == "DEPOT_REFUSED"


@pytest.mark.parametrize("number", ["", "-S", "12a", "12;ls", "0", "1 2", "１２", "12345678901", "default"])
async def test_only_plain_numbers_reach_p4(p4: FakeP4, number: str) -> None:
    assert await failure_of(number) == (Category.VALIDATION, "CHANGELIST_INVALID")
    assert p4.calls() == []


@pytest.mark.parametrize(
    ("said", "category"),
    [
        ("12 - no such changelist.", Category.NOT_FOUND),
        ("Perforce password (P4PASSWD) invalid or unset.", Category.AUTH),
        ("Your session has expired, please login again.", Category.AUTH),
        ("Perforce client error:\n\tConnect to server failed; check $P4PORT.", Category.NETWORK),
        ("Something else", Category.BUG),
    ],
)
async def test_what_p4_says_decides(p4: FakeP4, monkeypatch: pytest.MonkeyPatch, said: str, category: Category) -> None:
    p4.install(monkeypatch, {}, error=said)
    assert (await failure_of())[0] is category


async def test_output_that_is_no_description_is_an_error(p4: FakeP4, monkeypatch: pytest.MonkeyPatch) -> None:
    p4.install(monkeypatch, {"1234": "hello\n"})
    assert (await failure_of())[1] == "DEPOT_REFUSED"


async def test_a_changelist_that_only_adds_has_no_differences(p4: FakeP4, monkeypatch: pytest.MonkeyPatch) -> None:
    only_adds = DESCRIBE[: DESCRIBE.index("... //depot/main/pump")] + "... //depot/main/new.py#1 add\n\n"
    p4.install(monkeypatch, {"1234": only_adds, "//depot/main/new.py#1": "x = 1\n"})
    (file,) = parse_diff((await fetch()).diff).files
    assert file.is_new and file.added_lines == ((1, "x = 1"),)
