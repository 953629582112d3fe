"""How seldom a process of ours looks for cyclic garbage."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest

from holdfast import App
from holdfast.cli.program import _run_duties
from holdfast.engines.collecting import PYTHONS_OWN, collect_seldom
from holdfast.engines.run import Duties
from holdfast.kernel.kernel import Kernel
from holdfast.settings import Settings


@pytest.fixture(autouse=True)
def _as_python_has_it() -> None:
    gc.set_threshold(*PYTHONS_OWN)


def test_what_was_loaded_is_not_looked_at_and_the_rest_by_how_much_is_under_way() -> None:
    with collect_seldom(400):
        assert gc.get_freeze_count() > 10_000
        assert gc.get_threshold() == (20_700, 10, 10)
    assert gc.get_freeze_count() == 0 and gc.get_threshold() == PYTHONS_OWN


def test_thresholds_that_somebody_has_set_stand() -> None:
    gc.set_threshold(5_000, 3, 2)
    with collect_seldom(400):
        assert gc.get_threshold() == (5_000, 3, 2)
    assert gc.get_threshold() == (5_000, 3, 2)
    gc.set_threshold(*PYTHONS_OWN)


@pytest.mark.parametrize(("at_once", "queues"), [(7, {}), (99, {"looks": 7})])
async def test_a_worker_process_collects_so(tmp_path: Path, at_once: int, queues: dict[str, int]) -> None:
    app, seen = App("looks"), asyncio.Queue[tuple[int, int, int]]()

    @app.step(every_s=60)
    async def look(kernel: Kernel) -> int:
        seen.put_nowait(gc.get_threshold())
        return 0

    settings = Settings(data_dir=str(tmp_path), database_url=f"sqlite:///{tmp_path / 'looks.db'}", auto_migrate="true")
    duties = Duties(concurrency=at_once, relay=False, consume=False, queues=queues)
    running = asyncio.ensure_future(_run_duties(settings, [], [app], duties))
    assert await asyncio.wait_for(seen.get(), 30) == (1_050, 10, 10)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
