"""Grades English without any service, from what can be measured. Deterministic, about 0.1 s a text.

The mapping from features to scores is ours, drawn by hand and fitted to nobody's data: straight lines between
a few named points. It sees form, not truth: whether the text answers its question nobody checks here, and the
feedback says so. That is why its confidence stays low and a person reviews most of its grades.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from holdfast_systems.grading.features import CHARACTERS_MAX, Features, Measurer
from holdfast_systems.grading.grade import CRITERIA, Criterion, Grade, TaskType, grade_of, to_half

WORDS_EXPECTED: dict[TaskType, int] = {"email": 120, "essay": 250}
SPOKEN_WORDS_PER_MINUTE = 100

Line = Sequence[tuple[float, float]]
_LEVEL: Line = ((1.5, 0.5), (2.2, 2.5), (2.6, 4), (3.2, 6), (4, 7.5), (4.8, 9.5), (5.3, 10))
_VARIETY: Line = ((0.3, 0), (0.6, 2), (0.7, 3.5), (0.8, 5), (0.88, 6.5), (0.94, 9), (0.98, 10))
_MISSPELT: Line = ((0, 10), (1, 8), (3, 5), (8, 2), (15, 0))
_SLIPS: Line = ((0, 9), (0.5, 8), (1, 7), (2, 6), (4, 4), (8, 2), (15, 0))
_SENTENCE: Line = ((3, 0.5), (6, 2), (10, 3.5), (14, 4.5), (20, 8), (26, 9.5), (33, 8), (45, 4), (80, 1))
_SUBORDINATION: Line = ((0, 1), (1, 2.5), (2.5, 4), (4, 7), (5.5, 9), (7, 9.5), (15, 5))
_LINK_KINDS: Line = ((0, 1), (1, 2.5), (2, 3.5), (3, 4.5), (4, 5.5), (5, 6.5), (6, 7))
_LINK_RATE: Line = ((0, 1), (1, 3), (2, 5), (4, 7), (6, 7), (10, 5), (15, 2))
_ADVANCED_LINKS: Line = ((0, 2), (1, 4.5), (2, 6), (3, 7.5), (5, 9.5), (6, 10))
_PARAGRAPHS: dict[TaskType, Line] = {
    "essay": ((1, 2.5), (2, 4.5), (3, 6.5), (4, 7.5)),
    "email": ((1, 4), (2, 6), (3, 8)),
}
_LENGTH: Line = ((0, 0), (0.2, 1), (0.5, 3.5), (0.8, 6), (1, 8), (1.2, 9), (2, 9), (4, 6))
# A text too short to show a level cannot be given one.
_SHORT_CAP: Line = ((0, 0), (0.1, 1), (0.25, 3), (0.5, 5.5), (0.8, 9), (1, 10))
_CAPS = {"empty": 0.0, "gibberish": 0.5, "not_english": 1.0, "repetitive": 2.0, "duplicated": 3.0}

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
    """Grades writing and transcripts. Holds the loaded dictionaries; one per process is enough."""

    def __init__(self) -> None:
        self._measurer = Measurer()

    def grade_writing(self, text: str, task_type: TaskType) -> Grade:
        """The grade of a text. CPU work: call it from a thread."""
        measured = self._measurer.measure(text)
        expected = WORDS_EXPECTED[task_type]
        return _grade(text, measured, expected, _form(text, measured, task_type), _PARAGRAPHS[task_type])

    def grade_speaking(self, transcript: str, duration_s: float) -> Grade:
        """The grade of what was said. Spelling, capitals and commas are the transcriber's and do not count."""
        measured = self._measurer.measure(transcript, spoken=True)
        expected = max(40, round(min(duration_s, 240) / 60 * SPOKEN_WORDS_PER_MINUTE))
        # Speech has no paragraphs; it is neither rewarded nor punished for that.
        return _grade(transcript, measured, expected, 6.0, ((0, 6), (1, 6)))


def signals_of(text: str, measured: Features, expected: int) -> tuple[str, ...]:
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
        }
    return tuple(name for name, true in found.items() if true)


def has_injection(text: str) -> bool:
    """Whether a text speaks to its grader instead of its reader."""
    return _INJECTION.search(text) is not None


def _grade(text: str, measured: Features, expected: int, form: float, paragraphs: Line) -> Grade:
    signals = signals_of(text, measured, expected)
    level = _on(_LEVEL, measured.level)
    span = (_on(_SENTENCE, measured.sentence_words) + _on(_SUBORDINATION, measured.subordinate_rate)) / 2
    lexis = 0.65 * level + 0.25 * _on(_VARIETY, measured.variety) + 0.1 * _on(_MISSPELT, measured.misspelt_rate)
    grammar = 0.35 * _on(_SLIPS, measured.slips_rate) + 0.65 * span
    coherence = (
        0.3 * _on(_LINK_KINDS, measured.link_kinds)
        + 0.15 * _on(_LINK_RATE, measured.links_rate)
        + 0.25 * _on(paragraphs, measured.paragraphs)
        + 0.3 * _on(_ADVANCED_LINKS, measured.advanced_links)
    )
    length = measured.distinct_sentences_words / expected
    # Length and form alone must not carry a text far above the language it is written in.
    within = (lexis + grammar + coherence) / 3 + 0.5
    task = 0.65 * min(_on(_LENGTH, length), within) + 0.35 * min(form, within)
    cap = min([_on(_SHORT_CAP, length), *(_CAPS[name] for name in signals if name in _CAPS)])
    scores = [to_half(min(score, cap)) for score in (task, coherence, lexis, grammar)]
    sentences = _feedback(measured, expected, signals)
    criteria = {name: Criterion(score, said) for name, score, said in zip(CRITERIA, scores, sentences, strict=True)}
    return grade_of(criteria, signals=signals, method="offline")


def _form(text: str, measured: Features, task_type: TaskType) -> float:
    """Whether the parts that its kind of text has are there."""
    if task_type == "email":
        return 4.0 + 3.0 * bool(_GREETING.search(text)) + 3.0 * bool(_CLOSING.search(text[-300:]))
    return 4.0 + 3.0 * (measured.paragraphs >= 3) + 3.0 * bool(_CONCLUSION.search(text[-600:]))


def _on(line: Line, value: float) -> float:
    """Where `value` falls on a line drawn through points; beyond its ends the line is level."""
    if value <= line[0][0]:
        return line[0][1]
    for (low, from_score), (high, to_score) in pairwise(line):
        if value <= high:
            return from_score + (to_score - from_score) * (value - low) / (high - low)
    return line[-1][1]


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
    if "repetitive" in signals or "duplicated" in signals:
        return "Much of the answer repeats itself; only what is said once counts."
    share = measured.distinct_sentences_words / expected
    size = f"You used {measured.words} words; about {expected} are expected."
    advice = "Develop your points further." if share < 0.8 else "The length fits the task."
    return f"{size} {advice} Whether it answers the question was not checked automatically."


def _about_coherence(measured: Features) -> str:
    if measured.link_kinds <= 1:
        return "Sentences stand side by side; link them with words such as 'however', 'because', 'for example'."
    if measured.advanced_links == 0:
        return f"You use {measured.link_kinds} kinds of links; try 'although', 'therefore' or 'moreover' as well."
    return f"Ideas are linked in {measured.link_kinds} ways, in {measured.paragraphs} paragraph(s)."


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
