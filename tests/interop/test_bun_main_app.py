"""The sample main app in Bun (docs/examples/bun-main-app), which knows our grading service by the contract alone."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.acceptance.grading_site import ENDS, PATIENCE_S, GradingSite
from tests.acceptance.process import until
from tests.interop.npm import Strangers
from tests.services import child
from tests.services.found import REPOSITORY

pytestmark = pytest.mark.slow
KEY = "a-key-of-both-services-that-is-long-enough"
SAMPLE = REPOSITORY / "docs" / "examples" / "bun-main-app" / "main.ts"


@pytest.fixture(scope="session")
def bun(strangers: Strangers) -> str:
    """Bun's own program, which comes inside its registry package. Optional: not every machine has a build of it."""
    found = next(strangers.modules.glob("@oven/bun-*/bin/bun"), None)
    ran = found is not None and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0
    if not ran:
        missing = "BUN IS NOT PROVEN HERE: its package has no build that runs on this machine"
        pytest.fail(missing) if os.environ.get("CI") == "true" else pytest.skip(missing)
    return str(found)


class BunApp:
    """The sample as a process that may be killed and started again over the same database."""

    def __init__(self, bun: str, strangers: Strangers, broker: str, folder: Path) -> None:
        self.log = folder / "bun.log"
        self.command = [bun, str(SAMPLE)]
        self.port = child.free_ports(1)[0]
        self.env = strangers.env(
            RABBITMQ_URL=broker, DATABASE=str(folder / "bun.db"), PORT=str(self.port), HOLDFAST_MESSAGE_KEYS=KEY
        )
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        self.process = child.start(self.command, log=self.log, env=self.env)

        async def answers() -> bool:
            return child.listens(self.port)

        await until(answers, f"Bun to listen; it said {self.log.read_text()}", PATIENCE_S)

    def end(self, number: signal.Signals) -> None:
        if self.process is not None:
            child.end(self.process, number)
        self.process = None

    async def post(self, text: str, key: str | None = None) -> httpx.Response:
        body = {"skill": "writing", "userId": "ann", "payload": {"text": text, "taskType": "essay", "questionId": "q1"}}
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", verify=False) as client:
            return await client.post("/submissions", json=body, headers={"Idempotency-Key": key or str(uuid4())})

    async def show(self, submission_id: str) -> dict[str, Any]:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", verify=False) as client:
            body: dict[str, Any] = (await client.get(f"/submissions/{submission_id}")).json()
        return body

    async def until_final(self, submission_id: str) -> dict[str, Any]:
        async def final() -> dict[str, Any] | None:
            shown = await self.show(submission_id)
            return shown if shown["status"] in (*ENDS, "FAILED") else None

        found = await until(final, f"an end of {submission_id}; Bun said {self.log.read_text()[-500:]}", PATIENCE_S)
        assert found is not None
        return found


@pytest.mark.spec("G17", "G18", "000.41", "002.22")
async def test_a_bun_main_app_is_served_by_our_grading_service(
    grading_site: GradingSite, strangers: Strangers, bun: str, tmp_path: Path
) -> None:
    app = BunApp(bun, strangers, grading_site.broker, tmp_path)
    await app.start()
    try:
        key = str(uuid4())
        first = await app.post("A first essay.", key)
        again, other = await app.post("A first essay.", key), await app.post("Another essay.", key)
        assert (first.status_code, again.json()["id"], other.status_code) == (201, first.json()["id"], 409)
        assert (await app.post("No key.", "not-a-uuid")).status_code == 400
        made = [first.json()["id"], *[(await app.post(f"Essay number {n}.")).json()["id"] for n in range(4)]]

        app.end(signal.SIGKILL)  # what was accepted is in its outbox, published or not
        grading_site.service(HOLDFAST_MESSAGE_KEYS=KEY)
        await app.start()
        made.append((await app.post("An essay after the crash.")).json()["id"])
        ended = [await app.until_final(submission_id) for submission_id in made]
    finally:
        app.end(signal.SIGTERM)
    assert {one["status"] for one in ended} <= set(ENDS)
    assert all(one["result"]["band"] and not one["isLate"] for one in ended)
    graded = grading_site.in_service("SELECT COUNT(*) AS n FROM grading_jobs")[0]["n"]
    assert graded == len(made), "a request that was published twice is graded once"
