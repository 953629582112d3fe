"""The daily loop: one job here and now, and a worker that follows the code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import Result

from holdfast.cli.reload import changes, stamps
from holdfast.cli.run import load_job
from holdfast.errors import BadDeclaration
from tests.command_line import invoke

pytestmark = pytest.mark.spec("K17")
SHOP = """
from holdfast import App, Context, Job, Provider, Retry, stage

app = App("corner")
bank = Provider("bank", effects="token")
tries = []


@app.job()
class PlaceOrder(Job[int, str]):
    @stage(retry=Retry(attempts=2, base_s=60, jitter="none"))
    async def check(self, ctx: Context, number: int) -> int:
        tries.append(number)
        if len(tries) == 1:
            raise ConnectionError("busy, password=hunter2hunter2")
        if number < 0:
            raise KeyError("no such order")
        return number

    @stage(provider=bank)
    async def pay(self, ctx: Context, number: int, check: int) -> str:
        async def send(token: str) -> str:
            return "charge-1"

        return await ctx.effect(("charge", number), send=send)


def hidden():
    lost = App("lost")

    @lost.job()
    class Lost(Job[int]):
        @stage()
        async def run(self, ctx: Context, number: int) -> None: ...

    return Lost


Lost = hidden()
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "corner_shop.py").write_text(SHOP)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("corner_shop", None)


def run(*words: str) -> Result:
    return invoke(["run", *words])


def test_one_job_is_run_at_once_and_its_timeline_shown(shop: Path) -> None:
    found = run("corner_shop:PlaceOrder", "7")
    assert found.exit_code == 0, found.output
    lines = found.stdout.splitlines()
    assert lines[0].startswith("corner.place_order ")
    assert [line.split()[2] for line in lines[1:8]] == [
        "created", "claimed", "retried", "claimed", "advanced", "claimed", "succeeded",
    ]  # fmt: skip
    assert "60.0" in lines[4] and "hunter2" not in found.output
    assert "  result of check: 7" in lines and "  effect corner:/charge/7: sent" in lines
    assert lines[-1].startswith("It succeeded")


def test_a_job_that_dies_shows_where_and_exits_1(shop: Path) -> None:
    found = run("corner_shop:PlaceOrder", "-7")
    assert found.exit_code == 1
    assert "PlaceOrder.check" in found.stdout and "KeyError: 'no such order'" in found.stdout
    assert found.stdout.splitlines()[-1] == "It died in the stage 'check' of BUG (exhausted) after 2 attempts."


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["corner_shop:PlaceOrder", "nine"], "The input is no JSON: "),
        (["corner_shop:PlaceOrder", '"nine"'], "The input of 'corner.place_order' does not fit: "),
        (["corner_shop:PlaceOrder"], "The input of 'corner.place_order' does not fit: "),
        (["corner_shop", "9"], "'corner_shop' does not name a job; write module:Class."),
        (["corner_shop:Nobody", "9"], "'corner_shop' has no job named 'Nobody'; it has PlaceOrder, Lost."),
        (["corner_shop:app", "9"], "An instance of App is no job class; declare one with @app.job()"),
        (["no_such_shop:X", "9"], "The module 'no_such_shop' cannot be imported: "),
    ],
)
def test_a_mistake_is_one_sentence(shop: Path, words: list[str], sentence: str) -> None:
    found = run(*words)
    assert found.exit_code == 1 and found.stderr.startswith(sentence) and found.stderr.count("\n") == 1


def test_a_job_whose_app_cannot_be_found_is_named(shop: Path) -> None:
    with pytest.raises(BadDeclaration, match="The app that declares 'Lost' is no name of 'corner_shop'"):
        load_job("corner_shop:Lost")


def test_changed_added_and_removed_code_is_noticed_and_other_files_are_not(tmp_path: Path) -> None:
    for name in ("a.py", "b.py", "notes.txt"):
        (tmp_path / name).write_text("1")
    (tmp_path / ".venv").mkdir()
    before = stamps(tmp_path)
    assert changes(before, stamps(tmp_path)) == []
    (tmp_path / "notes.txt").write_text("2")
    (tmp_path / ".venv" / "c.py").write_text("1")
    assert changes(before, stamps(tmp_path)) == []
    os.utime(tmp_path / "a.py", ns=(1, 1))
    (tmp_path / "b.py").unlink()
    (tmp_path / "d.py").write_text("1")
    assert changes(before, stamps(tmp_path)) == ["a.py", "b.py", "d.py"]


@contextmanager
def reloading(folder: Path) -> Iterator[subprocess.Popen[str]]:
    env = {**os.environ, "HOLDFAST_DATABASE_URL": f"sqlite:///{folder / 'shop.db'}", "HOLDFAST_WORKER_CONCURENCY": "3"}
    env["HOLDFAST_AUTO_MIGRATE"] = "true"
    command = [sys.executable, "-m", "holdfast", "worker", "--reload", "--app", "corner_shop:app"]
    process = subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(process: subprocess.Popen[str], words: str) -> list[str]:
    """The lines up to one with these words."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if words in line:
            return lines
    raise AssertionError("".join(lines))


@pytest.mark.slow
def test_a_worker_follows_the_code_and_survives_code_that_cannot_start(shop: Path) -> None:
    path = shop / "corner_shop.py"
    with reloading(shop) as process:
        first = until(process, "worker.started")
        assert "you may mean HOLDFAST_WORKER_CONCURRENCY" in "".join(first)
        path.write_text("def broken(:\n")
        until(process, "Reloading: corner_shop.py changed.")
        until(process, "The worker has ended with exit code 1; waiting for a change.")
        path.write_text(SHOP.replace("PlaceOrder", "TakeOrder"))
        assert "corner.take_order" in until(process, "worker.started")[-1]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
