"""Unexpected exceptions are told apart by their type and the place in the caller's own code."""

from __future__ import annotations

import json

import pytest

from holdfast.core.case import fingerprint
from holdfast.core.classify import FRAMES_MAX, name_origin
from holdfast.core.redact import redact

pytestmark = pytest.mark.spec("K8")


def look_up() -> None:
    dict[str, str]().__getitem__("order")


def divide() -> None:
    divmod(1, 0)


def parse() -> None:
    json.loads("{")


def origin(function: object) -> str:
    try:
        function()  # type: ignore[operator]
    except Exception as error:
        return name_origin(error)
    raise AssertionError("it raises")


def test_the_type_and_the_innermost_own_function_are_named() -> None:
    assert origin(look_up) == "KeyError core/test_origin.py look_up"
    assert origin(divide) == "ZeroDivisionError core/test_origin.py divide"
    assert origin(parse) == "JSONDecodeError core/test_origin.py parse", "the standard library is nobody's own"


def test_no_more_frames_are_walked_than_an_exception_of_an_endless_call_is_worth() -> None:
    def fall(depth: int) -> None:
        divide() if depth == 0 else fall(depth - 1)

    assert origin(lambda: fall(10)).endswith(" divide") and origin(lambda: fall(FRAMES_MAX)).endswith(".fall")
    assert FRAMES_MAX == 200


def test_where_no_frame_is_ones_own_the_type_is_left() -> None:
    assert name_origin(KeyError("x")) == "KeyError"
    error = KeyError("never raised")
    error.__traceback__ = None
    assert name_origin(error) == "KeyError"


def test_holdfasts_own_frames_are_not_the_callers() -> None:
    class Odd(dict[str, str]):
        def items(self) -> object:  # type: ignore[override]
            raise LookupError("inside a call of Holdfast")

    assert origin(lambda: redact(Odd(a="b"))).startswith("LookupError core/test_origin.py ")


def test_three_bugs_of_one_stage_are_three_groups_and_others_stay_as_they_were() -> None:
    bugs = {fingerprint("shop.order", "charge", "BUG", "bank", origin(each)) for each in (look_up, divide, parse)}
    assert len(bugs) == 3
    assert fingerprint("shop.order", "charge", "BUG", "bank") == "bc493ab1fdf2"
    assert fingerprint("shop.order", "charge", "BUG", "bank", origin(divide)) == "ed3fc11364ac"
