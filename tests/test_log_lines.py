"""Every log line that people search for: its name and its fields, as often as the source writes it. Whoever changes one
changes it here too, and in whatever reads the logs."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.test_shape import python_files

pytestmark = pytest.mark.spec("K17", "001.28")
LINES = {
    ("breaker", "breaker_state provider reason"): 2,
    ("callback", "callback_kind outcome request_id"): 1,
    ("callback.refused", "error request_id"): 1,
    ("decision.event", "** level"): 1,
    ("effect.duplicate", "** key"): 1,
    ("effect.in_review", "key provider reason"): 1,
    ("effect.marked_without_evidence", "key provider"): 1,
    ("effect.not_sent", "key provider"): 1,
    ("effect.unknown_to_provider", "key provider verdict"): 1,
    ("handler.left_behind", "job_id kind stage"): 1,
    ("keeper.taken", "owner"): 1,
    ("lease.lost", "attempt job_id"): 2,
    ("loop.blocked", "** blocked_s message stack"): 1,
    ("loop.unblocked", "** blocked_s message"): 1,
    ("message.unsigned", "message_id queue"): 1,
    ("migrate.waiting", "detail"): 1,
    ("outbox.set_aside", "destination error message_id"): 1,
    ("outbox.stale", "age_ms rows"): 1,
    ("queue.left", "homes jobs queue"): 1,
    ("request", "job_id outcome request_id"): 1,
    ("request.payload_differs", "request_id"): 1,
    ("request.refused", "error request_id"): 1,
    ("review.marked_but_not_sent", "alert job_id review_id"): 1,
    ("schedule.left", "error name"): 1,
    ("schema.newer", "detail"): 1,
    ("settle.spoiled", "error jobs"): 1,
    ("stale", "attempt job_id kind"): 1,
    ("step.failed", "error step wait_s"): 1,
    ("store.unreachable", "attempt error of"): 1,
    ("store.unreachable", "error system"): 2,
    ("stream.store_failed", "error"): 1,
    ("submission", "error_code status submission_id"): 1,
    ("thread.left_behind", "job_id kind stage"): 1,
    ("transport.unreachable", "error wait_s"): 1,
    ("worker.failed", "error level"): 1,
    ("worker.leases_kept", "jobs worker"): 1,
    ("worker.leases_left", "jobs worker"): 1,
    ("worker.newcomers_failed", "error"): 1,
    ("worker.renewal_failed", "error"): 2,
    ("worker.renewal_failed", "error job_id"): 1,
    (
        "worker.started or duties.started",
        "apps concurrency database duties engine grace_s kinds lease_s queues transport version",
    ): 1,
    ("worker.store_failed", "error job_id"): 1,
    ("worker.store_failed", "error job_id wait_s"): 1,
    ("worker.store_failed", "error wait_s"): 1,
    ("workers.dead", "workers"): 1,
}


def lines(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Name and fields of every `watch.log(...)`, whoever's watch it is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "log":
            holder = node.func.value
            if (holder.attr if isinstance(holder, ast.Attribute) else getattr(holder, "id", "")) == "watch":
                yield _name(node.args[0]), " ".join(sorted(keyword.arg or "**" for keyword in node.keywords))


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.IfExp):
        return f"{_name(node.body)} or {_name(node.orelse)}"
    return str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node)


def test_every_line_is_written_with_its_fields() -> None:
    assert Counter(line for path in python_files("src") for line in lines(ast.parse(path.read_text()))) == LINES


def test_the_walk_sees_a_field_that_is_gone() -> None:
    assert list(lines(ast.parse('self.kernel.watch.log("a.b", x=1, **rest)'))) == [("a.b", "** x")]
    assert list(lines(ast.parse('watch.log("a" if b else "c")'))) == [("a or c", "")]
