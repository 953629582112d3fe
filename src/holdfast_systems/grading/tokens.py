"""Cuts a text into a language model's tokens: byte pairs, merged in the order that the model learned."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache

# What merges are looked for in. Nobody writes a longer word, and merging takes the square of its length.
_PIECE_MAX = 48


class Tokenizer:
    """The vocabulary and merges of one model."""

    def __init__(self, vocabulary: Sequence[str], merges: Sequence[str]) -> None:
        import regex

        self._number = {token: number for number, token in enumerate(vocabulary)}
        self._rank = {tuple(merge.split(" ", 1)): rank for rank, merge in enumerate(merges)}
        self._pieces = regex.compile(
            r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", regex.UNICODE
        )
        self._letters = _printable_bytes()
        self._merged = lru_cache(20_000)(self._merge)

    def tokens(self, text: str, limit: int) -> list[int]:
        """The first `limit` tokens of a text."""
        numbers: list[int] = []
        for piece in self._pieces.finditer(text):
            word = piece.group()
            for start in range(0, len(word), _PIECE_MAX):
                numbers += self._merged(word[start : start + _PIECE_MAX])
            if len(numbers) >= limit:
                break
        return numbers[:limit]

    def _merge(self, piece: str) -> tuple[int, ...]:
        parts = [self._letters[byte] for byte in piece.encode("utf-8", "replace")]
        while len(parts) > 1:
            never = len(self._rank)
            ranks = [self._rank.get(pair, never) for pair in itertools.pairwise(parts)]
            at = min(range(len(ranks)), key=ranks.__getitem__)
            if ranks[at] == never:
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return tuple(self._number[part] for part in parts if part in self._number)


def _printable_bytes() -> list[str]:
    """The character that stands for each byte in such vocabularies: itself where it can be printed."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    spare = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(spare)) for byte in range(256)]
