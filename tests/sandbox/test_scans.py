"""Scans are read in a sandbox too: a page at a time, within the limits of any other file."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from holdfast_systems.conversion import ocr
from holdfast_systems.conversion.pdf_pictures import Picture
from holdfast_systems.sandbox.parent import sandbox_for

pytestmark = [
    pytest.mark.spec("C9", "K30"),
    pytest.mark.may_skip("the extra ocr"),
    pytest.mark.skipif(importlib.util.find_spec(ocr.PACKAGE) is None, reason="needs the extra ocr"),
    pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="reads /proc"),
]


def test_a_page_is_read_in_a_child_and_one_made_to_cost_is_ended() -> None:
    import cv2
    import numpy as np

    page = np.full((400, 1_700), 255, np.uint8)
    cv2.putText(page, "The sea rises twice in a day.", (60, 200), 0, 2, 0, 3)
    words = ocr._read_in_sandbox(Picture(612.0, 144.0, 1_700, 400, page.tobytes()))
    assert any("sea rises" in word.text for word in words)
    assert sandbox_for(ocr.NAME).server_pid is not None
    assert ocr.PAGE.cpu_s < 20 and ocr.PAGE.wall_s < 30
