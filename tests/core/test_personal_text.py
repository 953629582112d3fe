"""Personal data in messages: addresses, phone numbers and quoted texts go; ids, times and plain sentences stay."""

from __future__ import annotations

import string
import time
import uuid
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.case import fingerprint
from holdfast.core.personal_text import redact_lines, redact_message

pytestmark = pytest.mark.spec("K7", "004.11")
ESSAY = "Dear Ann, I was born in Hanoi and I would like to tell you how my family lived there"


@pytest.mark.parametrize(
    "text",
    [
        "+84 912 345 678",
        "+1 (555) 010-9999",
        "0084 912 345 678",
        "(028) 3822 1234",
        "555-010-9999",
        "0912 345 678",
        "0912345678",
        "phone: 5550109999",
        "tel=555 0109",
        "+4915112345678",
        "mobile number 555 010 999",
    ],
)
@pytest.mark.parametrize("around", ["{}", "550 no such user, {}, gone", '{{"user": "{}"}}', "call {}\nnow"])
def test_a_phone_number_is_masked(text: str, around: str) -> None:
    digits = "".join(letter for letter in text if letter.isdigit())
    clean = redact_message(around.format(text))
    assert "[phone]" in clean
    assert digits[-4:] not in "".join(letter for letter in clean.replace("550", "") if letter.isdigit())


@pytest.mark.parametrize(
    "text",
    [
        "john.doe@example.com",
        "o'brien@example.com",
        '"john doe"@example.com',
        "a%40b.com",
        "john\uff20example.com",
        "john.doe [at] example.com",
        "john(at)mail[dot]example[dot]com",
        "john @ example . com",
        "john@ example.com",
        "john.doe @example. co .uk",
        "john AT example.com",
        "john AT example DOT com",
        "john.doe at mail dot example dot com",
        "john [at] example dot com",
        "john_at_example_dot_com",
        "john\uff20 example.com",
    ],
)
def test_an_address_is_masked_whole(text: str) -> None:
    assert redact_message(f"550 no such user {text} here") == "550 no such user [email] here"


@pytest.mark.parametrize(
    "text",
    [
        "4111 1111 1111 1111",
        "5555-5555-5555-4444",
        "4111111111111111",
        "3782 822463 10005",
        "GB82 WEST 1234 5698 7654 32",
    ],
)
def test_the_number_of_a_card_or_an_account_is_masked(text: str) -> None:
    assert redact_message(f"card {text} declined") == "card [account] declined"


@pytest.mark.parametrize(
    "text",
    [
        "123-45-6789",
        "123 45 6789",
        "AB 12 34 56 C",
        "S1234567D",
        "079203001234",
        "11010519491231002X",
        "SSN 123456789",
        "ssn: 123 45 6789",
        "social security number is 123456789",
        "passport no. C1234567",
        "Passport: AB 123456",
        "CCCD 079 203 001 234",
        '"id_number": "99887766"',
        "national id=B123456",
        "driver's license D1234-56789-01234",
        "date of birth: 1990-03-12",
        "born on 12/03/1990",
    ],
)
def test_the_number_of_a_person_is_masked(text: str) -> None:
    clean = redact_message(f"refused: {text}, sorry (400)")
    assert "[id number]" in clean and clean.endswith(", sorry (400)")
    assert not any(letter.isdigit() for letter in clean.replace("(400)", ""))


@pytest.mark.parametrize(
    "text", ["prompt: 'Help Ann'", 'prompt="Help Ann"', "essay: Ann left", '{"content": "hi Ann"}', "input=Ann Lee"]
)
def test_a_text_of_two_words_is_masked_under_its_name(text: str) -> None:
    assert "Ann" not in redact_message(f"400 {text}")


@pytest.mark.parametrize("text", ["Call Ann Lee", "my name is Ann", "Ann is ill today"])
@pytest.mark.parametrize("around", ['"{}"', "'{}'", "\u201c{}\u201d", "float: '{}'", "I cannot answer '{}' now"])
def test_a_short_quotation_is_masked(text: str, around: str) -> None:
    assert "Ann" not in redact_message(f"The model refused {around.format(text)} (400)")


def test_a_quotation_between_letters_is_masked_too() -> None:
    text = "\u79c1\u306f\u6d77\u306e\u8fd1\u304f\u306e\u5c0f\u3055\u306a\u6751\u3067\u80b2\u3061\u307e\u3057\u305f"
    assert redact_message(f"\u672c\u6587\u300c{text}\u300d\u304c") == (
        "\u672c\u6587\u300c[text of 17 characters]\u300d\u304c"
    )
    assert redact_message("\u5217\u300c\u540d\u524d\u300d\u304c") == "\u5217\u300c\u540d\u524d\u300d\u304c"


@pytest.mark.parametrize(
    "around",
    [
        "content={}",
        "cannot read text={}",
        'invalid prompt: "{}"',
        "could not convert string to float: '{}'",
        "input was \u201c{}\u201d, refused",
        "prompt: {}",
        'cut off: "{}',
        r"{{\"text\": \"{}\"}}",
        '{{"error": {{"message": "Invalid value: \\"{}\\" in field"}}}}',
    ],
)
def test_a_quoted_text_is_masked(around: str) -> None:
    clean = redact_message(around.format(ESSAY))
    assert "Hanoi" not in clean and "Ann" not in clean and " characters]" in clean


@pytest.mark.spec("004.11")
@pytest.mark.parametrize("around", ['"{}"', "'{}'", "`{}`", "\u201c{}\u201d", "\u201e{}\u201c", "\u00ab{}\u00bb"])
def test_a_sentence_that_is_quoted_is_somebodys_text(around: str) -> None:
    clean = redact_message(f"refused {around.format('Grade my essay about Ann who lives in Hanoi')} (400)")
    assert clean == f"refused {around.format('[text of 43 characters]')} (400)"


@pytest.mark.parametrize(
    "text",
    [
        "The stage 'fetch' did not finish in time (its limit is 3600 s).",
        "It doesn't fit because the value isn't what the user's annotation says it should be, and that's that.",
        "{'error': {'message': 'Rate limit reached for gpt-4 in organization org-a on tokens per min: Limit 10000'}}",
        "at 2026-11-16T21:35:00.123 and 2026-11-16 21:35:00 from 10.0.0.12:5432 after 0.0213 s at 1700000000000",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "text: Input should be a valid string, content: Input should have at most 100 characters",
        "order 4111 1111 1111 1112 of AB12 CDEF 3456 7890 at 1700000000000000, meet [at] noon",
        "a passport service answered 503 after 12 s, born of 3 calls, id card 42 of 77",
        "invoice 123-456-789, version 1.2.3, AB123, block 0x00123456, part 12-34, run 20261118 05:21:36",
        "no attribute 'first name', got 'two words' for \"Content Type\", meet at the dot",
        "HTTPStatusError: Server error '503 Service Unavailable' for url 'http://provider.test:8080/v1'",
    ],
)
def test_what_an_operator_needs_stays(text: str) -> None:
    assert redact_message(text) == text


@given(st.uuids(), st.datetimes(datetime(1970, 1, 1)), st.integers(0, 10**13), st.ip_addresses(v=4))  # noqa: DTZ001 - as Hypothesis asks for it
def test_ids_and_times_are_no_phone_numbers(id_: uuid.UUID, at: object, number: int, address: object) -> None:
    text = f"job {id_} at {at} number {number} host {address}"
    assert redact_message(text) == text


@given(st.text(alphabet="\"'`\\ a\u201c\u201d\u00ab:=@+0(-)\n", max_size=300))
def test_masking_twice_changes_nothing_more(text: str) -> None:
    clean = redact_message(text)
    assert redact_message(clean) == clean


@given(st.sampled_from(["ann@example.test", "+84 912 345 678"]), st.text(max_size=80), st.text(max_size=80))
def test_a_planted_address_or_number_survives_in_no_text(planted: str, before: str, after: str) -> None:
    assert planted not in redact_message(f"{before} {planted} {after}")


@pytest.mark.parametrize(
    "unit", ['"', "'a ", '\\"', "0 1-", "+1", "(00", "prompt:", "a@", '"a b c d e f g ', "\u201c "]
)
def test_hostile_text_costs_linear_time(unit: str) -> None:
    began = time.process_time()
    redact_message(unit * (200_000 // len(unit)))
    assert time.process_time() - began < 3


def test_a_long_row_of_any_one_character_costs_linear_time() -> None:
    began = time.process_time()
    for each in [*string.punctuation, *string.whitespace, "a", "A", "0", "\u0301", "\u200b", "\u202e", "\u4e16"]:
        redact_message(each * 100_000)
        redact_message(f"a{each}" * 20_000)
    assert time.process_time() - began < 15


def test_a_line_that_leaves_a_quotation_open_does_not_hide_the_next() -> None:
    assert redact_lines(f'E: "{ESSAY}\n  shop/pay.py:17 charge').endswith("\n  shop/pay.py:17 charge")


@pytest.mark.parametrize("key", ["content", "text", "prompt", "input", "answer"])
@pytest.mark.parametrize(
    "form", ["{{'role': 'user', '{}': '{}'}}", '{{"{}": "{}"}}', '{{\\"{}\\": \\"{}\\"}}', '{}: "{}']
)
def test_a_short_text_of_somebodys_is_masked_by_the_name_it_stands_under(key: str, form: str) -> None:
    words = "I live with my mother Lan"
    assert words not in redact_message(f"400 from the model: {form.format(key, words)}")
    assert "lease_expired at noon or so" in redact_message(form.format("state", "lease_expired at noon or so"))


@pytest.mark.spec("K8")
def test_a_fingerprint_is_the_one_of_earlier_releases() -> None:
    assert fingerprint("shop.order", "charge", "BUG", "bank") == "bc493ab1fdf2"
    assert fingerprint("shop.order", "charge", "BUG", None) == "633128bd8d64"
