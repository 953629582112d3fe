"""When the provider wants us back: every spelling in use, and no answer to nonsense."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.core.retry_after import retry_after_ms, should_retry

NOW = 784_111_777_000  # Sun, 06 Nov 1994 08:49:37 GMT, the example of the HTTP standard


@pytest.mark.spec("K4")
@pytest.mark.parametrize(
    ("headers", "wait_ms"),
    [
        ({}, None),
        ({"Retry-After": "120"}, 120_000),
        ({"retry-after": " 0.25 "}, 250),
        ({"RETRY-AFTER": "0"}, 0),
        ({"retry-after": "1.0001"}, 1_001),
        ({"retry-after-ms": "1500.2"}, 1_501),
        ({"Retry-After-Ms": "10", "Retry-After": "99"}, 10),
        ({"retry-after-ms": "soon", "Retry-After": "2"}, 2_000),
        ({"Retry-After": "Sun, 06 Nov 1994 08:50:37 GMT"}, 60_000),
        ({"Retry-After": "Sunday, 06-Nov-94 08:50:37 GMT"}, 60_000),
        ({"Retry-After": "Sun Nov  6 08:50:37 1994"}, 60_000),
        ({"Retry-After": "Sun, 06 Nov 1994 08:00:00 GMT"}, 0),
        ({"Retry-After": "1e308"}, 10**15),
        ({"Retry-After": "9" * 400}, None),
    ],
)
def test_retry_after_is_read_in_seconds_milliseconds_and_dates(headers: dict[str, str], wait_ms: int | None) -> None:
    assert retry_after_ms(headers, NOW) == wait_ms


@pytest.mark.spec("K4")
@pytest.mark.parametrize("nonsense", ["", "-1", "nan", "inf", "-inf", "soon", "1;2", "Sun, 99 Nov 1994 99:99:99 GMT"])
def test_nonsense_is_no_answer(nonsense: str) -> None:
    for name in ("retry-after-ms", "retry-after", "x-ratelimit-reset-requests", "anthropic-ratelimit-tokens-reset"):
        assert retry_after_ms({name: nonsense}, NOW) is None


@pytest.mark.spec("K4")
@pytest.mark.parametrize(
    ("headers", "wait_ms"),
    [
        ({"x-ratelimit-reset-requests": "12ms"}, 12),
        ({"x-ratelimit-reset-tokens": "6m0s"}, 360_000),
        ({"x-ratelimit-reset-tokens": "1h2m3.5s"}, 3_723_500),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "3s"}, 3_000),
        ({"x-ratelimit-reset-requests": "7"}, 7_000),
        ({"x-ratelimit-reset-requests": "1s and more"}, None),
        ({"x-ratelimit-reset-requests": "9" * 400 + "s"}, 10**15),
        ({"anthropic-ratelimit-requests-reset": "1994-11-06T08:49:38Z"}, 1_000),
        ({"anthropic-ratelimit-tokens-reset": "1994-11-06T08:49:38"}, 1_000),
        ({"anthropic-ratelimit-tokens-reset": "1994-11-06T09:49:38+01:00"}, 1_000),
        ({"retry-after": "soon", "x-ratelimit-reset-requests": "4s"}, 4_000),
        ({"retry-after": "1", "x-ratelimit-reset-requests": "4s"}, 1_000),
    ],
)
def test_vendors_reset_hints_are_the_last_resort(headers: dict[str, str], wait_ms: int | None) -> None:
    assert retry_after_ms(headers, NOW) == wait_ms


@pytest.mark.spec("K4")
def test_hints_can_be_left_out() -> None:
    assert retry_after_ms({"x-ratelimit-reset-tokens": "6m0s"}, NOW, hints=False) is None
    assert retry_after_ms({"retry-after": "2"}, NOW, hints=False) == 2_000
    assert retry_after_ms({"retry-after": "Sun, 06 Nov 1994 08:50:37 GMT"}, NOW, hints=False) == 60_000


@pytest.mark.spec("K4")
@given(
    st.sampled_from(["retry-after-ms", "retry-after", "x-ratelimit-reset-requests"]),
    st.text() | st.text("0123456789.eE+-_:,msh GMTSunNov") | st.floats().map(str) | st.datetimes().map(str),
)
@example("retry-after", "Mon, 01 Jan 0001 00:00:00 +2359")
@example("x-ratelimit-reset-requests", "0001-01-01T00:00:00+23:59")
def test_no_header_can_break_the_reader(name: str, value: str) -> None:
    wait_ms = retry_after_ms({name: value}, NOW)
    assert wait_ms is None or 0 <= wait_ms <= 10**15


@pytest.mark.spec("K4")
@given(st.integers(0, 10**9))
def test_whole_seconds_are_read_exactly(seconds: int) -> None:
    assert retry_after_ms({"Retry-After": str(seconds)}, NOW) == seconds * 1_000


@pytest.mark.spec("K5")
@pytest.mark.parametrize(
    ("headers", "word"),
    [
        ({}, None),
        ({"X-Should-Retry": "true"}, True),
        ({"x-should-retry": " False "}, False),
        ({"x-should-retry": "maybe"}, None),
        ({"x-should-retry": ""}, None),
        ({"x-cached": "false", "x-shed": "true"}, None),
        ({"x-cached": "true", "Stripe-Should-Retry": "false"}, False),
    ],
)
def test_the_provider_may_say_whether_to_retry(headers: dict[str, str], word: bool | None) -> None:
    assert should_retry(headers) is word
