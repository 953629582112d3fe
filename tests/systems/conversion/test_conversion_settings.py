"""Every knob of the source has its name, its default and its effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import Breaker
from holdfast.http.limits import UserLimits
from holdfast.main import load_systems
from holdfast.settings import Settings, problems, read
from holdfast.settings.names import describe
from holdfast.system import OpenSystem
from holdfast_systems.conversion.embedded import EmbeddedGateway, Limits
from holdfast_systems.conversion.gateway import GrobidGateway, HttpGateway, gateway_for
from holdfast_systems.conversion.jobs import build
from holdfast_systems.conversion.settings import ConversionSettings
from holdfast_systems.conversion.system import system

pytestmark = pytest.mark.spec("C11")
KNOBS = [
    "RETRY_MAX_ATTEMPTS",
    "RETRY_BASE_DELAY_MS",
    "RETRY_JITTER_MAX_MS",
    "WORKER_LEASE_TTL_SEC",
    "GATEWAY_TIMEOUT_MS",
    "WORKER_CONCURRENCY",
    "CIRCUIT_WINDOW",
    "CIRCUIT_FAIL_THRESHOLD",
    "CIRCUIT_COOLDOWN_MS",
    "DATABASE_URL",
    "GATEWAY_URL",
    "UPLOADS_DIR",
    "RESULTS_DIR",
]


@pytest.mark.spec("001.34")
def test_every_knob_of_the_source_is_there_and_documented() -> None:
    told = {name: doc for name, _, doc in describe(ConversionSettings)}
    assert [knob for knob in KNOBS if not told.get(knob)] == []


def test_the_defaults_are_the_sources() -> None:
    made = read(ConversionSettings, {})
    assert (made.attempts_max, made.retry_base_ms, made.retry_jitter_ms) == (3, 5_000, 5_000)
    assert (made.circuit_window, made.circuit_fail_threshold, made.breaker.inclusive) == (20, 0.5, True)
    assert (made.breaker.mode, made.concurrency) == ("hold", 2)
    assert made.breaker == Breaker(
        mode="hold", window=20, open_above=0.5, inclusive=True, failures_in_a_row=10, cooldown_s=5.0, trials=5
    )
    assert (made.user_limits, made.gateway_timeout_s) == (UserLimits(60, 100), 120.0)


@pytest.mark.spec("001.6")
def test_the_delay_is_the_sources_formula() -> None:
    retry = read(ConversionSettings, {"RETRY_MAX_ATTEMPTS": "9"}).retry
    for attempt in range(8):
        assert retry.delay_ms(attempt + 1, 0.0) == 5_000 * 2**attempt
        assert retry.delay_ms(attempt + 1, 0.5) == 5_000 * 2**attempt + 2_500


@pytest.mark.spec("001.34")
def test_a_knob_turns_what_it_says(tmp_path: Path) -> None:
    env = {
        "HOLDFAST_DATA_DIR": str(tmp_path),
        "RETRY_MAX_ATTEMPTS": "7",
        "GATEWAY_TIMEOUT_MS": "1500",
        "CIRCUIT_WINDOW": "4",
        "CIRCUIT_FAIL_THRESHOLD": "0.25",
        "CIRCUIT_COOLDOWN_MS": "3000",
        "UPLOADS_DIR": str(tmp_path / "in"),
        "RESULTS_DIR": str(tmp_path / "out"),
    }
    app = build(env)
    one = app.kinds["conversion.convert"].by_name["convert"]
    assert one.provider is not None and one.provider.breaker is not None
    breaker = one.provider.breaker
    assert (one.plan.retry.attempts, one.provider.timeout_s) == (7, 1.5)
    assert (breaker.window, breaker.open_above, breaker.trials) == (4, 0.25, 3)
    assert (tmp_path / "in").is_dir() and (tmp_path / "out").is_dir()


@pytest.mark.parametrize(("asked", "own", "given"), [(50, {}, 2), (8, {"WORKER_CONCURRENCY": "8"}, 8)])
def test_the_concurrency_is_this_systems_own(asked: int, own: dict[str, str], given: int) -> None:
    from holdfast.engines.run import Duties

    opened = OpenSystem(system(), None, own)  # type: ignore[arg-type]
    assert opened.duties(Duties(concurrency=asked)).concurrency == given


@pytest.mark.spec("C9", "C11")
def test_the_gateway_is_the_one_that_is_named() -> None:
    made = gateway_for(None, limits=Limits(pages=5))
    assert isinstance(made, EmbeddedGateway) and made.limits.pages == 5
    assert isinstance(gateway_for("http://x/convert"), HttpGateway)
    assert isinstance(gateway_for("grobid+https://x"), GrobidGateway)


def test_what_cannot_work_is_said_in_sentences() -> None:
    wrong = {
        "GATEWAY_URL": "ftp://x",
        "WEBHOOK_SECRET": "short",
        "DATABASE_URL": "mysql://x",
        "UPLOADS_DIR": "same",
        "RESULTS_DIR": "same",
    }
    found = problems(ConversionSettings, wrong)
    assert [sentence.split()[0] for sentence in found] == [
        "DATABASE_URL",
        "GATEWAY_URL",
        "WEBHOOK_SECRET",
        "UPLOADS_DIR",
    ]
    assert "short" not in " ".join(found)
    assert len(problems(ConversionSettings, {"RETRY_MAX_ATTEMPTS": "0", "CIRCUIT_FAIL_THRESHOLD": "2"})) == 2


def test_the_system_is_found_by_its_name() -> None:
    [found] = load_systems(["conversion"])
    assert (found.name, found.database, found.settings) == ("conversion", "DATABASE_URL", (ConversionSettings,))


@pytest.mark.spec("C11")
def test_a_shared_name_means_the_same_in_both_groups() -> None:
    shared = {name: default for name, default, _ in describe(Settings)}
    for name, default, _ in describe(ConversionSettings):
        if name in shared and name != "WORKER_CONCURRENCY":  # its own, smaller default: a conversion is heavy
            assert default == shared[name], name
