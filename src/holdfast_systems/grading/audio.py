"""Turns a stranger's audio file into 16 kHz mono samples, or says why it cannot.

Undecodable, silent about its end or too long: none of that gets better by trying again. The file is opened only in a
sandbox (`audio_samples`), which may die of it. Decoding waits for that: call it from a thread.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from holdfast import CallError, Category
from holdfast_systems.sandbox.parent import Confines, SandboxDown, SandboxExit, sandbox_for

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SAMPLE_RATE = 16_000
DECODED_AT_ONCE = os.cpu_count() or 1
"""How many recordings a process decodes at a time, where it does so in threads. Each may hold one for 25 s; the event
loop has four more, for names that are looked up, files and keys of tokens."""
_SAMPLE_BYTES = 4
_TASK = "holdfast_systems.grading.audio_samples:TASK"
_MEMORY_BYTES, _CPU_S, _WALL_S = 1 << 30, 15, 25.0
_SIGKILL = -9
_NO_AUDIO, _TOO_LONG, _TOO_COMPLEX, _UNDECODABLE = 21, 22, 23, 20  # `audio_samples.Exit`, which loads the decoder


@dataclass(frozen=True, slots=True)
class AudioLimits:
    """What is worth decoding. The duration counts decoded samples, so a small file cannot unfold for hours."""

    bytes_max: int = 25 * 1_048_576
    duration_s_max: float = 900.0


@dataclass(frozen=True, slots=True, eq=False)
class Speech:
    """Mono samples between -1 and 1 at 16 kHz."""

    samples: NDArray[np.float32]

    @property
    def duration_s(self) -> float:
        return len(self.samples) / SAMPLE_RATE


# What browsers play, by how a file begins.
_BEGINNINGS = (
    (b"RIFF", "audio/wav"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"\x1a\x45\xdf\xa3", "audio/webm"),
)


def media_type(path: Path) -> str:
    """The type of an audio file by its first bytes; mp4 is what has them elsewhere. Never a type that is no sound."""
    with path.open("rb") as file:
        begins = file.read(12)
    known = next((kind for start, kind in _BEGINNINGS if begins.startswith(start)), None)
    return known or ("audio/mp4" if begins[4:8] == b"ftyp" else "audio/mpeg")


def decode(audio: bytes, limits: AudioLimits, *, duration_s: float | None = None) -> Speech:
    """The samples of an audio file. `duration_s` is what its sender promised: much less is a truncated file."""
    import numpy as np

    if len(audio) > limits.bytes_max:
        raise _invalid("AUDIO_TOO_LARGE", f"The audio has {len(audio)} bytes; the limit is {limits.bytes_max}.")
    with tempfile.TemporaryFile(buffering=0) as output:
        ending = _decode_in_sandbox(audio, output, limits)
        if ending.status != 0 or ending.out_of_time:
            raise _failed(ending, limits)
        output.seek(0)
        samples = np.frombuffer(output.read(), np.float32)
    speech = Speech(np.clip(np.nan_to_num(samples), -1.0, 1.0))
    if duration_s is not None:
        _refuse_truncated(speech, duration_s)
    return speech


def _decode_in_sandbox(audio: bytes, output: IO[bytes], limits: AudioLimits) -> SandboxExit:
    output_bytes = int(limits.duration_s_max * SAMPLE_RATE + 1) * _SAMPLE_BYTES
    with tempfile.TemporaryFile(buffering=0) as source:
        source.write(audio)
        source.seek(0)
        confines = Confines(_CPU_S, _MEMORY_BYTES, output_bytes, _WALL_S)
        try:
            return sandbox_for(_TASK).run_blocking(source, output, confines, {"duration_s_max": limits.duration_s_max})
        except SandboxDown as error:
            raise CallError.of(Category.UPSTREAM, "LOCAL_PRESSURE", str(error)) from error


def _failed(ending: SandboxExit, limits: AudioLimits) -> CallError:
    """What the child's end means. A limit or a crash is the file's doing; a kill from outside is the machine's."""
    if ending.status == _TOO_LONG:
        return _invalid("AUDIO_TOO_LONG", f"The audio is longer than {limits.duration_s_max:g} s.")
    if ending.status == _NO_AUDIO:
        return _invalid("AUDIO_UNDECODABLE", "The file holds no audio.")
    if ending.status == _UNDECODABLE:
        return _invalid("AUDIO_UNDECODABLE", f"The audio cannot be decoded ({ending.complaint.strip()}).")
    if ending.status == _SIGKILL and ending.cpu_s < _CPU_S / 2:
        return CallError.of(Category.UPSTREAM, "LOCAL_PRESSURE", "The decoder was killed, or had no time to run.")
    if ending.status < 0 or ending.status == _TOO_COMPLEX:
        return _invalid("AUDIO_UNDECODABLE", "The audio takes more time or memory than any honest file.")
    return CallError.of(Category.UPSTREAM, "DECODER_BROKEN", f"The decoder ended with {ending.status}.")


def _refuse_truncated(speech: Speech, promised_s: float) -> None:
    """Many formats decode a cut-off file without a word; only the promised duration tells."""
    if speech.duration_s < promised_s * 0.9 - 1.0:
        found = f"The audio ends after {speech.duration_s:.1f} s; {promised_s:g} s were promised."
        raise _invalid("AUDIO_TRUNCATED", found)


def _invalid(error_class: str, message: str) -> CallError:
    return CallError.of(Category.VALIDATION, error_class, message)
