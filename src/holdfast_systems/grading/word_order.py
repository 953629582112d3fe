"""Pairs of small words that no sentence holds: "the of", "a is", "of and". Words in a random order are full of them.

It needs no data and no model. Learners make one now and then; more than two in a hundred words are no learner's.
"""

from __future__ import annotations

import itertools
import re

_RUN = re.compile(r"[a-z']+(?: [a-z']+)*")
_ARTICLES = "the a an"
_PREPOSITIONS = "of in on at to for with from by into"
_SUBJECTS = "i he she we they"
_BE = "is are was were am"
_OWNERS = "my our your his their its"
_OBJECTS = "me him us them"


def _pairs(first: str, second: str) -> set[tuple[str, str]]:
    return {(one, other) for one in first.split() for other in second.split() if one != other}


_IMPOSSIBLE = frozenset(
    _pairs(_ARTICLES, f"{_ARTICLES} {_PREPOSITIONS} {_SUBJECTS} {_BE} and or but be it you have has had because if so")
    | _pairs("my our", f"{_ARTICLES} {_PREPOSITIONS} {_BE} {_SUBJECTS} and or but because it")
    | _pairs(_PREPOSITIONS, f"{_BE} and or but because")
    | _pairs("of at from by into", f"{_SUBJECTS} can have has had will of to")
    | _pairs("in on for with to", "of")
    | _pairs("of", "in on at for with by from is it's be do")
    | _pairs(_SUBJECTS, f"{_ARTICLES} {_SUBJECTS} of at from into by my our their")
    | _pairs(_BE, _BE)
    | _pairs("very", f"{_ARTICLES} {_PREPOSITIONS} {_BE} {_SUBJECTS} and or")
    | _pairs("have has", f"{_BE} of at from by into and or")
    | _pairs("will can would should", f"{_PREPOSITIONS} {_BE} and or")
    | _pairs("be", f"{_BE} have has will can")
    | _pairs(
        _ARTICLES, f"{_OWNERS} {_OBJECTS} this these those which who when would could should does did not been than"
    )
    | _pairs("of at from by into", "would could should must may did does")
    | _pairs(_SUBJECTS, f"{_OBJECTS} which who because")
    | _pairs(_OWNERS, f"{_ARTICLES} {_SUBJECTS} {_OBJECTS} of at from by into to because have has will would can")
    | _pairs("this these those", f"{_ARTICLES} {_OWNERS}")
    | _pairs("because if", f"{_OBJECTS} and or but at from by into")
    | _pairs("than", "is are was were and of")
)


def impossible_pairs(text: str) -> int:
    """How many such pairs a text holds, not counting across commas and full stops."""
    runs = (match.group().split() for match in _RUN.finditer(" ".join(text.lower().replace("’", "'").split(" "))))
    return sum(pair in _IMPOSSIBLE for words in runs for pair in itertools.pairwise(words))
