"""What a system's settings say arrives where it counts, in its unit and in its place."""

from __future__ import annotations

from datetime import datetime

import pytest

from holdfast.http.problem import Problem
from holdfast_systems.conversion.public_problem import public_problem
from holdfast_systems.conversion.settings import ConversionSettings
from holdfast_systems.grading.contract import _read_utc

pytestmark = [pytest.mark.spec("K30"), pytest.mark.fast]


def test_a_webhook_is_given_the_seconds_of_its_setting() -> None:
    policy = ConversionSettings(webhook_timeout_ms=2_500).outbound
    assert (policy.total_s_max, policy.connect_s_max) == (2.5, 2.5)


def test_a_refusal_under_a_public_code_keeps_its_headers() -> None:
    told = public_problem(Problem(429, "RATE_LIMITED_HERE", "Too many.", headers={"Retry-After": "7"}))
    assert told.headers == {"Retry-After": "7"}


def test_a_time_without_its_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="must have a time zone"):
        _read_utc(datetime(2026, 1, 31, 12))  # noqa: DTZ001 - that is what is refused
