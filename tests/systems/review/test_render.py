"""The mail of a review: the same bytes every time, readable both ways, with nothing smuggled in."""

import email
from datetime import UTC, datetime
from email import policy
from email.message import EmailMessage

import pytest

from holdfast.errors import CallError
from holdfast_systems.review.findings import Finding, Review
from holdfast_systems.review.render import build_message

pytestmark = pytest.mark.spec("R5")

DATE = datetime(2026, 3, 1, 10, 11, 12, tzinfo=UTC)
TOKEN = "0123456789abcdef0123456789abcdef01234567"
KEY = "ghp_" + "a8Bc9De0Fg1Hi2Jk3Lm4No5Pq6Rs7Tu8Vw9X"
REVIEW = Review(
    "Two files, größer.",
    (
        Finding("", 0, "info", "not-run", "shellcheck did not run", "shellcheck"),
        Finding("a.py", 3, "error", "F821", "Undefined name `x` <script>alert(1)</script>", "ruff"),
        Finding("a.py", 9, "warning", "B006", "Mutable default", "ruff"),
        Finding("b & c.sh", 1, "info", "SC1", "Naïve", "shellcheck"),
    ),
    "offline",
)


def build(review: Review = REVIEW, recipient: str = "ada@example.test", **changed: str) -> EmailMessage:
    given = {"changelist_id": "CL-7", "sender": "review@holdfast.test", "token": TOKEN, "title": "Fix it", **changed}
    title = given.pop("title")
    return build_message(review, recipient, review_version=2, date=DATE, title=title, **given)  # type: ignore[arg-type]


def parsed(message: EmailMessage) -> EmailMessage:
    back = email.message_from_bytes(message.as_bytes(), policy=policy.SMTP)
    assert isinstance(back, EmailMessage)
    return back


def bodies(message: EmailMessage) -> tuple[str, str]:
    text, html = message.get_body(("plain",)), message.get_body(("html",))
    assert text is not None and html is not None
    return text.get_content(), html.get_content()


def test_the_same_review_gives_the_same_bytes() -> None:
    assert build().as_bytes() == build().as_bytes()
    assert build().as_bytes() != build(token="f" * 40).as_bytes()


def test_the_headers_say_what_it_is_and_where_it_came_from() -> None:
    mail = parsed(build())
    assert mail["Message-ID"] == f"<{TOKEN}@holdfast.test>"
    assert mail["Date"].datetime == DATE
    assert (mail["From"], mail["To"]) == ("review@holdfast.test", "ada@example.test")
    assert mail["Subject"] == "[review CL-7 v2] Fix it: 1 error, 1 warning, 2 remarks"
    assert mail["Auto-Submitted"] == "auto-generated"


def test_findings_are_grouped_by_file_in_text_and_html() -> None:
    text, html = bodies(parsed(build()))
    assert text.index("The whole change") < text.index("\na.py") < text.index("\nb & c.sh")
    assert text.count("\na.py") == 1 and "  error   line 3: Undefined name" in text
    assert "1 error, 1 warning, 2 remarks" in text and "Naïve" in text and "größer" in text
    assert "<script>" not in html and "&lt;script&gt;" in html and "b &amp; c.sh" in html


@pytest.mark.parametrize(
    "title",
    ["x\r\nBcc: evil@example.test", "x\nSubject: y", "x\r\n\r\nbody", "x\u2028Bcc: e@x", "\x00\x1b[31m" + "a" * 900],
)
def test_a_title_cannot_add_a_header(title: str) -> None:
    for mail in (parsed(build(title=title)), parsed(build(changelist_id=title))):
        assert mail["Bcc"] is None and len(mail.get_all("Subject")) == 1
        assert sorted(mail.keys()) == sorted(build().keys())
        assert mail["To"] == "ada@example.test"


def test_no_secret_is_mailed() -> None:
    secret = Finding(f"{KEY}.py", 1, "error", KEY, f"uses {KEY}", "llm")
    raw = build(Review(f"has {KEY}", (secret,), "llm"), title=f"Add {KEY}")
    text, html = bodies(parsed(raw))
    assert KEY not in text + html + str(raw["Subject"]) and "[redacted]" in text


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ada",
        "a@b@c",
        "a@x, b@x",
        "a@x\nBcc: c@x",
        "Ada <a@x.test>",
        "a b@x",
        "@x",
        "a@",
        "a@-x",
        "a..b@x",
        "a;b@x",
        "jürgen@x",
    ],
)
@pytest.mark.spec("R7")
def test_what_is_not_one_plain_address_is_an_invalid_recipient(address: str) -> None:
    with pytest.raises(CallError) as caught:
        build(recipient=address)
    assert caught.value.failure.error_class == "INVALID_RECIPIENT" and not caught.value.failure.retryable


def test_a_review_of_thousands_of_findings_still_makes_a_mail() -> None:
    many = tuple(Finding("a.py", n, "info", "r", f"m{n}", "c") for n in range(1, 2_000))
    text, _ = bodies(parsed(build(Review("many", many, "c"))))
    assert "1699 more findings are not shown here." in text and "1999 remarks" in text


@pytest.mark.parametrize(("count", "told"), [(300, []), (301, ["1 more findings are not shown here."])])
def test_only_what_is_left_out_is_counted_as_left_out(count: int, told: list[str]) -> None:
    many = tuple(Finding("a.py", n, "info", "r", f"m{n}", "c") for n in range(1, count + 1))
    text, html = bodies(parsed(build(Review("many", many, "c"))))
    assert [line for line in text.splitlines() if "not shown" in line] == told
    assert [line for line in html.splitlines() if "not shown" in line] == [f"<p>{line}</p>" for line in told]


def test_a_long_name_of_a_change_is_cut_in_its_header() -> None:
    assert build(changelist_id="c" * 101)["X-Holdfast-Review"] == f"{'c' * 100}; version=2"


def test_a_clean_review_says_so_in_its_subject() -> None:
    assert str(build(Review("fine", (), "c"))["Subject"]).endswith("nothing found")


def test_a_suggested_line_is_shown_as_such_and_smuggles_nothing() -> None:
    line = '    return "<b>" + name'
    found = Finding("a.py", 3, "error", "logic", "Wrong.", "llm", line + "\u2028Bcc: eve@example.test")
    text, html = bodies(parsed(build(Review("One.", (found,), "llm"))))
    assert f"Suggested line:\r\n          | {line} Bcc" in text.replace("\n", "\r\n").replace("\r\r", "\r")
    assert "<pre>    return &quot;&lt;b&gt;&quot; + name" in html and "<b>" not in html
    secret = Finding("a.py", 3, "error", "logic", "Wrong.", "llm", f'token = "{KEY}"')
    assert KEY not in "".join(bodies(build(Review("One.", (secret,), "llm"))))
