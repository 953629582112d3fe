"""A learner uploads a recording, names it in a submission, and it is graded without a request to a private host."""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import pytest
from tests.http.described import Described
from tests.systems.grading.pair import Pair

from holdfast.http.app import create_app
from holdfast.http.auth import token_for
from holdfast.settings import Settings
from holdfast.system import OpenSystem
from holdfast_systems.grading import recording_files
from holdfast_systems.grading.recording_files import keep, uploaded
from holdfast_systems.grading.system import grading_main

VILLAGE = (Path(__file__).parent / "data" / "village.ogg").read_bytes()
NAME = "a" * 43


@pytest.mark.spec("G16")
def test_only_a_name_of_ours_leads_to_a_file(tmp_path: Path) -> None:
    keep(tmp_path, NAME, VILLAGE, now_s=0.0)
    (tmp_path / "other").write_bytes(b"secret")
    assert uploaded(tmp_path, f"http://127.0.0.1:8000/api/recordings/{NAME}") == VILLAGE
    for url in (
        f"http://127.0.0.1:8000/api/{NAME}",
        "http://127.0.0.1:8000/api/recordings/other",
        f"http://127.0.0.1:8000/api/recordings/../{NAME}x",
        f"http://127.0.0.1:8000/api/recordings/{'b' * 43}",
        "http://127.0.0.1:8000/api/recordings/..%2fother",
    ):
        assert uploaded(tmp_path, url) is None, url


def test_a_recording_goes_after_a_day(tmp_path: Path) -> None:
    keep(tmp_path, NAME, b"old", now_s=0.0)
    os.utime(tmp_path / NAME, (1_000.0, 1_000.0))
    keep(tmp_path, "b" * 43, b"new", now_s=1_000.0 + recording_files.KEPT_S + 1)
    assert [path.name for path in tmp_path.iterdir()] == ["b" * 43]


@pytest.mark.spec("G15")
async def test_an_upload_is_decoded_at_once_and_served_by_its_name_only(pair: Pair, tmp_path: Path) -> None:
    env = {"HOLDFAST_DATA_DIR": str(tmp_path), "GRADING_AUDIO_BYTES_MAX": "100000"}
    settings = Settings(data_dir=str(tmp_path), jwt_secret="a-secret-of-the-tests-" + "that-is-long-enough-" * 3)
    web = create_app(settings, [OpenSystem(grading_main(), pair.main.kernel, env)])
    signed_in = {"Authorization": f"Bearer {token_for(settings, 'ann', ['learner'])}"}
    described = Described(web)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(described), base_url="http://holdfast") as client:
        refused = [
            await client.post("/api/recordings", content=VILLAGE),
            await client.post("/api/recordings", content=b"no audio", headers=signed_in),
            await client.post("/api/recordings", content=b"x" * 100_001, headers=signed_in),
            await client.get(f"/api/recordings/{NAME}"),
        ]
        codes = [(one.status_code, one.json()["code"]) for one in refused]
        assert codes[:2] == [(401, "UNAUTHENTICATED"), (422, "AUDIO_UNDECODABLE")]
        assert codes[2:] == [(413, "BODY_TOO_LARGE"), (404, "NOT_FOUND")]
        made = await client.post("/api/recordings", content=VILLAGE, headers=signed_in)
        assert (made.status_code, made.json()["durationSeconds"]) == (201, 16)
        served = await client.get(made.json()["audioUrl"])
        assert served.content == VILLAGE
        assert served.headers["content-disposition"].startswith("attachment")
    assert described.problems == []
    assert uploaded(tmp_path / "grading-recordings", made.json()["audioUrl"]) == VILLAGE
