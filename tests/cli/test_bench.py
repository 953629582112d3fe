"""`holdfast bench` measures the user's own database and leaves nothing in it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli import cli
from holdfast.main import open_store
from holdfast.tables import jobs
from holdfast_proof.bench import Figures


def test_the_bench_prints_figures_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path / 'b.db'}")
    done = CliRunner().invoke(cli, ["bench", "--jobs", "200", "--json"])
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout)
    assert all(figures[name] > 0 for name in ("enqueue_per_s", "bulk_enqueue_per_s", "jobs_per_s", "pickup_p50_ms"))
    assert figures["advice"]


async def test_the_bench_leaves_no_job_behind(tmp_path: Path) -> None:
    from holdfast_proof.bench import bench

    store = open_store(f"sqlite:///{tmp_path / 'b.db'}")
    await bench(store, 100)
    async with store.reading() as tx:
        assert await jobs.page(tx) == []
    await store.close()


def test_advice_names_what_limits() -> None:
    fine = Figures(4_000, 40_000, 9_000, 3.0, 6.0, 1.0, 0.2, True)
    assert "Nothing stands out" in fine.advice(has_one_writer=False)[0]
    assert "flatter" in replace(fine, is_durable=False).advice(has_one_writer=False)[0]
    assert "there and back" in replace(fine, round_trip_ms=4.0, commit_ms=5.0).advice(has_one_writer=False)[0]
    assert "disk is the limit" in replace(fine, commit_ms=9.0).advice(has_one_writer=False)[0]
    assert "lacks CPU" in replace(fine, pickup_p50_ms=40.0).advice(has_one_writer=False)[0]
    assert "one writer" in fine.advice(has_one_writer=True)[0]
