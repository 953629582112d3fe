"""Providers that cannot work as declared are refused where they are declared."""

from __future__ import annotations

import math

import pytest

from holdfast import Provider


@pytest.mark.spec("K18")
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"per_minute": 0}, "per_minute of 0"),
        ({"per_minute": -3}, "per_minute of -3"),
        ({"per_minute": 1.5}, "per_minute of 1.5"),
        ({"per_minute": True}, "per_minute of True"),
        ({"concurrency": 0}, "concurrency of 0"),
        ({"per_minute": 6, "burst": 0}, "burst of 0"),
        ({"burst": 6}, "burst without per_minute"),
        ({"effects": "tokens"}, "token, lookup or neither"),
        ({"timeout_s": 0}, "timeout_s of 0"),
        ({"timeout_s": math.nan}, "timeout_s of nan"),
        ({"timeout_s": math.inf}, "timeout_s of inf"),
        ({"retention_s": -1}, "retention_s of -1"),
        ({"late_bound_s": -1}, "late_bound_s of -1"),
        ({"retry_after_max_s": -0.1}, "retry_after_max_s of -0.1"),
        ({"hold_max_s": math.nan}, "hold_max_s of nan"),
    ],
)
def test_a_provider_that_cannot_work_is_refused_in_one_sentence(fields: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        Provider("llm", **fields)  # type: ignore[arg-type]
    said = str(refused.value)
    assert said.startswith("The provider 'llm' ") and said.endswith(".") and "\n" not in said


@pytest.mark.spec("K4")
def test_what_a_provider_asks_for_is_cut_only_where_it_is_declared_so() -> None:
    assert Provider("llm").asked_ms(86_400_000) == 86_400_000
    assert Provider("llm", retry_after_max_s=300).asked_ms(86_400_000) == 300_000
    assert Provider("llm", retry_after_max_s=300).asked_ms(299_999) == 299_999
