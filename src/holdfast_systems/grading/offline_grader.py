"""Grades English without any service, from what can be measured. Deterministic.

About 0.1 s of CPU a text, and 2.5 s more where the language model is installed. What counts how much stands in
`scale`; here are the signals, the caps, the four criteria and what the learner reads. It sees form only: whether
the text answers its question is checked only as far as words show it, and the feedback says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from holdfast_systems.grading.copied import copied_share
from holdfast_systems.grading.delivery import FLUENCY, SpokenDelivery, fluency
from holdfast_systems.grading.doubt import doubt_of
from holdfast_systems.grading.features import CHARACTERS_MAX, Features, Measurer
from holdfast_systems.grading.grade import CRITERIA, Criterion, Grade, TaskType, grade_of, to_half
from holdfast_systems.grading.language_model import LanguageModel, installed_model
from holdfast_systems.grading.line import Line, on_line
from holdfast_systems.grading.scale import deviations, place, score_of

WORDS_EXPECTED: dict[TaskType, int] = {"email": 120, "essay": 250}
SPOKEN_WORDS_PER_MINUTE = 100

# A text too short to show a level cannot be given one.
_SHORT_CAP: Line = ((0, 0), (0.1, 1), (0.25, 3), (0.5, 5.5), (0.8, 9), (1, 10))
_CAPS = {
    "empty": 0.0,
    "gibberish": 0.5,
    "not_english": 1.0,
    "word_order": 1.5,
    "repetitive": 2.0,
    "copied_question": 2.0,
    "duplicated": 3.0,
    "little_speech": 5.5,
}
LITTLE_SPEECH_WORDS = 60
# Quoting the question is a good beginning; an answer that is half quotation is none.
_COPIED_SHARE = 0.5
# Learners' texts surprise the model by less than 4.8 nats a token, shuffled ones by more than 6; each word in a hundred
# that is misspelt adds a little. Between the two the pairs of small words decide.
_SURPRISAL_OF_DISORDER = 5.6
_SURPRISAL_OF_DOUBT = 4.8
_NATS_PER_MISSPELT = 0.05
# In a hundred words. Luck evens out in long texts, so less is enough there.
_IMPOSSIBLE_RATE: Line = ((200, 2.0), (1_000, 0.8))
_IMPOSSIBLE_WORDS_MIN = 30
# How far a criterion may lie from the overall score, in points for each standard deviation of its own measurements.
_OWN_POINTS = 0.7
_OWN_POINTS_MAX = 1.5

_GREETING = re.compile(r"\A\s*(dear|hi|hello|hey|good (morning|afternoon|evening)|to whom)\b", re.IGNORECASE)
_CLOSING = re.compile(
    r"\b(yours|regards|best wishes|sincerely|faithfully|love|cheers|see you|take care|thanks|thank you|hear from"
    r"|looking forward)\b",
    re.IGNORECASE,
)
_CONCLUSION = re.compile(
    r"\b(in conclusion|to conclude|to sum up|in summary|overall|all in all|in short)\b", re.IGNORECASE
)
_INJECTION = re.compile(
    r"\b(ignore|disregard|forget)\b.{0,40}\b(instructions?|rules|prompt|rubric)\b"
    r"|\bsystem prompt\b|\byou are (now )?(an? )?(ai|assistant|grader|language model)\b"
    r"|\b(give|award|assign)\b.{0,30}\b(full|maximum|highest|10 ?/ ?10|score of (9|10))\b|\boverall_?score\b",
    re.IGNORECASE | re.DOTALL,
)


class OfflineGrader:
    """Grades writing and transcripts. Holds the loaded dictionaries and the language model; one per process is enough.

    `model` is the language model: by default the one whose package is installed; None grades without."""

    def __init__(self, model: LanguageModel | Literal["installed"] | None = "installed") -> None:
        self._measurer = Measurer()
        self.model = installed_model() if model == "installed" else model

    def grade_writing(self, text: str, task_type: TaskType, question: str | None = None) -> Grade:
        """The grade of a text; one copied from its question gets none. CPU work: call it from a thread."""
        measured, expected = self._measurer.measure(text), WORDS_EXPECTED[task_type]
        surprisal = self._surprisal(text, measured)
        signals = signals_of(text, measured, expected, surprisal, question=question)
        parts = deviations(measured, expected, surprisal)
        own = _own_of_writing(parts, _form(text, measured, task_type))
        return _grade(measured, expected, signals, parts, own)

    def grade_speaking(
        self, transcript: str, duration_s: float, delivery: SpokenDelivery | None = None, question: str | None = None
    ) -> Grade:
        """The grade of what was said. Spelling, capitals and commas are the transcriber's and do not count."""
        measured = self._measurer.measure(transcript, spoken=True)
        expected = words_expected_of_speech(duration_s)
        surprisal = self._surprisal(transcript, measured)
        signals = signals_of(transcript, measured, expected, surprisal, spoken=True, question=question)
        parts = deviations(measured, expected, surprisal, spoken=True)
        parts |= fluency(measured, duration_s, delivery)
        delivered = sum(parts[name] for name in FLUENCY if name in parts)
        return _grade(measured, expected, signals, parts, _own_of_speaking(parts), delivered)

    def _surprisal(self, text: str, measured: Features) -> float | None:
        # Other languages and keyboards that were leant on are known without asking.
        return self.model.surprisal(text) if self.model and measured.english_share >= 0.25 else None


def words_expected_of_speech(duration_s: float) -> int:
    """How many words a fluent learner says in this time; more than four minutes ask for no more."""
    return max(40, round(min(duration_s, 240) / 60 * SPOKEN_WORDS_PER_MINUTE))


def signals_of(
    text: str,
    measured: Features,
    expected: int,
    surprisal: float | None = None,
    *,
    spoken: bool = False,
    question: str | None = None,
) -> tuple[str, ...]:
    """What a person should know before trusting the score."""
    length = measured.distinct_sentences_words / expected
    found = {
        "empty": measured.words == 0,
        "very_short": 0 < length < 0.25,
        "too_long": len(text) > CHARACTERS_MAX,
        "prompt_injection": has_injection(text),
        "duplicated": measured.repeated_share > 0.3 and measured.sentences > 3,
    }
    if measured.words:
        strange = measured.english_share < 0.65 or (measured.words >= 20 and measured.function_share < 0.2)
        repetitive = measured.words >= 20 and (measured.variety < 0.4 or measured.squeeze < 0.2)
        typed_blindly = measured.english_share < 0.25 and text.isascii()
        found |= {
            "gibberish": typed_blindly,
            "not_english": strange and not typed_blindly and not (repetitive and measured.english_share > 0.9),
            "repetitive": repetitive,
            "word_order": is_disordered(measured, surprisal),
            "copied_question": copied_share(text, question or "") > _COPIED_SHARE,
            "little_speech": spoken and measured.words < LITTLE_SPEECH_WORDS,
        }
    return tuple(name for name, true in found.items() if true)


def is_disordered(measured: Features, surprisal: float | None) -> bool:
    """Whether the words stand in no order that English has."""
    pairs = measured.words >= _IMPOSSIBLE_WORDS_MIN and measured.impossible_rate > on_line(
        _IMPOSSIBLE_RATE, measured.words
    )
    if surprisal is None:
        return pairs
    allowance = _NATS_PER_MISSPELT * measured.misspelt_rate
    return surprisal > _SURPRISAL_OF_DISORDER + allowance or (pairs and surprisal > _SURPRISAL_OF_DOUBT)


def has_injection(text: str) -> bool:
    """Whether a text speaks to its grader instead of its reader."""
    return _INJECTION.search(text) is not None


def _grade(
    measured: Features,
    expected: int,
    signals: tuple[str, ...],
    parts: dict[str, float],
    own: Sequence[float],
    delivered: float = 0.0,
) -> Grade:
    """Four criteria around the overall score, each moved by its own measurements, their mean unmoved."""
    overall = score_of(parts, measured, delivered)
    length = measured.distinct_sentences_words / expected
    cap = min([on_line(_SHORT_CAP, length), *(_CAPS[name] for name in signals if name in _CAPS)])
    mean = sum(own) / len(own)
    moves = [min(_OWN_POINTS_MAX, max(-_OWN_POINTS_MAX, _OWN_POINTS * (each - mean))) for each in own]
    scores = [to_half(min(overall + move, cap)) for move in moves]
    sentences = _feedback(measured, expected, signals)
    criteria = {name: Criterion(score, text) for name, score, text in zip(CRITERIA, scores, sentences, strict=True)}
    grade = grade_of(criteria, signals=signals, method="offline")
    doubt = doubt_of(grade.overall_score, place(parts) + delivered, measured.distinct_sentences_words)
    return replace(grade, features=parts, doubt=doubt)


def _own_of_writing(parts: dict[str, float], form: float) -> tuple[float, float, float, float]:
    """What each criterion has of its own, in standard deviations."""
    surprisal = parts.get("surprisal", 0.0)
    return (
        (parts["length"] + form) / 2,
        (parts["links"] + parts["sentences"] + surprisal) / 3,
        (parts["variety"] + parts["misspelt"] + parts["level"]) / 3,
        (parts["slips"] + parts["sentences"] + surprisal) / 3,
    )


def _own_of_speaking(parts: dict[str, float]) -> tuple[float, float, float, float]:
    surprisal = parts.get("surprisal", 0.0)
    fluent = sum(parts.get(name, 0.0) for name in FLUENCY)
    return (
        (parts["length"] + fluent) / 2,
        (parts["links"] + fluent + surprisal) / 3,
        (parts["variety"] + fluent + surprisal) / 3,
        (parts["slips"] + fluent + surprisal) / 3,
    )


def _form(text: str, measured: Features, task_type: TaskType) -> float:
    """Whether the parts that its kind of text has are there: from -1, none, to 1, all."""
    if task_type == "email":
        return -1.0 + bool(_GREETING.search(text)) + bool(_CLOSING.search(text[-300:]))
    return -1.0 + (measured.paragraphs >= 3) + bool(_CONCLUSION.search(text[-600:]))


def _feedback(measured: Features, expected: int, signals: Sequence[str]) -> tuple[str, str, str, str]:
    return (
        _about_task(measured, expected, signals),
        _about_coherence(measured),
        _about_lexis(measured),
        _about_grammar(measured),
    )


def _about_task(measured: Features, expected: int, signals: Sequence[str]) -> str:
    if "empty" in signals:
        return "There is no text to grade."
    if "not_english" in signals or "gibberish" in signals:
        return "The answer does not read as English, so it cannot be graded on its content."
    if "copied_question" in signals:
        return "Most of the answer is copied from the question; write it in your own words."
    if "repetitive" in signals or "duplicated" in signals:
        return "Much of the answer repeats itself; only what is said once counts."
    if "word_order" in signals:
        return "The words stand in no order that English has, so the answer cannot be graded on its content."
    share = measured.distinct_sentences_words / expected
    size = f"You used {measured.words} {'word' if measured.words == 1 else 'words'}; about {expected} are expected."
    advice = "Develop your points further." if share < 0.8 else "The length fits the task."
    return f"{size} {advice} Whether it answers the question was not checked automatically."


def _about_coherence(measured: Features) -> str:
    if measured.link_kinds <= 1:
        return "Sentences stand side by side; link them with words such as 'however', 'because', 'for example'."
    if measured.advanced_links == 0:
        return f"You use {measured.link_kinds} kinds of links; try 'although', 'therefore' or 'moreover' as well."
    paragraphs = "1 paragraph" if measured.paragraphs == 1 else f"{measured.paragraphs} paragraphs"
    return f"Ideas are linked in {measured.link_kinds} ways, in {paragraphs}."


def _about_lexis(measured: Features) -> str:
    share = round(measured.advanced_share * 100)
    if measured.variety < 0.7:
        return "Many words return often; vary them and use more precise ones."
    if measured.level < 3.2:
        return f"Your words are mostly basic ({share} % are of level B2 or above); use more precise ones."
    return f"The vocabulary is varied, and {share} % of it is of level B2 or above."


def _about_grammar(measured: Features) -> str:
    shown = "; ".join(f"'{wrong}' should be '{right}'" for wrong, right in measured.slip_examples)
    if shown:
        return f"Look at: {shown}."
    if measured.sentence_words < 9:
        return "Sentences are mostly correct but short; join some of them with 'which', 'because' or 'when'."
    return "Few slips were found, and sentences are of good length."
