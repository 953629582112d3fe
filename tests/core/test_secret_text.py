"""Redaction of text: what has the shape of a secret goes, ordinary words stay, hostile text costs little."""

from __future__ import annotations

import json
import time

import pytest

from holdfast.core.secret_text import _RULES, TEXT_LENGTH_MAX, looks_random, redact_emails, redact_text

# Secrets are put together here, so that no scanner takes this file for a leak.
OPENAI = "sk-" + "proj-Ab12Cd34Ef56Gh78"
JWT = "eyJ" + "hbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0." + "dBjftJeZ4CVPmB92K27uhbUJU1p1r_wW1"
AWS_ID = "AKIA" + "IOSFODNN7EXAMPLE"
AWS_SECRET = "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY"
GITHUB = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
BODY = "MIIEpAIBAAKCAQEA7bq98FGhK2" + "lQd0Z" * 8
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n{BODY[::-1]}\n-----END RSA PRIVATE KEY-----"

BY_SHAPE = [
    OPENAI,
    "sk-" + "ant-api03-AbCdEf0123456789",
    JWT,
    JWT[:40],
    AWS_ID,
    "ASIA" + "Y34FZKBOKMUTVV7A",
    GITHUB,
    "github_" + "pat_11ABCDEFG0abcdefghij_KLMNOP",
    "glpat-" + "ABCdef123456_-xyz",
    "xoxb-" + "123456789012-abcdefGHIJKL",
    "xapp-" + "1-A012-345-abcdef",
    "sk_" + "live_4eC39HqLyjWDarjtT1zdp7dc",
    "rk_" + "test_4eC39HqLyjWDarjtT1zdp7dc",
    "whsec_" + "dGVzdHNlY3JldGtleQ==",
    "AIza" + "SyA-1234567890abcdefghijklmnopqrstuv",
    "ya29." + "a0AfH6SMBx-abcdef",
    "GOCSPX-" + "abcdefGHIJKLmnop",
    "SG." + "ngeVfQFYQlKU0ufo8x5d1A." + "TwL2iGABf9DHoTf09kqeF8tAmbihYzrnopKc1s5cr0r",
    "npm_" + "abcdefghijklmnopqrstuvwxyz0123456789",
    "pypi-" + "AgEIcHlwaS5vcmcCJGFiY2RlZg",
    "hf_" + "AbCdEfGhIjKlMnOpQrStUv",
    "gsk_" + "abcdef0123456789abcdef",
    "re_" + "AbCdEf12_GhIjKlMnOp34",
    "key-" + "0123456789abcdef" * 2,
    "SK" + "0123456789abcdef" * 2,
    "123456789:" + "AAF" + "x" * 32,
    "xai-" + "abcdef0123456789abcdef",
    "xoxp-" + "123456789012-abcdef",
    "AIza" + "SyA-1234567890_abcdefABCDEF",
    "GOCSPX-" + "abcdef_012345",
    "npm_" + "abcdef0123456789abcdef",
    "hf_" + "AbCdEf0123456789",
    "AROA" + "IOSFODNN7EXAMPLE",
    "AIDA" + "IOSFODNN7EXAMPLE",
    "gho_" + "16C7e42F292c6912E7710c838347Ae178B4a",
    "pk_" + "test_4eC39HqLyjWDarjtT1zdp7dc",
    "dop_v1_" + "0123456789abcdef0123",
    "shpat_" + "0123456789abcdef0123",
    "AGE-SECRET-KEY-1" + "QQPZRY9X8GF2TVDW0S3",
]


SHAPES = next(rule.literals for rule in _RULES if "akia" in rule.literals)


@pytest.mark.parametrize("literal", sorted(SHAPES - {"gsk_", "_live_", "_test_", "age-secret-key-"}))
def test_every_shape_has_a_secret_here_that_its_own_literal_gives_away(literal: str) -> None:
    """A rule runs only where a literal of it stands: without this one the secret would stay. The four hold another."""
    others = SHAPES - {literal}
    assert any(literal in secret.lower() and not any(o in secret.lower() for o in others) for secret in BY_SHAPE)


@pytest.mark.spec("R8")
@pytest.mark.parametrize(
    "path", ["services/T01234567/B01234567/" + "AbCdEf0123456789AbCdEf01", "workflows/" + "T0123/A4567/89"]
)
def test_the_address_of_a_webhook_keeps_its_host_alone(path: str) -> None:
    assert redact_text(f"POST hooks.slack.com/{path} said no") == "POST hooks.slack.com/[redacted] said no"


@pytest.mark.spec("K7", "K17", "R8")
@pytest.mark.parametrize("secret", BY_SHAPE, ids=lambda secret: secret[:10])
@pytest.mark.parametrize(
    "around", ["{}", "call failed for {} at 10:00", '"{}"', "a={},", "x%3D{}", r"line\n{}\n", "https://h/p?k={}"]
)
def test_a_secret_known_by_its_shape_is_masked_wherever_it_stands(secret: str, around: str) -> None:
    clean = redact_text(around.format(secret))
    assert secret not in clean and secret[8:] not in clean
    assert "[redacted]" in clean


# Each holds the word that must go; the word is weak on purpose, so that only the key can give it away.
ASSIGNED = [
    "password=hunter",
    "password = hunter",
    "PASSWORD: hunter",
    "DB_PASSWORD=hunter",
    "export DB_PASSWORD=hunter",
    "spring.datasource.password=hunter",
    '{"password":"hunter"}',
    '{"password" : "hunter", "user": "bob"}',
    '{\n "password":\n  "hunter"\n}',
    r"{\"password\": \"hunter\"}",
    r"{\\\"password\\\": \\\"hunter\\\"}",
    "{'password': 'hunter'}",
    "{b'password': b'hunter'}",
    "headers=[('x-api-key', 'hunter')]",
    'password: str = "hunter"',
    'os.environ["DB_PASSWORD"] = "hunter"',
    'if password == "hunter":',
    "password => 'hunter'",
    "Login(user='bob', password='hunter')",
    'password = decrypt("hunter")',
    'passwd="hunter"',
    "pwd=hunter",
    "Server=db;Uid=bob;Pwd=hunter;",
    "host=db user=bob password=hunter dbname=x",
    "passphrase: hunter",
    "secret=hunter",
    "client_secret=hunter&grant_type=x",
    "clientSecret: 'hunter'",
    "SECRET_KEY='hunter'",
    "token=hunter",
    "?access_token=hunter&state=1",
    "&token=hunter",
    '"refreshToken": "hunter"',
    "api_key=hunter",
    "apikey: hunter",
    "X-API-Key: hunter",
    "aws_secret_access_key = hunter",
    "AccountKey=hunter;EndpointSuffix=core",
    "?sig=hunter&se=2030",
    "X-Amz-Signature=hunter",
    "Authorization: hunter",
    "authorization: Digest username=bob, response=hunter",
    "Proxy-Authorization: Basic hunter",
    "Cookie: a=b; session=hunter",
    "Set-Cookie: sid=hunter; Path=/",
    "--password hunter --user bob",
    "--api-key=hunter",
    "--auth-token 'hunter'",
    "<password>hunter</password>",
    '<db:Password type="text">hunter</db:Password>',
    '<login password="hunter"/>',
    "password: correct horse hunter",
    "+  password: correct hunter horse",
    "password: |\n  correct\n  hunter\nuser: bob",
    "PASSWORD=a&b;c hunter",
    "postgresql://bob:hunter@db:5432/x",
    "redis://:hunter@cache/0",
    "amqp://bob:a@hunter@mq/",
    "amqp://bob:a/hunter@mq/",
    "https://bob:hunter@host/path?e=x",
    "1 validation error\n [type=int_parsing, input_value='hunter', input_type=str]",
]


@pytest.mark.spec("K7", "K17", "R8")
@pytest.mark.parametrize("text", ASSIGNED)
def test_a_weak_password_is_masked_by_the_key_it_stands_under(text: str) -> None:
    assert "hunter" not in redact_text(text)
    assert "hunter" not in redact_text(f"first line\n{text}\nlast line")


@pytest.mark.spec("K7", "R8")
@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ('{"password": "a\\"b", "user": "bob"}', '{"password": "[redacted]", "user": "bob"}'),
        ("GET /x?token=abc&user=5 200", "GET /x?token=[redacted]&user=5 200"),
        ("postgresql://bob:abc@db:5432/x", "postgresql://bob:[redacted]@db:5432/x"),
        ("f(password=abc, user=1)", "f(password=[redacted], user=1)"),
        ("api_key=abc status=500", "api_key=[redacted] status=500"),
        ("Bearer abc123def456 failed", "Bearer [redacted] failed"),
        (f"before\n{PEM}\nafter", "before\n[redacted]\nafter"),
        ("password: secret words\nuser: bob", "password: [redacted]\nuser: bob"),
        ("<pwd>abc</pwd>", "<pwd>[redacted]</pwd>"),
        ("--token abc --user bob", "--token [redacted] --user bob"),
        ("Cookie: a=b\nHost: x", "Cookie: [redacted]\nHost: x"),
    ],
)
def test_what_surrounds_a_secret_stays(text: str, clean: str) -> None:
    assert redact_text(text) == clean


ORDINARY = [
    "",
    "The essay was graded in 3.2 s with confidence 85.",
    "6f1c2c9e-52f2-4d1a-9a51-0d6d2f3f8a10",
    "requestId=6f1c2c9e-52f2-4d1a-9a51-0d6d2f3f8a10 attempt=2",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "a basic understanding of bearer instruments",
    "Unexpected token: something at line 3",
    "max_tokens: 1024, prompt_tokens=55, tokens: 12",
    "tokenizer=simple",
    "the task-force and the risk-assessment, sk-learn",
    "https://example.com:8080/path?page=2#top",
    "https://example.com:8080/a@b",
    "ssh://git@example.com/repository",
    "pass: 5, fail: 0",
    "token = parser.next()",
    "session = Session()",
    "the secretary: Bob",
    "secretName: database-login",
    "password: null",
    'password=""',
    "password: ${DB_PASSWORD}",
    "passwordless login, keyboard: us",
    "idempotency key: 4 parts",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "Học sinh viết bài luận về môi trường.",
    "error class UPSTREAM_TIMEOUT at attempt.py:42 run_attempt",
]


@pytest.mark.spec("K7", "R8")
@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.spec("K7", "R8")
@pytest.mark.parametrize("length", range(len("-----BEGIN RSA PRIVATE KEY-----") + 1, len(PEM), 7))
def test_a_private_key_that_was_cut_off_is_masked_to_the_end(length: int) -> None:
    assert redact_text(f"log: {PEM[:length]}")[:15] == "log: [redacted]"
    assert BODY[:8] not in redact_text(PEM[:length])


@pytest.mark.spec("K7", "R8")
def test_a_private_key_whose_beginning_was_cut_off_is_masked() -> None:
    tail = PEM[PEM.index(BODY) + 20 :]
    clean = redact_text(tail)
    assert BODY[20:40] not in clean and BODY[::-1][:12] not in clean
    assert redact_text(f"a plain line\n{BODY}\n-----END PRIVATE KEY-----\nmore").startswith("a plain line\n[")


@pytest.mark.spec("K7", "R8")
def test_a_private_key_inside_json_or_a_diff_is_masked() -> None:
    assert BODY[:12] not in redact_text(json.dumps({"key": PEM, "n": 1}))
    assert BODY[:12] not in redact_text("\n".join("+" + line for line in PEM.splitlines()))


@pytest.mark.spec("K7")
def test_too_long_a_text_is_cut_between_words() -> None:
    text = "x " * (TEXT_LENGTH_MAX // 2 - 2) + OPENAI + " the end"
    clean = redact_text(text)
    assert len(clean) <= TEXT_LENGTH_MAX + 8
    assert clean.endswith(" [cut]") and "sk-" not in clean


HOSTILE: dict[str, str] = {
    "jwt heads": "eyJ",
    "jwt dots": "eyJ.",
    "urls": "://a:",
    "keys": "password",
    "assignments": "password=",
    "quotes": 'password:"\\',
    "backslashes": "\\",
    "annotations": "token: x[ x| = ",
    "pem heads": "-----BEGIN PRIVATE KEY-----",
    "pem tails": "-----END PRIVATE KEY\n",
    "input values": "input_value=",
    "addresses": "a@a.a.",
    "dots": "a.",
    "percents": "%40",
    "line ends": "password:\n",
    "tags": "<password ",
    "flags": "--a-",
    "calls": "password=a(",
    "schemes": "bearer ",
    "blanks": " ",
    "letters": "a",
    "digits": "1",
}


@pytest.mark.slow
@pytest.mark.spec("K7", "R8")
@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_costs_linear_time(unit: str) -> None:
    body = (unit * (200_000 // len(unit) + 1))[:200_000]
    started = time.perf_counter()
    redact_emails(redact_text(f"password {body} token </ -----END sk-@://"))
    redact_emails(redact_text(f"password={body}"))
    assert time.perf_counter() - started < 5.0  # about 0.4 s at worst; a quadratic pattern takes minutes


@pytest.mark.spec("K7")
@pytest.mark.parametrize("text", [*ASSIGNED, *ORDINARY, *BY_SHAPE, PEM])
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once) == once


@pytest.mark.spec("K7")
@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("from Bob <bob.b+x@mail.example.com>, today", "from Bob <[email]>, today"),
        ("?user=bob%40example.com&x=1", "?user=[email]&x=1"),
        ("người@thư.vn", "[email]"),
        ("package@1.2.3 and @decorator and a @ b", "package@1.2.3 and @decorator and a @ b"),
        ("image@sha256:abc", "image@sha256:abc"),
    ],
)
def test_addresses_are_masked(text: str, clean: str) -> None:
    assert redact_emails(text) == clean


@pytest.mark.parametrize(
    ("word", "random"),
    [("understanding", False), ("Basic", False), ("abc1", True), ("abC", True), ("a" * 23, False), ("a" * 24, True)],
)
def test_a_word_looks_random_by_digits_capitals_or_length(word: str, random: bool) -> None:
    assert looks_random(word) is random
