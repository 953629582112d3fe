"""Recordings that are uploaded here, for a learner who has no place of her own to serve audio from.

    POST /api/recordings --> a file under an unguessable name --> audioUrl of a submission --> the grading service

Where the grading service shares the data folder it reads the file itself: nothing private needs to be reachable by a
URL that a stranger gives. Elsewhere it fetches the audioUrl under its usual policy. Only whoever knows a name can name
it, and the files go by themselves.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Request

from holdfast import CallError
from holdfast.http.answers.documented import documented
from holdfast.http.auth import Principal, require
from holdfast.http.files import BinaryFile
from holdfast.http.guard import allow_body
from holdfast.http.problem import Problem
from holdfast.kit import Kernel
from holdfast.settings import read
from holdfast_systems.grading.answer_types import RecordingKept
from holdfast_systems.grading.audio import DECODED_AT_ONCE, decode
from holdfast_systems.grading.recording_files import PATH, keep, path_of
from holdfast_systems.grading.settings import ServiceSettings

_BODY = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}, "required": True}


def recording_routes(kernel: Kernel, env: Mapping[str, str]) -> APIRouter:
    """Upload a recording, and fetch it by its name."""
    settings = read(ServiceSettings, env)
    router = APIRouter(tags=["grading"])
    decoding = asyncio.Semaphore(DECODED_AT_ONCE)

    @router.post(PATH, status_code=201, openapi_extra={"requestBody": _BODY}, response_model=documented(RecordingKept))
    async def upload(request: Request, who: Annotated[Principal, require("learner")]) -> dict[str, Any]:
        """Keep an audio file for two weeks, and say how to name it in a submission. The body is the file itself."""
        allow_body(request, settings.audio_bytes_max)
        content = await request.body()
        try:
            async with decoding:
                speech = await asyncio.to_thread(decode, content, settings.audio_limits)
        except CallError as error:
            raise Problem(422, error.failure.error_class, str(error)) from None
        name = secrets.token_urlsafe(32)
        await asyncio.to_thread(keep, settings.recordings_folder, name, content, kernel.now() / 1_000)
        return {"audioUrl": f"{request.base_url}{PATH[1:]}/{name}", "durationSeconds": math.ceil(speech.duration_s)}

    @router.get(f"{PATH}/{{name}}", response_class=BinaryFile)
    async def fetch(name: str) -> BinaryFile:
        """The file, for the service that grades it. As an attachment: a stranger's file is never opened here."""
        path = path_of(settings.recordings_folder, name)
        if path is None or not await asyncio.to_thread(path.is_file):
            raise Problem(404, "NOT_FOUND", "There is no such recording.")
        return BinaryFile(path, filename="recording")

    return router
