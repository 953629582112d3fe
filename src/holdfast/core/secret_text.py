"""Finds secrets by their shape in free text: the patterns behind `redact`.

A rule runs only if one of its literals occurs in the text, and no pattern can backtrack without bound (its
repeats are possessive or counted), so that hostile input costs linear time.

Some words tell alone (`password`), others also occur in plain speech and code (`token`). After a weak word only a
quoted value, one set without spaces, or one that looks random is masked. When in doubt it is masked: a lost word is
cheaper than a leaked key.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from string import ascii_letters, digits

MASK = "[redacted]"
EMAIL_MASK = "[email]"
TEXT_LENGTH_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class _Rule:
    literals: frozenset[str]  # in lower case
    pattern: re.Pattern[str]
    replacement: str | Callable[[re.Match[str]], str]


def redact_text(text: str) -> str:
    """The text without secrets, and without halves of characters. Beyond TEXT_LENGTH_MAX it is cut, and says so."""
    if not text.isascii():
        text = text.encode(errors="replace").decode()
    if len(text) > TEXT_LENGTH_MAX:
        text = f"{_whole_words(text[:TEXT_LENGTH_MAX])} [cut]"
    lower = text.lower()
    present = [literal for literal in _LITERALS if literal in lower]
    if not present:
        return text
    for rule in _RULES:
        if not rule.literals.isdisjoint(present):
            text = rule.pattern.sub(rule.replacement, text)
    return _without_headless_pem(text) if "-----end" in lower else text


def redact_emails(text: str) -> str:
    """The text with every e-mail address masked, also where the @ is percent-encoded, wide, spaced out, or spelt."""
    text = _EMAIL.sub(EMAIL_MASK, text) if any(sign in text for sign in _AT_SIGNS) else text
    return _WORDED_EMAIL.sub(EMAIL_MASK, _SPELT_EMAIL.sub(EMAIL_MASK, text)) if _SPELT_AT.search(text) else text


def looks_random(word: str) -> bool:
    """Whether a word is more like a key than like speech: digits, inner capitals, or great length."""
    return len(word) >= 24 or any(letter.isdigit() for letter in word) or any(letter.isupper() for letter in word[1:])


def _whole_words(text: str) -> str:
    # The half of a secret that the cut left may be too short to be recognised.
    return text.rstrip() if text[-1].isspace() else text.rpartition(" ")[0]


_AT_SIGNS = ("@", "\uff20", "%40", "&#64;", "\\u0040")
_EMAIL = re.compile(
    r"(?:[\w.+%-][\w.!#$'*+^~%-]{0,63}|\"[^\"\n@]{1,64}\")(?:[@\uff20]|%40|&#64;|\\u0040)"
    r"(?:(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}|\[[\d.:a-fA-F]{3,45}\])"
)
# What is called is no address ("declare one with @app.job()").
# john [at] example.com, john @ example . com, john AT example DOT com; john at example dot com
_SPELT_AT = re.compile(r"(?i)[@\uff20]|[\[({<]at[\])}>]|(?-i:[ ]AT[ ])|[ _-]dot[ _-]")
_DOT = r"(?:[ ]{0,2}\.[ ]{0,2}|[ ]?[\[({<]dot[\])}>][ ]?|[ _-]{1,2}dot[ _-]{1,2})"
_SPELT_EMAIL = re.compile(
    r"(?i)(?<![\w.+-])[\w.+-]{1,64}[ ]{0,2}(?:[@\uff20]|[\[({<]at[\])}>]|(?<=[ ])(?-i:AT)(?=[ ]))[ ]{0,2}"
    rf"[\w-]{{1,63}}(?:{_DOT}[\w-]{{1,63}}){{0,7}}{_DOT}[^\W\d_]{{2,24}}(?![^\W\d_]|\()"
)
_WORDED_EMAIL = re.compile(
    r"(?i)(?<![\w.+-])[\w.+-]{1,64}?[ _-]{1,2}at[ _-]{1,2}"
    r"[^\W_][^\W_-]{0,62}(?:[ _-]{1,2}dot[ _-]{1,2}[^\W_]{1,63}){1,8}(?![^\W_])"
)

_STRONG = (
    r"(?:passwords?|passwd|passphrase|passcode|secrets?|credentials?"
    r"|(?:api|access|private|signing|encryption|account|shared|subscription)[_-]?keys?"
    r"|connection[_-]?string|x-amz-signature)"
    r"(?:[_-]?(?:\d{1,4}|key|value|hash|base64|b64|text|plain|string|confirmation|confirm|new|old|current))?"
)
_WEAK = (
    r"(?:token|pwd|(?<![A-Za-z0-9])(?:pass|pw|sig|otp|pin|auth|jwt|sid|session(?:[_-]?id)?|csrf))"
    r"(?:[_-]?(?:\d{1,4}|value|hash))?"
)
_QUOTE = r"""\\{0,63}["']"""  # up to six layers of JSON in JSON
_KEY_END = rf"(?:{_QUOTE})?\]?"
# `key: str = "..."`, `key => ...`, `key == ...`, `("key", "...")`
_SEPARATOR = (
    r"[ \t]{0,8}(?::[ \t]{0,4}[A-Za-z_][\w.\[\]| ]{0,40}=(?=[ \t]{0,4}[bBrRuUfF]{0,2}[\"'])"
    r"|=>|:=|!=|={1,3}|:|(?<=[\"']),)"
)
# Only single characters repeat possessively: before Python 3.11.5 a group that does so can fail to match. Where a group
# repeats, nothing that must match follows it, and there is nothing to try again.
_QUOTED = (
    rf"\s{{0,40}}[bBrRuUfF]{{0,2}}(?P<quote>{_QUOTE})"
    r"""(?P<quoted>(?:(?!(?P=quote))(?:\\{3}["']|\\.|[^\n]))*)"""
)
_BLOCK = r"[ \t]{0,8}[|>][+-]?[ \t]{0,8}\n(?P<block>(?:[ \t]+[^\n]*\n?)+)"
_CALL = r"[ \t]{0,8}(?P<call>[A-Za-z_][\w.]{0,80}\([^)\n]*+\)?)"
_BARE = r"""(?P<space>[ \t]{0,8})(?P<bare>[^\s"'&]++)"""

# A secret also starts after a percent escape or after the \n of text inside JSON.
_START = r"(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f]{2})|(?<=\\[nrt]))"

_NOT_SECRET = frozenset(
    {"", "none", "null", "nil", "true", "false", "undefined", "str", "string", "bytes", "int", "bool", "*", "**"}
)


def _assigned(match: re.Match[str]) -> str:
    """Mask the value of `key = value`, leaving quotes and closing brackets where they are."""
    weak, start = match["weak"] is not None, match.start()
    if match["quoted"] is not None:
        return _masked(match, "quoted") if match["quoted"] else match[0]
    if match["block"] is not None:
        return f"{match.string[start : match.start('block')]}  {MASK}\n"
    if match["call"] is not None:
        return match[0] if weak and not looks_random(match["call"]) else _masked(match, "call")
    bare = match["bare"]
    core = bare.rstrip(",;)]}>")
    if bare.startswith(MASK) or core.lower() in _NOT_SECRET or _is_reference(bare) or _is_reference(core):
        return match[0]
    tight = not match["space"] and match.string[match.start("bare") - 1] == "="
    counts = core.isdigit() and len(core) < 4
    if weak and not tight and (counts or not looks_random(core)):
        return match[0]
    return match.string[start : match.start("bare")] + MASK + bare[len(core) :]


def _is_reference(value: str) -> bool:
    return re.fullmatch(r"\$\{\w+\}|\{\{.*\}\}|\$\(\w+\)|%\(\w+\)s|%s|\{\w*\}?", value) is not None


def _rest_of_line(match: re.Match[str]) -> str:
    rest = match["rest"]
    if re.search(r"\s[\w.-]+=", rest) or re.fullmatch(r"[|>][+-]?\s*", rest):
        return match[0]  # a line of several settings, or a block below: the assignment rule reads those
    core = rest.rstrip(" \t\r,;)]}>").lower()
    known = rest.startswith(MASK) or core in _NOT_SECRET or _is_reference(rest.strip())
    return match[0] if known else _masked(match, "rest")


def _if_random(match: re.Match[str]) -> str:
    return _masked(match, "word") if looks_random(match["word"]) else match[0]


def _masked(match: re.Match[str], group: str) -> str:
    begin, end = match.span(group)
    return match.string[match.start() : begin] + MASK + match.string[end : match.end()]


def _without_headless_pem(text: str) -> str:
    """Mask what is left of a private key whose beginning was cut off."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        marker = _PEM_END.search(line)
        if marker is None:
            continue
        before = line[: marker.start()]
        bare = before.rstrip(_KEY_LETTERS)
        lines[number] = bare + (MASK if bare != before else "") + line[marker.start() :]
        above = number - 1
        while above >= 0 and (_PEM_LINE.fullmatch(lines[above]) or (above == 0 and " " not in lines[0])):
            lines[above] = MASK
            above -= 1
    return "\n".join(lines)


_KEY_LETTERS = f"{ascii_letters}{digits}+/=\\"
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY")
_PEM_LINE = re.compile(r"""[ \t+>|"'-]{0,40}[A-Za-z0-9+/=]{16,}+[ \t\r"',\\n]{0,8}""")


def _rule(literals: str, pattern: str, replacement: str | Callable[[re.Match[str]], str]) -> _Rule:
    return _Rule(frozenset(literals.split()), re.compile(pattern), replacement)


_RULES = (
    _rule(
        "private",
        r"(?s)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,20}-----(?:(?!-----END).)*"
        r"(?:-----END[^\n-]{0,60}-----)?",
        MASK,
    ),
    _rule(  # what a validation error quotes of its input
        "input_value=",
        r"(?P<key>input_value=)(?P<value>[^\n]{0,300}?)(?=, input_type=)",
        rf"\g<key>{MASK}",
    ),
    _rule(
        "authorization cookie",
        rf"(?i)(?P<key>(?:authorization|cookie){_KEY_END}{_SEPARATOR})(?:{_QUOTED}|[ \t]{{0,8}}(?P<bare>[^\n\"']++))",
        lambda match: _masked(match, "quoted" if match["quoted"] is not None else "bare"),
    ),
    _rule(
        "bearer basic",
        rf"(?i){_START}(?:bearer|basic)(?:[ \t]|%20|\+){{1,4}}(?P<word>[A-Za-z0-9._~+/=%-]{{6,}}+)",
        _if_random,
    ),
    _rule(
        "://",
        r"(?P<user>://[^\s/@:\"'<>]{0,128}:)"
        r"(?:[^\s/\"'<>]{1,512}@|(?!\d{1,5}[/?#])[^\s\"'<>@]{1,512}@)",
        rf"\g<user>{MASK}@",
    ),
    _rule("://", r"://(?P<word>[^\s/@:\"'<>]{16,256})(?=@)", _if_random),
    _rule(
        "akia asia aroa aida gh glpat- xox xapp- aiza ya29. gocspx- _live_ _test_ whsec_ sg. npm_ "
        "pypi- hf_ gsk_ xai- dop_v1_ shpat_ key- sk age-secret-key- :aa eyj",
        _START + r"(?:(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}+|gh[pousr]_[A-Za-z0-9]{10,}+|github_pat_\w{10,}+"
        r"|glpat-[\w-]{10,}+|xox[a-z]-[\w-]{8,}+|xapp-[\w-]{8,}+|AIza[\w-]{20,}+|ya29\.[\w-]{10,}+"
        r"|GOCSPX-[\w-]{10,}+|(?:sk|rk|pk)_(?:live|test)_\w{8,}+|whsec_[\w+/=]{10,}+"
        r"|SG\.[\w-]{10,}+(?:\.[\w-]++)?|npm_\w{20,}+|pypi-[\w-]{20,}+|hf_[A-Za-z0-9]{16,}+|gsk_\w{16,}+"
        r"|xai-\w{16,}+|dop_v1_\w{16,}+|shpat_\w{16,}+|key-[0-9a-f]{32}|SK[0-9a-f]{32}"
        r"|AGE-SECRET-KEY-1\w{8,}+|\d{8,10}:AA[\w-]{30,}+|eyJ[\w-]{10,}+(?:\.[\w-]*+){0,4})",
        MASK,
    ),
    _rule("sk- re_", _START + r"(?P<word>sk-[\w-]{8,}+|re_\w{16,}+)", _if_random),
    _rule(
        "hooks.slack.com/",
        r"(?P<host>hooks\.slack\.com/)[\w/-]{8,}+",
        rf"\g<host>{MASK}",
    ),
    _rule(  # settings files: an unquoted value reaches to the end of its line
        "pass secret key credential connection",
        rf"(?im)^[ \t]*+[-+>]?[ \t]*+(?:(?:export|set|env)[ \t]++)?[\w.-]{{0,80}}?{_STRONG}"
        r"[ \t]*+[:=][ \t]*+(?P<rest>[^\s\"'=][^\n]*+)",
        _rest_of_line,
    ),
    _rule(
        "pass pw secret key credential connection x-amz- token sig otp pin auth jwt sid session csrf",
        rf"(?i)(?:(?P<strong>{_STRONG})|(?P<weak>{_WEAK})){_KEY_END}{_SEPARATOR}"
        rf"(?:{_QUOTED}|{_BLOCK}|{_CALL}|{_BARE})",
        _assigned,
    ),
    _rule(
        "--",
        rf"(?i)(?P<flag>(?<![\w-])--[\w-]{{0,30}}?(?:{_STRONG}|token|pwd)[ \t]{{1,4}})(?!-)[\"']?[^\s\"']++",
        rf"\g<flag>{MASK}",
    ),
    _rule(
        "<",
        rf"(?i)(?P<tag><[\w:.-]{{0,40}}?(?:{_STRONG}|token|pwd)(?:\s[^<>\n]{{0,200}})?>)[^<]++",
        rf"\g<tag>{MASK}",
    ),
)

_LITERALS = tuple(sorted({literal for rule in _RULES for literal in rule.literals}))
