"""Conversion in `holdfast demo`: two PDFs, made on the spot, become XML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.playground.demo_stage import Demo, DemoAccepted, DemoStage, DemoStanding
from holdfast_systems.conversion import documents

PAPERS = (
    ("tides.pdf", "On Tides", ["The moon pulls the sea towards it.", "Twice a day the water rises and falls."]),
    ("knots.pdf", "On Knots", ["A bowline holds under load.", "It unties with ease when the load is gone."]),
)


async def play(on: DemoStage) -> list[DemoAccepted]:
    accepted = [await _upload(on, name, title, lines) for name, title, lines in PAPERS]
    for each in accepted:
        await on.follow(each, lambda job: f"[green]converted[/]: {job['result']['size']} bytes of XML")
    return accepted


async def _upload(on: DemoStage, name: str, title: str, lines: Sequence[str]) -> DemoAccepted:
    job = await on.ask("POST", "/api/jobs", files={"file": (name, pdf(title, lines), "application/pdf")})
    return DemoAccepted("conversion", name, f"/api/jobs/{job['id']}", _standing)


def _standing(job: dict[str, Any]) -> DemoStanding:
    if job["status"] in documents.LIVE:
        return DemoStanding.UNFINISHED
    return DemoStanding.DONE if job["status"] == "complete" else DemoStanding.FAILED


def pdf(title: str, lines: Sequence[str]) -> bytes:
    """A valid PDF of one page."""
    text = "".join(f"0 -22 Td ({line}) Tj " for line in lines)
    drawn = f"BT /F1 20 Tf 60 740 Td ({title}) Tj /F1 12 Tf {text}ET".encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(drawn), drawn),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    body, places = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj%s endobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    count = len(objects) + 1
    end = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (count, len(body))
    return body + b"xref\n0 %d\n0000000000 65535 f \n" % count + table + end


DEMO = Demo(play)
