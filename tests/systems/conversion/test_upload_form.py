"""What a form may weigh besides its file: each bound is taken exactly, and one more is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.requests import Request

from holdfast.http.guard import METER, BodyMeter
from holdfast.http.problem import Problem
from holdfast_systems.conversion.accept import _check_declared
from holdfast_systems.conversion.settings import ConversionSettings
from holdfast_systems.conversion.upload_form import UploadForm, clean_filename

pytestmark = pytest.mark.spec("C1")
FORM_BYTES, PARTS, FIELD_BYTES, NAME_LENGTH = 65_536, 16, 4_096, 200
FILE = 'Content-Disposition: form-data; name="file"; filename="x.pdf"\r\n\r\nbytes'


def field(name: str, value: str = "") -> str:
    return f'Content-Disposition: form-data; name="{name}"\r\n\r\n{value}'


async def read(*parts: str, piece: int = 7) -> tuple[bytes, UploadForm]:
    return await read_whole("".join(f"--b\r\n{part}\r\n" for part in parts).encode() + b"--b--\r\n", piece)


async def read_whole(whole: bytes, piece: int) -> tuple[bytes, UploadForm]:
    async def stream() -> AsyncIterator[bytes]:
        for start in range(0, len(whole), piece):
            yield whole[start : start + piece]

    form = UploadForm("multipart/form-data; boundary=b", stream())
    return b"".join([data async for data in form.file()]), form


async def test_a_form_is_the_same_however_it_is_cut() -> None:
    nameless = "X-Note: 1\r\n\r\nnot the file"
    for piece in (1, 7, 10_000):
        data, form = await read(field("priority", "high"), FILE, nameless, piece=piece)
        assert (data, form.filename, form.fields["priority"]) == (b"bytes", "x.pdf", "high")


async def test_a_form_has_so_many_parts_and_no_more() -> None:
    data, form = await read(FILE, *[field(f"f{n}", str(n)) for n in range(PARTS - 1)])
    assert (data, len(form.fields), form.fields["f14"]) == (b"bytes", PARTS - 1, "14")
    with pytest.raises(Problem, match="more than 16 parts"):
        await read(FILE, *[field(f"f{n}") for n in range(PARTS)])


async def test_a_field_has_so_many_bytes_and_no_more() -> None:
    _, form = await read(field("a", "x" * FIELD_BYTES), field("b", "y"), FILE, piece=1_000)
    assert (len(form.fields["a"]), form.fields["b"]) == (FIELD_BYTES, "y"), "each field begins empty"
    with pytest.raises(Problem, match="over 4096 bytes"):
        await read(field("a", "x" * (FIELD_BYTES + 1)), FILE, piece=1_000)


@pytest.mark.parametrize("piece", [1_000, 100_000])
async def test_what_comes_beside_the_file_has_an_end(piece: int) -> None:
    """Behind the last boundary too, where a parser looks at nothing any more."""
    bare = f"--b\r\n{FILE}\r\n--b--\r\n".encode()
    room = FORM_BYTES - len(bare) + len(b"bytes")
    assert (await read_whole(bare + b" " * room, piece))[0] == b"bytes"
    with pytest.raises(Problem, match="more than 65536 bytes beside its file"):
        await read_whole(bare + b" " * (room + 1), piece)


def test_a_file_name_is_cut_at_its_bound() -> None:
    assert clean_filename("x" * NAME_LENGTH + "y") == "x" * NAME_LENGTH


@pytest.mark.parametrize("over, status", [(0, None), (1, 413)])
async def test_a_declared_length_is_the_files_bound_and_a_forms(over: int, status: int | None) -> None:
    settings = ConversionSettings(upload_bytes_max=1_000)
    length = 1_000 + FORM_BYTES + over

    async def ended() -> Any:
        return {"type": "http.disconnect"}

    headers = [(b"content-length", str(length).encode())]
    request = Request({"type": "http", "headers": headers, METER: BodyMeter(None, 0, ended=True)}, ended)
    refused = None
    try:
        await _check_declared(request, settings)
    except Problem as problem:
        refused = problem.status
    assert refused == status
