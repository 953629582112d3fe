"""Measures a learner's English: length, grammar slips, word levels, variety, links between sentences.

Everything runs offline from packages that carry their data: Harper finds slips, cefrpy knows the CEFR level of
words, wordfreq how common they are. They load on first use (about a second) and are kept by the `Measurer`.
Measuring is CPU work: call it from a thread.
"""

from __future__ import annotations

import re
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from holdfast_systems.grading.word_order import impossible_pairs

# Longer texts are measured by their beginning: the score does not change any more, the time would.
CHARACTERS_MAX = 30_000
# A text's budget of CPU. Harper takes 5 to 50 ms to find suggestions for one misspelt word, the longer the more, so it
# is not asked about hundreds of them; many of its rules look at every pair of tokens, so it gets a long text in pieces;
# and slips are looked for only in what reads as English, where they can change the score.
_RARE_LETTERS_MAX = 800
_PIECE_CHARACTERS_MAX = 2_000
_ENGLISH_SHARE_MIN = 0.4
# A word that hardly anybody writes, on Zipf's scale of frequencies.
_MISSPELT_BELOW = 1.5

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_MARKS = '.,;:!?…"“”()[]{}*_'
_TOO_LONG = re.compile(r"[\w'’]{25,}|\S{81,}")
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"')\]]*\s+|\n+")
# What each kind of slip weighs. Harper's advice on style is no slip and weighs nothing.
_SLIP_WEIGHTS = {
    **dict.fromkeys(("Agreement", "Grammar", "Spelling", "Nonstandard", "Malapropism", "Eggcorn"), 1.0),
    **dict.fromkeys(("Typo", "Usage", "BoundaryError", "Miscellaneous"), 0.8),
    **dict.fromkeys(("Capitalization", "Punctuation", "Repetition", "WordChoice"), 0.4),
}
# A transcript's spelling, commas and capitals are the transcriber's, not the speaker's.
_WRITTEN_ONLY = frozenset({"Capitalization", "Punctuation", "Spelling", "Typo", "Formatting", "BoundaryError"})


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FUNCTION_WORDS = _set(
    """the a an and or but if of to in on at by for with from as is are was were be been am do does did have has
    had i you he she it we they me him her us them my your his its our their this that these those not no will
    would can could should may might must so because when which who what there very more than about"""
)
_FILLERS = _set("um umm uh uhm uhh er erm err eh hmm hm mm mmm ah")
# Said twice for a reason.
_DOUBLED = _set("very really had that no yes bye so blah")
_SUBORDINATE = _set(
    """because although though while whereas unless since which who whom whose that if when whenever until before
    after where whether despite"""
)
_ADVANCED_LINKS = _set(
    """nevertheless nonetheless consequently moreover furthermore whereas although despite thus hence therefore
    conversely accordingly ultimately albeit notwithstanding likewise"""
)
_LINKS = {
    "addition": "also,too,moreover,furthermore,in addition,besides,as well as,not only,what is more",
    "contrast": "but,however,although,though,whereas,while,on the other hand,nevertheless,despite,in spite of,yet,"
    "nonetheless,even so,that said,by contrast",
    "cause": "because,since,so,therefore,thus,as a result,consequently,due to,for this reason,hence,given that",
    "example": "for example,for instance,such as,in particular,namely",
    "order": "first,firstly,second,secondly,third,next,then,finally,to begin with,after that,first of all",
    "summary": "in conclusion,to sum up,overall,in short,to conclude,all in all,in summary,after all,ultimately",
}


@dataclass(frozen=True, slots=True)
class Features:
    """What was measured. Rates are per 100 words; shares and varieties lie between 0 and 1."""

    words: int
    distinct_sentences_words: int
    sentences: int
    paragraphs: int
    sentence_words: float
    slips_rate: float
    slip_examples: tuple[tuple[str, str], ...]
    misspelt_rate: float
    level: float
    advanced_share: float
    variety: float
    link_kinds: int
    links_rate: float
    subordinate_rate: float
    advanced_links: int
    english_share: float
    function_share: float
    repeated_share: float
    squeeze: float
    impossible_rate: float
    stumbles_rate: float


class Measurer:
    """Measures texts, one at a time. Safe to call from many threads; they wait for each other."""

    def __init__(self) -> None:
        # A Harper linter must not be entered twice.
        self._alone = threading.Lock()

    def measure(self, text: str, *, spoken: bool = False) -> Features:
        """The features of a text. The same text always gives the same features."""
        with self._alone:
            return self._measure(text[:CHARACTERS_MAX], spoken)

    @cached_property
    def _linter(self) -> Any:
        import harper

        return harper.Linter(harper.Dialect.BRITISH)

    @cached_property
    def _linter_without_spelling(self) -> Any:
        import harper

        linter = harper.Linter(harper.Dialect.BRITISH)
        linter.set_lint_config({**linter.get_lint_config(), "SpellCheck": False})
        return linter

    @cached_property
    def _levels(self) -> Any:
        from cefrpy import CEFRAnalyzer

        return CEFRAnalyzer()

    def _measure(self, text: str, spoken: bool) -> Features:
        sentences = [part.strip() for part in _SENTENCE_END.split(text) if _WORD.search(part)]
        words = [word.lower().replace("’", "'") for word in _WORD.findall(text)]
        per_hundred = 100 / max(1, len(words))
        slips = self._slips(text, words, spoken) if words else []
        kinds, links = _links(text)
        distinct = list(dict.fromkeys(" ".join(_WORD.findall(sentence.lower())) for sentence in sentences))
        return Features(
            words=len(words),
            distinct_sentences_words=sum(len(sentence.split()) for sentence in distinct),
            sentences=len(sentences),
            paragraphs=len([part for part in re.split(r"\n\s*\n|\n", text) if _WORD.search(part)]),
            sentence_words=len(words) / max(1, len(sentences)),
            slips_rate=sum(weight for weight, _, _ in slips) * per_hundred,
            slip_examples=tuple((shown, mend) for _, shown, mend in slips if mend)[:3],
            misspelt_rate=sum(1 for word in words if self._frequency(word) < _MISSPELT_BELOW) * per_hundred,
            **self._lexis(words),
            link_kinds=kinds,
            links_rate=links * per_hundred,
            subordinate_rate=sum(1 for word in words if word in _SUBORDINATE) * per_hundred,
            advanced_links=len(_ADVANCED_LINKS.intersection(words)),
            english_share=sum(1 for word in words if self._frequency(word) >= 3.0) / max(1, len(words)),
            function_share=sum(1 for word in words if word in _FUNCTION_WORDS) / max(1, len(words)),
            repeated_share=1 - len(distinct) / max(1, len(sentences)),
            squeeze=_squeeze(" ".join(words)),
            impossible_rate=impossible_pairs(text) * per_hundred,
            stumbles_rate=_stumbles(words) * per_hundred,
        )

    def _slips(self, text: str, words: list[str], spoken: bool) -> list[tuple[float, str, str]]:
        """Weight, what stands there and what should, for each slip that counts."""
        if sum(1 for word in words if self._frequency(word) >= 3.0) < _ENGLISH_SHARE_MIN * len(words):
            return []
        found: list[tuple[float, str, str]] = []
        # What Harper takes for a word may be more than what we do: whole tokens count too.
        tokens = set(words).union(token.strip(_MARKS) for token in text.lower().split())
        rare_letters = sum(len(token) for token in tokens if self._frequency(token) < 3.0)
        linter = self._linter
        if rare_letters > _RARE_LETTERS_MAX:
            # Who misspells most must not be the better for it: what Harper is not asked about is counted here.
            linter = self._linter_without_spelling
            if not spoken:
                found = [(1.0, word, "") for word in words if self._frequency(word) < _MISSPELT_BELOW]
        for piece in _pieces(_TOO_LONG.sub(" ", text)):
            for lint in linter.lint(piece, language="plaintext"):
                weight = _SLIP_WEIGHTS.get(lint.lint_kind, 0.0)
                if weight and not (spoken and lint.lint_kind in _WRITTEN_ONLY) and not self._is_name_or_common(lint):
                    found.append((weight, lint.problem_text.strip()[:40], _mended(lint)[:40]))
        return found

    def _is_name_or_common(self, lint: Any) -> bool:
        """A name, or a word that Harper lacks but people use: no slip.

        Common misspellings are frequent too ('recieve' is at 2.8), hence the high bar for spelling.
        """
        word = lint.problem_text.strip()
        if lint.lint_kind == "Spelling":
            return word[:1].isupper() or self._frequency(word) >= 4.0
        return lint.lint_kind == "BoundaryError" and word.isalpha() and self._frequency(word) >= 2.0

    def _lexis(self, words: list[str]) -> dict[str, float]:
        known = [level for word in set(words) if (level := self._level(word)) is not None]
        upper = sorted(known)[len(known) * 3 // 4 :]
        return {
            # The mean level of the top quarter: everyone uses "the", the difference is made at the top.
            "level": sum(upper) / len(upper) if upper else 0.0,
            "advanced_share": sum(1 for level in known if level >= 3.5) / max(1, len(known)),
            "variety": _variety(words),
        }

    def _level(self, word: str) -> float | None:
        stem = word.split("'")[0]
        level = self._levels.get_average_word_level_float(stem)
        # A word nobody uses is a slip of the keys, whatever level a list gives to it.
        return float(level) if level is not None and self._frequency(stem) >= 2.0 else None

    def _frequency(self, word: str) -> float:
        from wordfreq import zipf_frequency

        return float(zipf_frequency(word, "en"))


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces of bounded length, each ending with a sentence if there is an end in its second half."""
    start = 0
    while start < len(text):
        piece = text[start : start + _PIECE_CHARACTERS_MAX]
        if start + len(piece) < len(text):
            half = len(piece) // 2
            ends = [match.end() for match in _SENTENCE_END.finditer(piece, half)]
            piece = piece[: ends[-1] if ends else piece.rfind(" ", half) + 1 or len(piece)]
        yield piece
        start += len(piece)


def _mended(lint: Any) -> str:
    """The text as the first suggestion would have it; empty if there is none or it only removes."""
    if not lint.suggestions:
        return ""
    first = lint.suggestions[0]
    inserted = first.kind == 2
    return str(lint.problem_text + first.replacement_text if inserted else first.replacement_text).strip()


def _variety(words: list[str], window: int = 50) -> float:
    """The share of different words, averaged over windows so that length does not lower it."""
    if len(words) <= window:
        return len(set(words)) / len(words) if words else 0.0
    starts = range(0, len(words) - window + 1, 5)
    return sum(len(set(words[start : start + window])) / window for start in starts) / len(starts)


def _links(text: str) -> tuple[int, int]:
    """How many kinds of connecting words occur, and how many of them in all."""
    flat = " " + " ".join(_WORD.findall(text.lower())) + " "
    counts = [sum(flat.count(f" {phrase} ") for phrase in phrases.split(",")) for phrases in _LINKS.values()]
    return sum(1 for count in counts if count), sum(counts)


def _stumbles(words: list[str]) -> int:
    """Fillers, and words said twice in a row."""
    fillers = sum(1 for word in words if word in _FILLERS)
    return fillers + sum(1 for word, following in pairwise(words) if word == following and word not in _DOUBLED)


def _squeeze(text: str) -> float:
    """Compressed size over size: ordinary prose stays above 0.35, pasted repetition falls far below."""
    raw = text.encode()
    return len(zlib.compress(raw, 9)) / len(raw) if len(raw) > 200 else 1.0
