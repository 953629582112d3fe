"""Why a submission failed: the reasons that we know, with what each means. A foreign service may say others.

Metrics count by these and by OTHER, so that nobody can make a label of their own for every message."""

from __future__ import annotations

OTHER = "OTHER"
REASONS = {
    "TIMEOUT": "Its deadline passed. Only the main app says so, by its own clock.",
    "SERVICE_TIMEOUT": "The grading service said TIMEOUT before the deadline had passed.",
    "LLM_TIMEOUT": "The model that grades did not answer in time.",
    "LLM_FAIL": "The model that grades failed.",
    "LLM_REFUSED": "The model refused to grade this text.",
    "STT_FAIL": "The transcription failed.",
    "STT_TIMEOUT": "The transcription did not answer in time.",
    "AUDIO_FETCH_FAIL": "The audio could not be fetched.",
    "AUDIO_UNAVAILABLE": "The audio is not where its address says, or must not be fetched from there.",
    "AUDIO_UNDECODABLE": "The audio cannot be decoded.",
    "AUDIO_TRUNCATED": "The audio is shorter than it was said to be.",
    "AUDIO_SILENT": "No speech can be heard in the audio.",
    "AUDIO_TOO_LARGE": "The audio has more bytes than allowed.",
    "AUDIO_TOO_LONG": "The audio is longer than allowed.",
    "INVALID_INPUT": "The request broke the queue contract.",
    "CIRCUIT_OPEN": "A provider's breaker was open, and the service did not go on.",
    "WORKER_LOST": "The grading lost too many workers.",
    "CANCELLED": "Somebody stopped the grading.",
}
REASONS_OF_LETTERS = {
    "NOT_A_LETTER": "A message that the broker, or somebody else, laid into `grading.dlq` as it was.",
}

_AGAIN = "Please record your answer again"
ADVICE = {
    "AUDIO_FETCH_FAIL": f"Your recording could not be fetched. {_AGAIN} and submit it once more.",
    "AUDIO_UNAVAILABLE": f"Your recording is not where it should be. {_AGAIN} and upload it once more.",
    "AUDIO_UNDECODABLE": f"Your recording cannot be played. {_AGAIN}, as WAV, MP3, M4A, OGG or WebM.",
    "AUDIO_TRUNCATED": f"Your recording is shorter than it should be. {_AGAIN} and wait until the upload is complete.",
    "AUDIO_SILENT": f"No speech can be heard in your recording. {_AGAIN}, close to the microphone.",
    "AUDIO_TOO_LARGE": f"Your recording is too large. {_AGAIN}, shorter or with less quality.",
    "AUDIO_TOO_LONG": f"Your recording is too long. {_AGAIN}, and keep to the time that the task gives.",
}


def advice(reason: str | None) -> str | None:
    """What the learner can do about it, in a sentence or two; None where there is nothing for them to do."""
    if reason is not None and reason.startswith("AUDIO_"):
        return ADVICE.get(reason, f"Your recording cannot be used. {_AGAIN}.")
    return None


def label(reason: str | None) -> str:
    """A reason as a metric's label: one of the known ones, OTHER, or empty for none."""
    return "" if reason is None else reason if reason in REASONS else OTHER
