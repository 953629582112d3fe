"""Takes personal data out of what somebody else wrote, before a message is stored with a job or its dead letter.

Behind the secrets of `secret_text` it masks e-mail addresses, phone, card, account and identity numbers, and quoted or
named free text (a prompt, an essay, a transcript that a provider repeats in its error). Names of people cannot be
told from other words; they go only where they stand in such a text. When in doubt it is masked: alerts match the error
class, not the message.

Every pattern is bounded and the quotes are read in one pass, so that hostile input costs linear time.
"""

from __future__ import annotations

import re

from holdfast.core.address import mask_addresses
from holdfast.core.secret_text import redact_emails, redact_text

PHONE_MASK = "[phone]"
ACCOUNT_MASK = "[account]"
ID_MASK = "[id number]"
QUOTED_LIMITS = (2, 9)
"""Words and characters: a longer quotation is somebody's text, not a name, a type or a field."""
KEYED_LIMITS = (6, 40)
"""The same for the value of a field of any name, as in `{"state": "..."}`: most are a program's own."""
NAMED_LIMITS = (1, 0)
"""The same for what stands under the name of a text: a prompt, an essay, the content of a message."""


def redact_message(text: str) -> str:
    """The text without secrets, credentials and queries of URLs, addresses, numbers of phones, cards, accounts and
    people, quoted free text."""
    clean = _without_quotations(redact_emails(redact_text(mask_addresses(text))))
    clean = _NAMED_TEXT.sub(_named, clean) if ":" in clean or "=" in clean else clean
    return _without_numbers(clean) if _DIGITS.search(clean) else clean


def redact_lines(text: str) -> str:
    """`redact_message` for each line by itself: what one line leaves open does not reach into the next."""
    return "\n".join(map(redact_message, text.split("\n")))


def _without_numbers(text: str) -> str:
    text = _NAMED_ID.sub(_named_id, _ACCOUNT.sub(_account, text))
    return _PHONE.sub(_phone, _ID_NUMBER.sub(ID_MASK, text))


_DIGITS = re.compile(r"\d(?:[^\n\d]?\d){5}")
_EDGE = r"(?<![\w.:/#@%-])"
_END = r"(?![\w-]|\.\d|:\d)"
_PHONE = re.compile(
    # +84 912 345 678, +1 (555) 010-9999, and the same with 00
    _EDGE
    + r"(?:[+\uff0b][ ]?|00[ .-]?(?=[1-9]))\(?\d(?:[ ./()-]{0,2}\d){6,13}"
    + _END
    # (555) 010-9999, (028) 3822 1234
    + r"|"
    + _EDGE
    + r"\(\d{2,5}\)[ .-]?\d{3,4}[ .-]?\d{3,4}"
    + _END
    # 555-010-9999
    + r"|"
    + _EDGE
    + r"\d{3}([ .-])\d{3}\1\d{4}"
    + _END
    # 0912 345 678, 030 1234 5678, 0912345678
    + r"|"
    + _EDGE
    + r"0\d{1,4}(?:[ .-]\d{2,4}){2,4}"
    + _END
    + r"|"
    + _EDGE
    + r"0[1-9]\d{7,9}"
    + _END
    # phone: 5550109999, tel 555 0109
    + r"|(?i:(?<=phone)|(?<=mobile)|(?<=tel)|(?<=fax)|(?<=sms)|(?<=call)|(?<=whatsapp))"
    r"(?P<gap>(?:[ ]?(?:number|no\.?|nr\.?))?[ \t\"'=:]{1,4})\+?\d(?:[ ./()-]{0,2}\d){5,14}(?![\w])"
)
# 4111 1111 1111 1111 and DE89 3704 0044 0532 0130 00: what passes the sum that such numbers carry.
_ACCOUNT = re.compile(
    _EDGE
    + r"(?:[3-6]\d{3}(?:[ -]?\d{4}){2}[ -]?\d{2,7}|3[47]\d{2}[ -]\d{6}[ -]\d{5}"
    + r"|[A-Z]{2}\d{2}(?:[ ]?[A-Z0-9]{4}){2,7}(?:[ ]?[A-Z0-9]{1,3})?)"
    + _END
)
# 123-45-6789, QQ 12 34 56 C, S1234567D, and those of Vietnam and China, which have a year or a province in them.
_ID_NUMBER = re.compile(
    _EDGE
    + r"(?:\d{3}([ -])\d{2}\1\d{4}|[A-CEGHJ-PR-TW-Z][A-Z][ ]?\d{2}[ ]?\d{2}[ ]?\d{2}[ ]?[A-D]|[STFGM]\d{7}[A-Z]"
    + r"|0\d{2}[0-3]\d{8}|[1-9]\d{5}(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[\dXx])"
    + _END
)
# SSN 123456789, passport no. C1234567, CCCD: 079 203 001 234, born 12/03/1990
_NAMED_ID = re.compile(
    r"(?i)(?P<key>\b(?:ssn|social security|passport|national (?:id|insurance)|(?:identity|id|citizen)[ _-]?card"
    r"|id[ _]number|citizen[ _]id|cccd|cmnd|nric|aadhaar|driver'?s?[ _]licen[sc]e|tax(?:[ _-]?payer)?[ _](?:id|number)"
    r"|dob|date[ _]of[ _]birth|birth[ _]?date|birthday|born(?: on)?)"
    r"(?:[ _](?:number|num|no\.?|nr\.?|id|card|#))?[\"' \t]{0,3}(?:[:=#]|is|was|\b)[\"' \t#]{0,3})"
    r"(?P<value>[A-Z]{0,3}[ ]?\d[\dA-Z]{0,20}(?:[ ./-]{1,2}\d[\dA-Z]{0,20}){0,6})"
)
_NAMED_TEXT = re.compile(
    r"(?i)(?P<key>\b(?:(?:prompt|essay|transcript|completion|user[ _](?:message|input)|(?:input|letter)[ _]text)"
    r"[\"']?[ \t]{0,4}[:=][ \t]{0,4}|(?:content|input|text|body|question|answer)=))(?P<text>[^\n]{1,4000})"
)
# From the first backslash of a row on, and never again from within it: a long row without a quote costs one look.
_QUOTES = re.compile(r"(?<!\\)\\*+[\"'`\u201c\u201d\u2018\u2019\u201e\u00ab\u00bb\u300c-\u300f]")
_CLOSES = {'"': '"', "'": "'", "`": "`", "\u201c": "\u201d", "\u2018": "\u2019", "\u00ab": "\u00bb", "\u201e": "\u201c"}
_CLOSES |= {"\u300c": "\u300d", "\u300e": "\u300f"}
_BRACKETS = frozenset("\u300c\u300d\u300e\u300f")
"""Quotes that stand between letters: the scripts that use them have no spaces."""
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
# What a provider says of an error stands under these; quotations inside it are looked at on their own.
_EXPLAINS = re.compile(
    r"(?:message|msg|details?|title|reason|description|error|error_description|hint|summary)"
    r"\\*[\"']?[ ]?[:=][ ]?$"
)

# A mask of ours, or the status line of an answer, as clients quote it.
_NO_TEXT = re.compile(r"[ ]*\[text of \d+ characters\]?|[1-5]\d\d [A-Z][A-Za-z' -]{1,40}")
# {"state": "...", (state: "...", state="..."
_KEYED = re.compile(r"(?:\w\\*[\"'][ ]?[:=]|\w=|(?:^|[\n{(\[,;])[ ]{0,4}[\w.-]{1,40}:)[ ]?$")
# What somebody wrote or said stands under these: a few words of it are his text already.
_QUOTES_SOMEBODY = re.compile(
    r"(?:prompt|essay|transcript|completion|content|text|input|body|question|answer)\\*[\"']?[ ]?[:=][ ]?$"
)


def _named_id(match: re.Match[str]) -> str:
    digits = sum(letter.isdigit() for letter in match["value"])
    return f"{match['key']}{ID_MASK}" if digits >= 5 else match[0]


def _phone(match: re.Match[str]) -> str:
    return f"{match['gap'] or ''}{PHONE_MASK}"


def _account(match: re.Match[str]) -> str:
    number = re.sub(r"[ -]", "", match[0])
    return ACCOUNT_MASK if (_is_card(number) if number.isdigit() else _is_iban(number)) else match[0]


def _is_card(number: str) -> bool:
    doubled = [int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(number))]
    return sum(digit - 9 * (digit > 9) for digit in doubled) % 10 == 0


def _is_iban(number: str) -> bool:
    return len(number) >= 15 and int("".join(str(int(sign, 36)) for sign in number[4:] + number[:4])) % 97 == 1


def _named(match: re.Match[str]) -> str:
    text = match["text"]
    return (
        match[0]
        if text.lstrip("\\\"'`").startswith("[") or not _is_text(text, *NAMED_LIMITS)
        else f"{match['key']}{_mask(text)}"
    )


def _is_text(text: str, words_max: int, length_max: int) -> bool:
    if _NO_TEXT.fullmatch(text):
        return False
    wide = len(_WIDE.findall(text))  # one such character says about as much as half a word
    return len(text) + 2 * wide > length_max and len(text.split(None, words_max)) + wide // 2 > words_max


def _mask(text: str) -> str:
    return f"[text of {len(text)} characters]"


def _without_quotations(text: str) -> str:
    """Each quotation that is longer than a name, replaced by its length. An unclosed one reaches to the end."""
    out: list[str] = []
    done = 0
    opened: re.Match[str] | None = None
    for mark in _QUOTES.finditer(text):
        if opened is None:
            opened = mark if _opens(text, mark) else None
        elif _ends(text, opened, mark):
            inner = text[opened.end() : mark.start()]
            if _is_text(inner, *_limits(text, opened)):
                out += [text[done : opened.end()], _mask(inner)]
                done = mark.start()
            opened = None
    if opened is not None and opened[0][-1] in '"\u201c\u201e\u00ab':
        rest = text[opened.end() :]
        if _is_text(rest, *_limits(text, opened)):
            out += [text[done : opened.end()], _mask(rest)]
            done = len(text)
    out.append(text[done:])
    return "".join(out)


def _opens(text: str, mark: re.Match[str]) -> bool:
    """Whether a quotation begins here: an apostrophe inside a word does not, nor does an explanation's own quote."""
    start = mark.start()
    if mark[0][-1] not in _CLOSES:
        return False
    if mark[0][-1] not in _BRACKETS and start > 0 and (text[start - 1].isalnum() or text[start - 1] == "_"):
        return False
    return _EXPLAINS.search(text[max(0, start - 40) : start].lower()) is None


def _limits(text: str, opened: re.Match[str]) -> tuple[int, int]:
    key = text[max(0, opened.start() - 40) : opened.start()].lower()
    if _QUOTES_SOMEBODY.search(key):
        return NAMED_LIMITS
    return KEYED_LIMITS if _KEYED.search(key) else QUOTED_LIMITS


def _ends(text: str, opened: re.Match[str], mark: re.Match[str]) -> bool:
    """The same quote behind as many backslashes, and no word goes on after it."""
    if mark[0][-1] != _CLOSES[opened[0][-1]] or len(mark[0]) != len(opened[0]):
        return False
    after = text[mark.end() : mark.end() + 1]
    return mark[0][-1] in _BRACKETS or not (after.isalnum() or after == "_")
