"""Turns a stranger's audio file into 16 kHz mono samples, or says why it cannot.

Undecodable, silent about its end or too long: none of that gets better by trying again. Containers that can
name other files or hosts (playlists, concatenations) are not opened at all. Decoding is CPU work: call it
from a thread.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast import CallError, Category

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SAMPLE_RATE = 16_000
# FFmpeg's names of what is read: wav, mp3, m4a/mp4, ogg/opus, webm, flac, and raw AAC from phones.
_CONTAINERS = "wav,mp3,mov,mp4,m4a,3gp,3g2,mj2,ogg,matroska,webm,flac,aac"


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


def decode(audio: bytes, limits: AudioLimits, *, duration_s: float | None = None) -> Speech:
    """The samples of an audio file. `duration_s` is what its sender promised: much less is a truncated file."""
    import numpy as np

    if len(audio) > limits.bytes_max:
        raise _invalid("AUDIO_TOO_LARGE", f"The audio has {len(audio)} bytes; the limit is {limits.bytes_max}.")
    samples_max = int(limits.duration_s_max * SAMPLE_RATE)
    blocks: list[NDArray[np.float32]] = []
    count = 0
    for block in _blocks(audio):
        blocks.append(block)
        count += len(block)
        if count > samples_max:
            raise _invalid("AUDIO_TOO_LONG", f"The audio is longer than {limits.duration_s_max:g} s.")
    if not count:
        raise _invalid("AUDIO_UNDECODABLE", "The file holds no audio.")
    speech = Speech(np.clip(np.concatenate(blocks), -1.0, 1.0))
    if duration_s is not None:
        _refuse_truncated(speech, duration_s)
    return speech


def _refuse_truncated(speech: Speech, promised_s: float) -> None:
    """Many formats decode a cut-off file without a word; only the promised duration tells."""
    if speech.duration_s < promised_s * 0.9 - 1.0:
        found = f"The audio ends after {speech.duration_s:.1f} s; {promised_s:g} s were promised."
        raise _invalid("AUDIO_TRUNCATED", found)


def _blocks(audio: bytes) -> Iterator[NDArray[np.float32]]:
    import av
    from av.error import FFmpegError

    options = {"format_whitelist": _CONTAINERS, "protocol_whitelist": "none"}
    try:
        with av.open(io.BytesIO(audio), mode="r", options=options, metadata_errors="ignore") as container:
            if not container.streams.audio:
                raise _invalid("AUDIO_UNDECODABLE", "The file has no audio stream.")
            resampler = av.AudioResampler(format="flt", layout="mono", rate=SAMPLE_RATE)
            for frame in container.decode(container.streams.audio[0]):
                yield from _resampled(resampler, frame)
            yield from _resampled(resampler, None)
    except (FFmpegError, ValueError, OverflowError, MemoryError) as error:
        message = f"The audio cannot be decoded ({type(error).__name__})."
        raise _invalid("AUDIO_UNDECODABLE", message) from None


def _resampled(resampler: Any, frame: Any) -> Iterator[NDArray[np.float32]]:
    for piece in resampler.resample(frame):
        yield piece.to_ndarray().reshape(-1)


def _invalid(error_class: str, message: str) -> CallError:
    return CallError.of(Category.VALIDATION, error_class, message)
