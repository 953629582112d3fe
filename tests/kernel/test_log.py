"""The log: one JSON object a line, with the fields that a person searches by."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast import App, Breaker, CallError, Category, Context, Job, Provider, Retry, stage
from holdfast.engines.worker import Worker
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.observe.provider_status import note_status
from holdfast.kernel.observe.watch import JsonFormatter, LogWatch, TextFormatter
from holdfast.kernel.submit import submit
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing import HandClock
from tests.kernel.places import Place

pytestmark = pytest.mark.spec("K17")
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
app = App("logged")
shaky = Provider("shaky", breaker=Breaker(window=4, min_calls=2, open_above=0.5))


@app.job()
class Try(Job[str]):
    @stage(provider=shaky, retry=Retry(attempts=2, base_s=0, jitter="none"))
    async def ask(self, ctx: Context, word: str) -> None:
        async def call() -> None:
            message = f"503 from upstream; password={word}"
            raise CallError.of(Category.UPSTREAM, "UPSTREAM_INTERNAL", message, status=503, faults=True)

        await ctx.call(call)


@app.job()
class GiveUp(Job[str]):
    @stage()
    async def ask(self, ctx: Context, word: str) -> None:
        raise CallError.of(Category.AUTH, "AUTH_DENIED", f"403; password={word}")


async def lines(tmp_path: Path, caplog: pytest.LogCaptureFixture, formatter: logging.Formatter) -> list[str]:
    kernel = Kernel(store=SqliteStore(tmp_path / "log.db"), registry=Registry([app]))
    await kernel.migrate()
    with caplog.at_level(logging.DEBUG, logger="holdfast"):
        job_id = await submit(kernel, Try, "hunter2", trace=TRACE)
        await submit(kernel, GiveUp, "hunter2")
        await Worker(kernel).run_until_idle()
    await kernel.store.close()
    told = [formatter.format(record) for record in caplog.records if record.name == "holdfast"]
    assert any(job_id in line for line in told)
    return told


async def test_a_line_has_what_a_person_searches_by(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told = [json.loads(line) for line in await lines(tmp_path, caplog, JsonFormatter())]
    retried = next(line for line in told if line["event"] == "retried")
    names = ("status", "stage", "attempt", "provider_status", "error_code", "breaker_state", "trace")
    assert {name: retried[name] for name in names} == {
        "status": "queued",
        "stage": "ask",
        "attempt": 1,
        "provider_status": 503,
        "error_code": "UPSTREAM_INTERNAL",
        "breaker_state": "closed",
        "trace": TRACE,
    }
    assert retried["duration_ms"] >= 0 and retried["job_id"] and retried["at"] and retried["level"] == "warning"
    changed = next(line for line in told if line["event"] == "breaker")
    assert (changed["provider"], changed["breaker_state"], changed["level"]) == ("shaky", "open", "warning")
    buried = next(line for line in told if line["event"] == "buried")
    assert buried["level"] == "error" and "hunter2" not in json.dumps(told)


calm = App("calm")
oracle = Provider("oracle")


@calm.job()
class Ask(Job[str]):
    @stage(provider=oracle)
    async def ask(self, ctx: Context, word: str) -> str:
        async def call() -> str:
            note_status(201)
            return word

        return await ctx.call(call)

    @stage()
    async def think(self, ctx: Context, word: str, said: str) -> None:
        pass


@pytest.mark.spec("001.27")
async def test_a_success_is_a_line_too_and_costs_nothing_where_nobody_listens(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    kernel = place.kernel(calm, clock=HandClock())
    with caplog.at_level(logging.INFO, logger="holdfast"):
        await submit(kernel, Ask, "x")
        await Worker(kernel).run_until_idle()
    ends = [json.loads(JsonFormatter().format(record)) for record in caplog.records if record.name == "holdfast"]
    names = ("event", "level", "status", "attempt", "provider_status", "breaker_state", "error_code")
    assert [tuple(line[name] for name in names) for line in ends] == [
        ("advanced", "info", "queued", 1, 201, "closed", None),
        ("succeeded", "info", "succeeded", 2, None, None, None),
    ]
    caplog.clear()
    kernel.watch = Unheard()
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        await submit(kernel, Ask, "x")
        await Worker(kernel).run_until_idle()


class Unheard(LogWatch):
    """Fails whoever makes a line that nobody hears."""

    def log(self, event: str, **fields: Any) -> None:
        assert self.is_enabled(event), f"the line about {event} was made for nobody"


unsure = App("unsure")


@unsure.job()
class Look(Job[str]):
    @stage(retry=Retry(attempts=2, base_s=0, jitter="none"))
    async def run(self, ctx: Context, word: str) -> None:
        raise KeyError(f"no entry for ann@example.test under {word}")


async def test_a_handlers_unexpected_exception_is_one_error_line_with_its_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kernel = Kernel(store=SqliteStore(tmp_path / "log.db"), registry=Registry([unsure]))
    await kernel.migrate()
    with caplog.at_level(logging.ERROR, logger="holdfast"):
        job_id = await submit(kernel, Look, "x")
        await Worker(kernel).run_until_idle()
    await kernel.store.close()
    told = [json.loads(JsonFormatter().format(record)) for record in caplog.records if record.name == "holdfast"]
    assert [(line["event"], line["job_id"], line["level"], line["attempt"]) for line in told] == [
        ("retried", job_id, "error", 1),
        ("buried", job_id, "error", 2),
    ]
    assert all("KeyError" in line["error"] and "test_log.py:" in line["traceback"] for line in told)
    assert "ann@" not in json.dumps(told)


@pytest.mark.spec("000.9")
@pytest.mark.parametrize(
    ("event", "fields", "level"),
    [
        ("outbox.stale", {}, logging.WARNING),
        ("held", {}, logging.WARNING),
        ("lease.lost", {}, logging.WARNING),
        ("breaker", {"breaker_state": "half_open"}, logging.WARNING),
        ("breaker", {"breaker_state": "closed"}, logging.INFO),
        ("buried", {}, logging.ERROR),
        ("review.marked_but_not_sent", {"alert": True}, logging.ERROR),
        ("submission", {}, logging.INFO),
        ("succeeded", {}, logging.INFO),
    ],
)
def test_a_line_is_as_loud_as_its_news(
    caplog: pytest.LogCaptureFixture, event: str, fields: dict[str, Any], level: int
) -> None:
    with caplog.at_level(level, logger="holdfast"):
        LogWatch().log(event, **fields)
    assert [record.levelno for record in caplog.records] == [level]
    caplog.clear()
    with caplog.at_level(level + 1, logger="holdfast"):
        LogWatch().log(event, **fields)
    assert not caplog.records


async def test_a_line_for_a_terminal_tells_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told = await lines(tmp_path, caplog, TextFormatter())
    retried = next(line for line in told if " retried " in line)
    assert all(word in retried for word in ("provider_status=503", "error_code=UPSTREAM_INTERNAL", "stage=ask"))


async def test_a_host_that_formats_its_own_lines_is_told_as_much(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told = await lines(tmp_path, caplog, logging.Formatter("%(levelname)s %(message)s"))
    retried = next(line for line in told if line.startswith("WARNING retried "))
    assert all(word in retried for word in ("provider_status=503", "error_code=UPSTREAM_INTERNAL", "stage=ask"))
    assert not any("hunter2" in line for line in told), "redacted, whoever writes it"


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()], ids=["json", "text"])
def test_what_an_exception_says_is_redacted(formatter: logging.Formatter) -> None:
    try:
        raise RuntimeError("cannot sign in with password=hunter2 as ann@example.test")
    except RuntimeError as error:
        told = (type(error), error, error.__traceback__)
    record = logging.LogRecord("other", logging.ERROR, "x.py", 1, "token=abc123def failed", None, told)
    line = formatter.format(record)
    assert "RuntimeError" in line and not any(word in line for word in ("hunter2", "abc123def", "ann@"))
    assert "\n" not in line


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()], ids=["json", "text"])
def test_a_line_has_the_time_in_utc_wherever_its_process_is(
    formatter: logging.Formatter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/Chicago")  # as Django does in every process of it
    time.tzset()
    try:
        line = formatter.format(logging.makeLogRecord({"created": 1_767_225_600.25, "msecs": 250.0, "msg": "hello"}))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert "2026-01-01T00:00:00.250Z" in line
