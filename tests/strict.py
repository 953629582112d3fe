"""What holds for every test: it ends within its time, and where CI=true it is run.

A test that hangs would hang the whole run. After its limit an alarm ends it where it stands, as a failure with its
stack; if not even that helps (a lock that no signal interrupts), its process is ended a minute later.

A test that skips proves nothing, and a skip takes it off the list of failures. At home that is said (`-ra`); on a build
server it is a failure, unless the test is marked `may_skip` with what this machine may lack.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

LIMIT_S, SLOW_LIMIT_S = 300.0, 1_200.0
"""Several times what the longest takes beside others on two busy cores."""
GRACE_S = 60.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--limit-s", type=float, default=None, help="end each test after so many seconds")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "may_skip(why): a machine may lack what it needs, a build server too")


def limit_of(item: pytest.Item) -> float:
    asked: float | None = item.config.getoption("--limit-s")
    return asked or (SLOW_LIMIT_S if item.get_closest_marker("slow") else LIMIT_S)


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Fail what takes longer. In another thread than the main one nothing is limited: no signal comes there."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def too_late(signal_number: int, frame: object) -> None:
        pytest.fail(f"It is not over after {seconds:g} s.")

    before = signal.signal(signal.SIGALRM, too_late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """The last resort: a test's setup, call and teardown together have three limits."""
    faulthandler.dump_traceback_later(3 * limit_of(item) + GRACE_S, exit=True, file=sys.__stderr__)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    with limited(limit_of(item)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    with limited(limit_of(item)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    with limited(limit_of(item)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and item.get_closest_marker("may_skip") is None:
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"Not run, and CI=true: {why}"
    return report
