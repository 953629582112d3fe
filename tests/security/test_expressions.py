"""No text of a stranger makes a regular expression run for longer than its length allows: each is played, by the
methods that its module calls, with texts made from its own parts. What runs in the sandbox has its clock instead."""

from __future__ import annotations

import ast
import importlib
import random
import re
import re._constants as op  # type: ignore[import-untyped]
import re._parser as parser  # type: ignore[import-untyped]
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from itertools import product
from pathlib import Path
from time import thread_time
from typing import Any, NamedTuple

import pytest

pytestmark = pytest.mark.spec("K30")
SOURCES = Path(__file__).parents[2] / "src"
LENGTH, GROWTH = 4_000, 4
NOTICED_S = 0.0008
PLAYED_MAX = 15
# Read only what we wrote ourselves, or texts of a bounded length.
TRUSTED = ("holdfast_proof/", "/sim/", "holdfast/stores/", "holdfast/cli/", "holdfast_systems/conversion/")
BOUNDED = {
    "holdfast_systems/review/fetch_git.py": "what git says of its version",
    "holdfast_systems/review/git_failure.py": "the last 16 KB of what git said",
}


class Expression(NamedTuple):
    """A pattern, and how its module plays it on a text. One of bytes is played on bytes."""

    path: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]

    def play(self, text: str) -> float:
        """The processor time of the method that takes longest; one that seems long is asked again."""
        given = text if isinstance(self.pattern.pattern, str) else text.encode("latin-1")
        return max(self._time(getattr(self.pattern, method), given) for method in self.methods)

    @staticmethod
    def _time(method: Callable[[str | bytes], Any], text: str | bytes) -> float:
        took = _timed(method, text)
        return took if took < NOTICED_S else min(took, _timed(method, text))


def _timed(method: Callable[[str | bytes], Any], text: str | bytes) -> float:
    begun = thread_time()
    found = method(text)
    if not isinstance(found, re.Match | list | None):
        for _ in found:
            pass
    return thread_time() - begun


def expressions() -> Iterator[Expression]:
    for path in sorted(SOURCES.rglob("*.py")):
        name = str(path.relative_to(SOURCES))
        text = path.read_text()
        if "import re\n" not in text or name in BOUNDED or any(part in f"/{name}" for part in TRUSTED):
            continue
        module = importlib.import_module(name.removesuffix(".py").replace("/", "."))
        for held_as, value in vars(module).items():
            for pattern in patterns_in(value):
                yield Expression(name, pattern, methods_of(held_as, text))
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name("re"), attr=method),
                    args=[ast.Constant(str() | bytes() as given), *_],
                ):
                    if method != "compile":
                        used = "finditer" if method in ("sub", "split") else method
                        yield Expression(name, re.compile(given, flags_of(node)), frozenset({used}))


def flags_of(call: ast.Call) -> int:
    """The flags that a call of `re` names, by position or by name."""
    return sum(
        getattr(re, each.attr)
        for given in (*call.args[1:], *(word.value for word in call.keywords))
        for each in ast.walk(given)
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "re"
    )


def methods_of(name: str, text: str) -> frozenset[str]:
    """How a pattern is played; one in a table, by every method that its module calls."""
    own = re.findall(rf"\b{name}\.(search|match|fullmatch|finditer|findall|sub|split)\b", text)
    called = own or re.findall(r"\.(search|match|fullmatch|finditer|findall|sub|split)\b", text) or ["search"]
    return frozenset("finditer" if method in ("sub", "split") else method for method in called)


def patterns_in(value: object, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth < 4 and isinstance(value, dict | list | tuple | set | frozenset):
        for each in value.items() if isinstance(value, dict) else value:
            yield from patterns_in(each, depth + 1)
    elif depth < 4 and is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            yield from patterns_in(getattr(value, each.name), depth + 1)


def attacks(pattern: re.Pattern[Any]) -> list[tuple[str, str, str]]:
    """Beginnings, repeated parts and ends that make such an expression try again and again. Where it takes any
    character, that is also the one by which it begins: then it may begin anew at each of them."""
    tree = parser.parse(pattern.pattern, pattern.flags)
    parts = sorted({part for part in parts_of(tree) if part})
    spaced = [f"{part} " for part in parts if not part.endswith(" ")]
    letters = [part for part in parts if len(part) == 1]
    likely = list(product(["", *parts], letters, ["\0"]))
    others = [*product([""], parts + spaced, ["", "\0"]), *product(parts, parts + spaced, ["\0"])]
    anew = [
        attack
        for first in sorted(beginnings(tree))
        for attack in product(["", first], sorted({*parts_of(tree, first)} - {*parts, ""}), ["", "\0"])
    ]
    chosen = random.Random(str(pattern.pattern))
    return [attack for many in (likely, others, anew) for attack in chosen.sample(many, min(PLAYED_MAX, len(many)))]


def beginnings(tree: Any) -> set[str]:
    """The letters that a match may begin with, where the expression names them."""
    for kind, given in tree:
        if kind is op.LITERAL:
            return {chr(given)}
        if kind is op.SUBPATTERN:
            return beginnings(given[3])
        if kind is op.BRANCH:
            return {letter for way in given[1] for letter in beginnings(way)}
        if kind is not op.AT:
            return set()
    return set()


def parts_of(tree: Any, any_char: str = "a") -> Iterator[str]:
    """What the expression reads, piece by piece: each repeated part, each way of a choice, each run of letters."""
    whole = ""
    for kind, given in tree:
        piece = ""
        if kind is op.LITERAL:
            piece = chr(given)
        elif kind is op.NOT_LITERAL or kind is op.ANY:
            piece = any_char
        elif kind is op.IN:
            piece = next((char for char in "a 0-./:=@A\"'\n,;<{[\\" if _takes(given, char)), "é")
        elif kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            pieces = list(parts_of(given[2], any_char))
            yield from pieces
            piece = (pieces[-1] if pieces else "") * max(1, min(given[0], 40))
        elif kind in (op.SUBPATTERN, op.ATOMIC_GROUP):
            pieces = list(parts_of(given[3] if kind is op.SUBPATTERN else given, any_char))
            yield from pieces
            piece = pieces[-1] if pieces else ""
        elif kind is op.BRANCH:
            ways = [list(parts_of(way, any_char)) for way in given[1]]
            for way in ways:
                yield from way
            piece = next((way[-1] for way in ways if way), "")
        whole += piece
        if whole and kind is not op.LITERAL:
            yield whole
    yield whole


def _takes(given: Any, char: str) -> bool:
    return re.compile(_written(given)).fullmatch(char) is not None


def _written(given: Any) -> str:
    categories = {
        op.CATEGORY_DIGIT: r"\d",
        op.CATEGORY_NOT_DIGIT: r"\D",
        op.CATEGORY_SPACE: r"\s",
        op.CATEGORY_NOT_SPACE: r"\S",
        op.CATEGORY_WORD: r"\w",
        op.CATEGORY_NOT_WORD: r"\W",
    }
    inside = ""
    for kind, value in given:
        if kind is op.NEGATE:
            inside += "^"
        elif kind is op.LITERAL:
            inside += f"\\U{value:08x}"
        elif kind is op.RANGE:
            inside += f"\\U{value[0]:08x}-\\U{value[1]:08x}"
        elif kind is op.CATEGORY:
            inside += categories[value]
    return f"[{inside}]"


def grown(attack: tuple[str, str, str], length: int) -> str:
    begin, part, end = attack
    return begin + part * (length // len(part)) + end


def complaint(expression: Expression) -> str | None:
    for attack in attacks(expression.pattern):
        short_s = expression.play(grown(attack, LENGTH))
        if short_s < NOTICED_S:
            continue
        long, limit_s = grown(attack, LENGTH * GROWTH), short_s * GROWTH * 2
        # Whoever has the processor beside us makes one playing long, not each of four.
        if all(expression.play(long) > limit_s for _ in range(4)):
            long_s = expression.play(long)
            took = f"{short_s * 1e3:.0f} ms for {LENGTH} characters, {long_s * 1e3:.0f} ms for {LENGTH * GROWTH}"
            return f"{expression.path}: {expression.pattern.pattern[:80]!r} by {attack}: {took}"
    return None


def test_every_expression_takes_time_by_the_length_of_its_text() -> None:
    every = list(expressions())
    assert len(every) > 100
    assert [found for each in every if (found := complaint(each)) is not None] == []


BAD = [r"bytes\s*=\s*[0-9]{0,15}\s*-", r"\w+@x", r"if.*debug", r"^(?:@@ .* @@.*)\r$", rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]']


@pytest.mark.parametrize("pattern", BAD)
def test_an_expression_that_tries_again_and_again_is_noticed(pattern: str | bytes) -> None:
    expression = Expression("here", re.compile(pattern, re.MULTILINE), frozenset({"search"}))
    assert any(complaint(expression) for _ in range(3)), "whoever has the processor beside us may hide it once"
