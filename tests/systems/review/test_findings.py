"""Findings as a reader gets them: changed lines only, each once, always in the same order."""

import random

import pytest

from holdfast_systems.review.changelist import parse_diff
from holdfast_systems.review.findings import Finding, counted, counts, settle

pytestmark = pytest.mark.spec("R8")

CHANGE = parse_diff("--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,3 @@\n one\n+two\n+three\n-four\n")


def finding(line: int, severity: str = "warning", path: str = "x.py", message: str = "m", **more: str) -> Finding:
    return Finding(path, line, severity, more.get("rule", "r"), message, more.get("critic", "c"))  # type: ignore[arg-type]


def test_only_changed_lines_and_files_of_the_change_are_kept() -> None:
    given = [finding(1), finding(2), finding(3), finding(4), finding(0), finding(2, path="other.py")]
    general = finding(0, path="", message="a tool did not run")
    assert settle([*given, general], CHANGE) == (general, finding(0), finding(2), finding(3))


def test_the_same_remark_is_kept_once_and_the_gravest_stays() -> None:
    twice = [finding(2, "info", critic="a"), finding(2, "error", message=" M ", critic="b"), finding(2, "warning")]
    assert settle(twice, CHANGE) == (finding(2, "error", message=" M ", critic="b"),)


def test_the_order_does_not_depend_on_who_spoke_first() -> None:
    given = [finding(n, s, message=m) for n in (0, 2, 3) for s in ("info", "error") for m in ("a", "b", "c")]
    expected = settle(given, CHANGE)
    for seed in range(20):
        shuffled = random.Random(seed).sample(given, len(given))
        assert settle(shuffled, CHANGE) == expected
    assert [f.line for f in expected] == sorted(f.line for f in expected)


def test_counts_name_every_severity() -> None:
    given = [finding(2, "error"), finding(3, "info"), finding(3, "info", message="n")]
    assert dict(counts(given)) == {"error": 1, "warning": 0, "info": 2}
    assert counted(given) == "1 error, 0 warnings, 2 remarks"
