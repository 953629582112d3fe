"""The same writes on SQLite by a bare loop: batched statements, one commit for a group's end and the next claim."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from bench.runs.kernels import kernel_over, orders
from bench.stopwatch import Figures, Stopwatch, folder

ROWS = 1_000
GROUP = 100
INSERT = """INSERT INTO holdfast_jobs (id, kind, queue, stage, priority, run_at, created_at, updated_at, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
EVENT = "INSERT INTO holdfast_job_events (job_id, attempt, type, at) VALUES (?, ?, ?, ?)"
CLAIM = """UPDATE holdfast_jobs SET state = 'processing', attempt = attempt + 1, lease_owner = 'bench',
  lease_until = :now + 60000, started_at = :now, last_attempt_at = :now, updated_at = :now
 WHERE id IN (SELECT id FROM holdfast_jobs WHERE state = 'queued' AND parked = 0 AND is_due = 1 AND queue = 'bench'
               AND priority = 2 AND run_at <= :now ORDER BY created_at LIMIT :limit)
RETURNING id, attempt"""
SETTLE = """UPDATE holdfast_jobs SET state = 'succeeded', finished_at = ?, updated_at = ?, lease_owner = NULL,
  lease_until = NULL WHERE id = ? AND attempt = ? AND state = 'processing'"""


async def embedded(count: int) -> Figures:
    path = folder() / "floor.db"
    async with kernel_over(url=f"sqlite:///{path}") as kernel:
        now = kernel.now()
        made = [(order.id, order.row.payload) for order in orders(kernel, count)]
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    watch = Stopwatch()
    _insert(connection, made, now)
    _work(connection, now + 1_000)
    return watch.stop(count)


def _insert(connection: sqlite3.Connection, made: Sequence[tuple[str, str]], now: int) -> None:
    for start in range(0, len(made), ROWS):
        part = made[start : start + ROWS]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            INSERT, [(i, "bench.Noop", "bench", "run", 2, now, now, now, payload) for i, payload in part]
        )
        connection.execute("COMMIT")


def _work(connection: sqlite3.Connection, now: int) -> None:
    held: list[tuple[str, int]] = []
    while True:
        connection.execute("BEGIN IMMEDIATE")
        if held:
            connection.executemany(SETTLE, [(now, now, i, attempt) for i, attempt in held])
            connection.execute(EVENT, (*held[0], "succeeded", now))
        held = connection.execute(CLAIM, {"now": now, "limit": GROUP}).fetchall()
        if held:
            connection.execute(EVENT, (*held[0], "claimed", now))
        connection.execute("COMMIT")
        if not held:
            return


TASKS = {"embedded": embedded}
