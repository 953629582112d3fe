"""What of an address may be shown: never user info, query or fragment, however the address is written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.address import carries_password, hide, mask_addresses, sealed_number
from holdfast.core.redact import redact, redact_message

pytestmark = pytest.mark.spec("K30", "K17")
SECRET = "s3cr3tPlanted"
FORMS = [
    f"https://{SECRET}@host/x",
    f"https://ann:{SECRET}@host/x",
    f"https://ann:a@{SECRET}@host/x",
    f"https://ann:a/{SECRET}@host/x",
    f"https://ann:a#{SECRET}@host/x",
    f"https://ann:a?{SECRET}@host/x",
    f"https://ann:a\\{SECRET}@host/x",
    f"HTTPS://ann:{SECRET}@[::1]:8443/x",
    f"ssh://git:{SECRET}@host/x",
    f"https://host?{SECRET}",
    f"https://host/x?a=1&sig={SECRET}",
    f"https://host/x?a='{SECRET}'",
    f'https://host/x?a="{SECRET}',
    f"https://host/x?a=<{SECRET}>",
    f"https://host/x?a= {SECRET}",
    f"https://ann:12/{SECRET}@host/x",
    f"https://ann:{SECRET}@a/{SECRET}@host/x",
    f"https://ann%3A{SECRET}%40host/x",
    f"https:///ann:{SECRET}@host/x?sig={SECRET}",
    f"https:///ann%3A{SECRET}%40host/x",
    f"https://host/x?{'%3d'.join('ab')}%26sig%3D{SECRET}",
    f"https://host/x#access_token={SECRET}",
    f"https://host/x?#?{SECRET}",
    f"https://:{SECRET}@/x",
    f"git+https://u:{SECRET}@host/x",
    *(f"https://{SECRET}{sign}a@host/x" for sign in "?#"),
    f"https://ann:12#{SECRET}/b@host/x",
    *(f"https://host/x{sign}sig={SECRET}" for sign in ("%3F", "%3f", "%23", ";", "&", ";a;", "/y;v=1&")),
    f"https://host/x;jsessionid={SECRET}?a=1",
]


WITHOUT_SCHEME = [
    f"{SECRET}@host:r",
    f"git:{SECRET}@host/x",
    f"u:{SECRET}@host",
    f"{SECRET}@@git@h:r",
    f"git@{SECRET}@h:r",
    f"https:/u:{SECRET}@host/x",
    f"//u:{SECRET}@host/x",
    f"\\\\u:{SECRET}@host\\x",
    f"host.example/x?sig={SECRET}",
    f"//host.example/x?a=1&sig= {SECRET}",
    f"https:/host.example/x#{SECRET}",
    f"https:///host.example?{SECRET}",
    f"x?{SECRET}=1",
    f"u:{SECRET}@host/x?sig={SECRET}",
    f"u:a/{SECRET}@host/x",
    f"https:/u:a b/{SECRET}@host/x?sig={SECRET}",
    f"https\uff1a//u:{SECRET}@host/x?sig={SECRET}",
    f"u:{SECRET}\uff20host/x",
    f"host/x\uff1fsig={SECRET}",
    f"u%3A{SECRET}%40host/x",
]
BEGINS = ("https:", "https:/", "https:///", "//", "///", "\\\\", " https://", "")
USERS = ("", f"u:{SECRET}@", f"u:a/{SECRET}@", f"u:12/{SECRET}@", f"u:{SECRET}@a/{SECRET}@", f"u%3A{SECRET}%40")
ENDS = ("", f"?k={SECRET}", f"#{SECRET}", f"?a= {SECRET}")
SPOILT = [f"{begins}{user}host/x{end}" for begins in BEGINS for user in USERS for end in ENDS if user or end]


@pytest.mark.parametrize("form", FORMS + WITHOUT_SCHEME + SPOILT)
def test_nothing_of_a_secret_is_left_in_what_is_stored(form: str) -> None:
    hidden = hide(form, 7)
    assert hidden is not None and SECRET not in hidden and sealed_number(hidden) == 7


@pytest.mark.parametrize("form", [form for form in FORMS if not set(form) & set(' "<')])
def test_nothing_of_a_secret_is_left_in_what_is_logged(form: str) -> None:
    for text in (form, f"GET {form} failed", f"for url '{form}'", json.dumps({"u": form}).replace("/", "\\/")):
        assert SECRET not in redact_message(text) and SECRET not in str(redact({"about": text}))


@pytest.mark.parametrize(
    "text",
    [
        *("https://host/a/b", "git@github.com:a/b", "/srv/repo", "no address", "a://b", "https://host/@scope/x"),
        *("https://host/x;", "https://host/a;b/c", "https://host/a&b", "see https://host/x; then y=z"),
        *('{"a": "x?y@z"}', "/srv/a@b/c", "/srv/a.b?x", "who wrote a.py? me", "//srv/repo"),
    ],
)
def test_what_holds_no_secret_stays_as_it_is(text: str) -> None:
    assert hide(text, 1) is None and mask_addresses(text) == text


def test_a_reference_stays_readable() -> None:
    assert mask_addresses("at https://host/a?sealed=3 now") == "at https://host/a?sealed=3 now"
    assert mask_addresses("at https://host/a?sealed=3&sig=1") == "at https://host/a?[redacted]"
    both = "postgresql://db1.test:5432,[::1]:5433/jobs"
    assert mask_addresses(f"at {both}") == f"at {both}"
    assert mask_addresses(f"at {both.replace('db1', 'ann:pw@db1')}") == f"at {both.replace('db1', '[redacted]@db1')}"
    assert mask_addresses("at postgresql://ann:pw,db2/jobs") == "at postgresql://[redacted]@", "no port: a password"


def test_the_user_of_ssh_opens_no_door() -> None:
    assert not carries_password("ssh://git@host/x") and carries_password("ssh://git:pw@host/x")
    assert carries_password("u:pw@host:x") and carries_password("https:/u:pw@host") and not carries_password("u@host:x")
    assert carries_password("https://token@host/x") and not carries_password("https://host/x?sig=1")


def test_an_escaped_address_in_a_text_is_hidden_too() -> None:
    assert hide('{"u": "https:\\/\\/h\\/a?sig=1", "v": 2}', 4) == '{"u": "https://h/a?sealed=4", "v": 2}'


@given(user=st.text("ab:@%/?#\\", max_size=8), rest=st.text("ab:@%/?#&= \\", max_size=12))
def test_whatever_is_shown_is_shown_alike_a_second_time(user: str, rest: str) -> None:
    hidden = hide(f"https://{user}@host/{rest}", 1)
    assert hidden is None or hide(hidden, 1) == hidden
    masked = mask_addresses(f"x https://{user}@host/{rest} y")
    assert mask_addresses(masked) == masked
