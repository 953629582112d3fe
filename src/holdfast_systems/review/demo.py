"""Review in `holdfast demo`: the last commit of a repository, made on the spot, is criticised and mailed."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path
from typing import Any

from holdfast import HoldfastError
from holdfast.playground.demo_stage import Demo, DemoAccepted, DemoStage, DemoStanding

BEFORE = "def total(prices):\n    return sum(prices)\n"
AFTER = """import os


def total(prices, discounts=[]):
    result = 0
    for price in prices:
        result += price
    for discount in discounts:
        result -= discount
    return result


def average(prices):
    try:
        return total(prices) / len(prices)
    except:
        return None
"""


async def play(on: DemoStage) -> list[DemoAccepted]:
    if not shutil.which("git"):
        return []
    repository = on.folder / "repository"
    await asyncio.to_thread(make_repository, repository)
    body = {
        "idempotency_key": "demo-review",
        "review_version": 1,
        "recipients": ["ada@example.test"],
        "source": {"type": "git", "repo": str(repository), "range": "HEAD~1..HEAD"},
    }
    url = "/api/changelists/demo/reviews"
    await on.ask("POST", url, json=body)
    accepted = DemoAccepted("review", "changelist HEAD~1..HEAD", f"{url}/1", _standing)
    await on.follow(accepted, _outcome)
    return [accepted]


def _standing(review: dict[str, Any]) -> DemoStanding:
    return {"succeeded": DemoStanding.DONE, "failed": DemoStanding.FAILED}.get(
        review["status"], DemoStanding.UNFINISHED
    )


def _outcome(review: dict[str, Any]) -> str:
    sent = sum(delivery["status"] == "sent" for delivery in review["deliveries"])
    return f"[green]reviewed[/]: {len(review['result']['findings'])} findings, {sent} mail"


def make_repository(folder: Path) -> None:
    """A repository of two commits; HEAD~1..HEAD is worth a remark or two."""
    folder.mkdir()
    _git(folder, "init", "--quiet")
    for content, message in ((BEFORE, "Add up prices"), (AFTER, "Subtract discounts")):
        (folder / "prices.py").write_text(content)
        _git(folder, "add", "prices.py")
        _git(folder, "commit", "--quiet", "--no-gpg-sign", "--no-verify", "-m", message)


def _git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=Demo", "-c", "user.email=demo@localhost", "-c", "core.hooksPath=/dev/null")
    done = subprocess.run(["git", "-C", str(folder), *who, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HoldfastError(f"git {words[0]} failed: {done.stderr.strip()}")


DEMO = Demo(play, settings=lambda folder: {"REVIEW_LOCAL_ROOTS": str(folder)})
