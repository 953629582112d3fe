"""How speech was delivered: its pace, its pauses, its stumbles. Measured on the samples, before they are forgotten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast_systems.grading.features import Features
from holdfast_systems.grading.line import Line, on_line

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FRAME_S = 0.02
_PAUSE_S = 0.25
# A frame is voice when it is louder than this share of the loud ones, and than what a microphone hisses.
_LOUD_SHARE = 0.08
_HISS = 0.002

FLUENCY = ("pace", "pauses", "stumbles")
# In standard deviations of the whole scale, so that each can cost about a band and a half, or earn a little.
_PACE: Line = ((30, -1.3), (60, -0.9), (85, -0.4), (110, 0), (140, 0.25), (180, 0.25), (240, -0.2))
_PAUSES: Line = ((0.1, 0.2), (0.25, 0), (0.45, -0.5), (0.7, -1.2))
_STUMBLES: Line = ((0, 0.15), (2, 0), (6, -0.4), (15, -1.2))


@dataclass(frozen=True, slots=True)
class SpokenDelivery:
    """Seconds of voice, and the share of pauses between its first and its last moment."""

    voice_s: float
    pause_share: float


def delivery_of(samples: NDArray[np.float32], sample_rate: int) -> SpokenDelivery:
    """Tell voice from silence by energy, frame by frame. Pauses shorter than a quarter of a second are articulation."""
    import numpy as np

    size = int(_FRAME_S * sample_rate)
    count = len(samples) // size
    if not count:
        return SpokenDelivery(0.0, 0.0)
    loudness = np.sqrt((samples[: count * size].reshape(count, size) ** 2).mean(axis=1))
    voice = loudness > max(_HISS, _LOUD_SHARE * float(np.quantile(loudness, 0.95)))
    if not voice.any():
        return SpokenDelivery(0.0, 0.0)
    first, last = int(voice.argmax()), count - int(voice[::-1].argmax())
    edges = np.flatnonzero(np.diff(np.concatenate(([1], voice[first:last].astype(np.int8), [1]))))
    quiet = (edges[1::2] - edges[0::2]) * _FRAME_S
    paused_s = float(quiet[quiet >= _PAUSE_S].sum())
    return SpokenDelivery(float(voice.sum()) * _FRAME_S, paused_s / ((last - first) * _FRAME_S))


def fluency(measured: Features, duration_s: float, delivery: SpokenDelivery | None) -> dict[str, float]:
    """Pace, stumbles and, where the samples were seen, pauses: each as what it adds to the place on the scale."""
    parts = {
        "pace": on_line(_PACE, measured.words / max(duration_s, 1.0) * 60),
        "stumbles": on_line(_STUMBLES, measured.stumbles_rate),
    }
    if delivery is not None:
        parts["pauses"] = on_line(_PAUSES, delivery.pause_share)
    return parts
