"""Nothing is accepted that a worker would read otherwise than it was given; what can be stored as it is, is taken."""

from __future__ import annotations

import enum
import re
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import pytest
from pydantic import Base64Bytes, BaseModel, Field, PlainSerializer, SecretStr, field_validator

from holdfast import App, Context, InvalidInput, Job, Snooze, stage
from holdfast.errors import BadDeclaration
from holdfast.kernel.kinds import JobKind

pytestmark = pytest.mark.spec("K6")
T = TypeVar("T")


class Colour(enum.Enum):
    RED = "r"


@dataclass(frozen=True, slots=True)
class Card:
    number: int
    text: str = "x"


@dataclass
class Base:
    number: int


@dataclass
class Derived(Base):
    more: int = 2


class Point(NamedTuple):
    x: int
    y: int = 0


class Named(BaseModel):
    name: str = Field(alias="fullName")
    shown: str = Field(default="y", serialization_alias="shownAs")


class Louder(BaseModel):
    text: str

    @field_validator("text")
    @classmethod
    def shout(cls, text: str) -> str:
        return text + "!"


class Login(BaseModel):
    password: SecretStr


class Hidden(BaseModel):
    number: int = Field(exclude=True)


class Box(BaseModel, Generic[T]):
    value: T


class Holder(BaseModel):
    box: Box[int]
    parent: Named | None = None


class Wide(Holder):
    more: int = 1


class Picture(BaseModel):
    data: Base64Bytes
    title: str | None = None


class Rounded(BaseModel):
    at: Annotated[datetime, PlainSerializer(lambda at: at.isoformat(timespec="seconds"))]
    price: Annotated[float, PlainSerializer(lambda price: round(price, 2))]


class LeftOut(BaseModel):
    number: int = Field(default=7, exclude=True)


def kind_of(takes: Any) -> JobKind:
    app = App("door")

    class Take(Job[takes]):
        @stage()
        async def run(self, ctx: Context, given: Any) -> None: ...

    return app.job()(Take).__holdfast__


TAKEN: list[tuple[Any, Any]] = [
    (Colour, Colour.RED),
    (Decimal, Decimal("1.10")),
    (datetime, datetime(2030, 1, 1, tzinfo=UTC)),
    (uuid.UUID, uuid.UUID(int=5)),
    (set[int], {1, 2}),
    (tuple[int, str], (1, "a")),
    (dict[int, str], {1: "a"}),
    (Card, Card(1)),
    (Derived, Derived(1)),
    (Point, Point(1)),
    (Literal["a", "b"], "a"),
    (Named, Named(fullName="ann")),
    (Box[int], Box[int](value=1)),
    (Holder, Holder(box=Box[int](value=1), parent=Named(fullName="ann"))),
    (Picture, Picture(data=b"/wA=")),
    (int | str, "5"),
    (LeftOut, LeftOut()),
    (int | float, 5.0),
    (Literal["a", 1], 1),
    (dict, {"a": [1, {"b": None}]}),
    (Any, None),
]


@pytest.mark.parametrize(("takes", "value"), TAKEN, ids=[str(takes) for takes, _ in TAKEN])
def test_a_worker_reads_what_was_given(takes: Any, value: Any) -> None:
    kind = kind_of(takes)
    assert kind.load_input(kind.dump_input(value)) == value


def test_a_type_may_round_by_its_own_rule() -> None:
    kind = kind_of(Rounded)
    given = Rounded(at=datetime(2030, 1, 1, microsecond=1_234, tzinfo=UTC), price=1.005)
    assert kind.load_input(kind.dump_input(given)) == Rounded(at=datetime(2030, 1, 1, tzinfo=UTC), price=1.0)


def test_a_tuple_in_what_has_no_type_is_a_list() -> None:
    kind = kind_of(dict)
    assert kind.load_input(kind.dump_input({"a": (1, 2)})) == {"a": [1, 2]}


REFUSED: list[tuple[Any, Any, str]] = [
    (dict, {"at": datetime(2030, 1, 1, tzinfo=UTC)}, "at: it is a datetime, and would be read again as a str; declare"),
    (dict[str, Any], {"sum": Decimal(1)}, "sum: it is a Decimal, and would be read again as a str; declare its type."),
    (list, [{1}], "0: it is a set, and would be read again as a list."),
    (Any, Colour.RED, "the value: it is a Colour, and would be read again as a str; declare its type."),
    (dict[tuple[int, int], str], {(1, 2): "a"}, "Input should be a valid array (when it is read again, as a worker"),
    (Base, Derived(1, 5), "the value: it is a Derived, and would be read again as a Base."),
    (Card | Base, Base(1), "the value: it is a Base, and would be read again as a Card."),
    (list[Holder], [Wide(box=Box[int](value=1))], "0: it is a Wide, and would be read again as a Holder."),
    (Louder, Louder(text="a"), "text: it would be another value when it is read again; its type must take what it has"),
    (LeftOut, LeftOut(number=9), "number: it would be another value when it is read again;"),
    (dict, {1: "a"}, "the value: its key 1 is a int, and would be read again as a text; declare its type."),
    (Any, {"a": {None: 1}}, "a: its key None is a NoneType, and would be read again as a text; declare its type."),
    (uuid.UUID | str, str(uuid.UUID(int=5)), "the value: it is a str, and would be read again as a UUID; declare"),
    (bytes | str, "a", "the value: it is a str, and would be read again as a bytes; declare its type."),
    (Literal[Colour.RED], Colour.RED, "Input should be <Colour.RED: 'r'> (when it is read again, as a worker does)."),
    (Any, Card(1), "the value: it is a Card, and would be read again as a dict; declare its type."),
    (Login, Login(password=SecretStr("abc")), "password: it would be another value when it is read again;"),
    (Hidden, Hidden(number=1), "number: Field required (when it is read again, as a worker does)."),
    (bytes, b"\xff", "it holds bytes that are no text; declare pydantic's Base64Bytes, or store them elsewhere."),
]


@pytest.mark.parametrize(("takes", "value", "sentence"), REFUSED, ids=[sentence[:40] for _, _, sentence in REFUSED])
def test_what_would_be_read_otherwise_is_refused(takes: Any, value: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        kind_of(takes).dump_input(value)
    assert sentence in str(refused.value)


def test_a_type_variable_is_no_type() -> None:
    with pytest.raises(BadDeclaration, match="'Take' takes ~T, which stands for any type: write Job"):
        kind_of(T)


RESULTS: list[tuple[Any, str]] = [
    (Card(1), "the value: it is a Card, and would be read again as a dict; declare its type."),
    ([Snooze(5)], "0: it is a Snooze, and would be read again as a dict; declare its type."),
    ({"at": datetime(2030, 1, 1, tzinfo=UTC)}, "at: it is a datetime, and would be read again as a str; declare its"),
    ({7: "a"}, "the value: its key 7 is a int, and would be read again as a text; declare its type."),
]


@pytest.mark.parametrize(("value", "sentence"), RESULTS, ids=[sentence[:30] for _, sentence in RESULTS])
def test_a_result_without_a_type_is_what_the_next_stage_reads(value: Any, sentence: str) -> None:
    app = App("door")

    @app.job()
    class Make(Job[int]):
        @stage()
        async def run(self, ctx: Context, number: int):  # type: ignore[no-untyped-def]
            return value

        @stage()
        async def card(self, ctx: Context, number: int) -> Card: ...

    untyped, typed = Make.__holdfast__.stages
    with pytest.raises(ValueError, match=re.escape(sentence.rstrip("."))):
        untyped.dump(value)
    assert typed.load(typed.dump(Card(1))) == Card(1) and untyped.dump((1, "a")) == '[1,"a"]'
