"""What every contender measures itself with. Standard library only: peers run it in their own virtualenvs.

A runner is called as `RUNNER task count`, with the servers in its environment, and prints its figures as one line of
JSON. CPU is that of its own process and, where the harness names PostgreSQL's process, that of the database; what was
written is PostgreSQL's own account.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from bench.asking import ask

Figures = dict[str, float]
TICK = os.sysconf("SC_CLK_TCK")


def postgres_url() -> str:
    return os.environ["BENCH_POSTGRES_URL"]


def amqp_url() -> str:
    return os.environ["BENCH_AMQP_URL"]


def folder() -> Path:
    """A folder that is there for this run only."""
    return Path(os.environ["BENCH_FOLDER"])


WRITTEN = """SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0'), pg_snapshot_xmax(pg_current_snapshot())"""
"""How far the log has come, and how many transactions have written: exact at once, unlike the server's statistics."""
LEFT = """SELECT COALESCE(SUM(n_tup_upd + n_tup_del), 0), COALESCE(SUM(pg_total_relation_size(relid)), 0)
  FROM pg_stat_user_tables"""
"""Row versions that were left behind since the database was made, and what its tables and indexes take on disk."""


class Stopwatch:
    """Wall time, CPU and what was written, from its making to `stop`."""

    def __init__(self) -> None:
        self._written = written()
        self._database_s = database_cpu_s()
        self._cpu_s = time.process_time()
        self._began = time.perf_counter()

    def stop(self, jobs: int) -> Figures:
        seconds = time.perf_counter() - self._began
        cpu_s = time.process_time() - self._cpu_s
        database_s = database_cpu_s() - self._database_s
        wal_bytes, commits = (now - before for now, before in zip(written(), self._written, strict=True))
        return {
            "jobs": jobs,
            "seconds": seconds,
            "per_s": jobs / seconds,
            "worker_us": cpu_s / jobs * 1e6,
            "database_us": database_s / jobs * 1e6,
            "wal_bytes": wal_bytes / jobs,
            "commits": commits / jobs,
        }


def written() -> tuple[float, float]:
    """Bytes of PostgreSQL's log and transactions that wrote, so far; zeros where there is no PostgreSQL."""
    if "BENCH_POSTGRES_URL" not in os.environ:
        return 0.0, 0.0
    wal_bytes, commits = ask(postgres_url(), WRITTEN)
    return float(wal_bytes or 0), float(commits or 0)


def left_behind(url: str, jobs: float) -> Figures:
    """What a run whose processes have ended leaves in its database, for each of its jobs."""
    dead, on_disk = (float(value or 0) for value in ask(url, LEFT))
    return {"dead_versions": dead / jobs, "disk_bytes": on_disk / jobs} if jobs else {}


def latency(waits_ms: Sequence[float]) -> Figures:
    """The middle and the tail of what callers waited."""
    ordered = sorted(waits_ms)
    last = max(0, -(-len(ordered) * 99 // 100) - 1)
    return {"jobs": len(ordered), "p50_ms": ordered[(len(ordered) - 1) // 2], "p99_ms": ordered[last]}


def database_cpu_s() -> float:
    """CPU seconds of PostgreSQL and all its processes, living and gone; 0 where there is none."""
    root = int(os.environ.get("BENCH_POSTGRES_PID", "0"))
    return tree_cpu_s(root) if root else 0.0


def tree_cpu_s(root: int) -> float:
    """CPU seconds of a process, its children that ended, and its living children."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(stat.parent.name) == root:
            total += sum(map(int, fields[11:15]))
        elif int(fields[1]) == root:
            total += sum(map(int, fields[11:13]))
    return total / TICK


def rss_mb(pid: int | str = "self") -> float:
    """The memory that a process has in RAM."""
    return _status_mb(pid, "VmRSS:")


def most_mb(pid: int | str = "self") -> float:
    """The most memory that a process ever had in RAM."""
    return _status_mb(pid, "VmHWM:")


def _status_mb(pid: int | str, name: str) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in text.splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1_024


def tell(figures: Figures) -> None:
    print(json.dumps(figures), flush=True)
