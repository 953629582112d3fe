"""Whatever fails, a client sees one of ten codes and one fixed sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.failure import Category, Failure, failure, from_status
from holdfast.errors import CallError, ProviderHeld
from holdfast_systems.conversion.codes import (
    RETRIED,
    TABLE,
    Code,
    ConversionError,
    conversion_failure,
    public_error,
)

SENTENCES = {(public.code, public.message) for public in TABLE.values()}
ERRORS = [OSError, ValueError, TimeoutError, ConnectionResetError, MemoryError, KeyError, PermissionError]

hostile_text = st.one_of(
    st.text(),
    st.sampled_from(
        ["/srv/uploads/a.pdf\n", 'Traceback (most recent call last):\n  File "x.py"', "GW_UNAVAILABLE", "sk-secret"]
    ),
)


@pytest.mark.spec("C2")
def test_the_public_codes_are_the_ten_of_the_specification() -> None:
    named = "NOT_PDF TOO_LARGE GW_4XX GW_5XX GW_TIMEOUT IO_ERROR NOT_READY EXPIRED FORBIDDEN UNKNOWN"
    assert set(Code) == set(named.split())


@pytest.mark.spec("C2", "001.2")
@pytest.mark.parametrize(
    ("internal", "code"),
    [
        ("GW_UNAVAILABLE", Code.GW_5XX),
        ("NETWORK_UNREACHABLE", Code.GW_5XX),
        ("NETWORK_BROKEN", Code.GW_5XX),
        ("PARSE_ERROR", Code.GW_4XX),
        ("VALIDATION_ERROR", Code.GW_4XX),
        ("INVALID_MAPPING", Code.GW_4XX),
        ("MEMORY_ERROR", Code.UNKNOWN),
        ("LOCAL_PRESSURE", Code.IO_ERROR),
        ("DOCUMENT_TOO_COMPLEX", Code.GW_4XX),
        ("GATEWAY_BUSY", Code.GW_5XX),
        ("GATEWAY_TIMEOUT", Code.GW_TIMEOUT),
    ],
)
def test_internal_codes_map_to_public_ones(internal: str, code: Code) -> None:
    category = Category.NETWORK if internal.startswith("NETWORK") else Category.BUG
    assert public_error(failure(category, internal, ""))[0] is code


@pytest.mark.spec("C2", "001.4")
@pytest.mark.parametrize("key", TABLE)
def test_every_sentence_is_one_line_without_codes_or_paths(key: str) -> None:
    message = TABLE[key].message
    assert message.isprintable() and message.endswith(".") and len(message) < 80
    assert not set(message) & set("/\\_<>{}")


@pytest.mark.spec("C2")
@pytest.mark.parametrize("code", Code)
def test_a_public_code_maps_to_itself(code: Code) -> None:
    assert public_error(ConversionError(code, "/srv/secret\nline"))[0] is code


@pytest.mark.spec("C2")
def test_every_category_is_in_the_table_so_that_no_class_is_without_a_code() -> None:
    assert set(Category) <= set(TABLE)


@pytest.mark.spec("C2")
@given(st.sampled_from(Category), st.one_of(st.sampled_from(sorted(TABLE)), hostile_text), hostile_text)
def test_no_failure_shows_anything_but_a_sentence_of_the_table(
    category: Category, error_class: str, message: str
) -> None:
    shown = public_error(Failure(category, error_class, message, retryable=True, stack=message))
    assert shown in SENTENCES


@pytest.mark.spec("C2", "001.4")
@given(st.sampled_from(ERRORS), hostile_text)
def test_no_exception_shows_anything_but_a_sentence_of_the_table(kind: type[Exception], text: str) -> None:
    assert public_error(kind(text)) in SENTENCES


@pytest.mark.spec("C2")
@given(st.integers(400, 599), hostile_text, st.dictionaries(st.sampled_from(["retry-after"]), hostile_text))
def test_every_answer_of_a_gateway_has_a_gateway_code(status: int, text: str, headers: dict[str, str]) -> None:
    code, _ = public_error(from_status(status, text, headers, now_ms=0))
    if status in (408, 504):
        assert code is Code.GW_TIMEOUT
    elif status == 429 or status >= 500:
        assert code is Code.GW_5XX
    else:
        assert code is Code.GW_4XX


@pytest.mark.spec("C2")
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(28, "No space left on device"), Code.IO_ERROR),
        (PermissionError("/srv/results"), Code.IO_ERROR),
        (MemoryError(), Code.IO_ERROR),
        (TimeoutError(), Code.GW_TIMEOUT),
        (ConnectionRefusedError(), Code.GW_5XX),
        (ProviderHeld("gateway", "open", 0), Code.GW_5XX),
        (ZeroDivisionError(), Code.UNKNOWN),
        (KeyboardInterrupt(), Code.UNKNOWN),
    ],
)
def test_exceptions_are_told_apart_by_type(error: BaseException, code: Code) -> None:
    assert public_error(error)[0] is code


@pytest.mark.spec("C3", "001.7", "001.35")
def test_the_codes_that_are_retried() -> None:
    assert {Code.GW_5XX, Code.GW_TIMEOUT, Code.IO_ERROR, Code.UNKNOWN} == RETRIED


@pytest.mark.spec("C3", "K5", "001.7")
@given(st.integers(400, 599))
def test_an_answer_is_retried_exactly_when_its_public_code_is(status: int) -> None:
    error = CallError.from_status(status, "", {}, now_ms=0)
    assert conversion_failure(error).retryable == (public_error(error)[0] in RETRIED)


@pytest.mark.spec("C3")
@pytest.mark.parametrize("error", [OSError("disk"), MemoryError(), ZeroDivisionError(), TimeoutError()])
def test_local_trouble_and_defects_are_retried(error: Exception) -> None:
    assert conversion_failure(error).retryable


@pytest.mark.spec("C3", "K5")
def test_a_provider_that_asks_not_to_be_called_again_is_obeyed() -> None:
    error = CallError.from_status(500, "", {"x-should-retry": "false"}, now_ms=0)
    assert public_error(error)[0] is Code.GW_5XX
    assert not conversion_failure(error).retryable
