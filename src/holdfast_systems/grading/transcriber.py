"""Turns speech into words, offline: Moonshine's tiny English model, which its package carries.

The model loads once, on first use (about half a second), and works several times faster than the speech.
Long speech is cut at its quietest moments, so that memory does not grow with it. CPU work: call it from a
thread; threads wait for each other.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from holdfast import CallError, Category
from holdfast_systems.grading.audio import SAMPLE_RATE, Speech

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CHUNK_S_MAX = 30
# The cut is looked for in the last third of a chunk, in steps of a tenth of a second.
_SEARCH_S = 10
_STEP = SAMPLE_RATE // 10


class OfflineTranscriber:
    """Transcribes English speech. Holds the loaded model; one per process is enough."""

    def __init__(self) -> None:
        self._alone = threading.Lock()

    def transcribe(self, speech: Speech) -> str:
        """The words that were said; empty if there were none."""
        with self._alone:
            lines = [self._lines(chunk) for chunk in chunks(speech.samples)]
        return " ".join(line for line in lines if line)

    def _lines(self, samples: NDArray[np.float32]) -> str:
        from moonshine_voice.errors import MoonshineError

        try:
            answer = self._model.transcribe_without_streaming(samples.tolist(), SAMPLE_RATE)
        except MoonshineError as error:
            message = f"The speech model failed ({type(error).__name__})."
            raise CallError.of(Category.UPSTREAM, "STT_FAIL", message, faults=True) from error
        return " ".join(line.text.strip() for line in answer.lines if line.text.strip())

    @cached_property
    def _model(self) -> Any:
        from moonshine_voice.moonshine_api import ModelArch
        from moonshine_voice.transcriber import Transcriber
        from moonshine_voice.utils import get_model_path

        return Transcriber(get_model_path("tiny-en"), ModelArch.TINY)


def chunks(samples: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
    """The samples in pieces of at most 30 s, cut where it is quietest. No sample is lost or repeated."""
    start, size = 0, CHUNK_S_MAX * SAMPLE_RATE
    while len(samples) - start > size:
        cut = start + _quietest(samples[start : start + size])
        yield samples[start:cut]
        start = cut
    if start < len(samples):
        yield samples[start:]


def _quietest(chunk: NDArray[np.float32]) -> int:
    """Where in the last part of a full chunk the tenth of a second with the least energy has its middle."""
    first = len(chunk) - _SEARCH_S * SAMPLE_RATE
    energy = (chunk[first:].reshape(-1, _STEP) ** 2).sum(axis=1)
    return first + int(energy.argmin()) * _STEP + _STEP // 2
