"""The LLM critic: what leaves the machine, how it is cut, and what is kept of the answer."""

import json
from typing import Any

import httpx
import pytest

from holdfast.core.failure import Category
from holdfast.errors import CallError
from holdfast.providers.openai import OpenAIClient
from holdfast_systems.review.changelist import Changelist, parse_diff
from holdfast_systems.review.findings import NOT_RUN, Finding, Review
from holdfast_systems.review.llm_chunks import estimated_tokens, plan_chunks
from holdfast_systems.review.llm_critic import review

pytestmark = pytest.mark.spec("R8")

BODY = "MIIEpAIBAAKCAQEAx7Kf3vQm9zR8sTq1LwYpN5bC6dE2fG4hJ8kL0mN1oP2qR3sT"
AWS = "AKIA" + "Q3EGRVLSWD7NBX2M"
GITHUB = "ghp_" + "a8Bc9De0Fg1Hi2Jk3Lm4No5Pq6Rs7Tu8Vw9X"
PASSWORD = "Tr0ub4dor-and-3"


class Endpoint:
    """A stranger's endpoint: keeps every body, answers with what it is told."""

    def __init__(self, *findings: dict[str, Any], content: str | None = None) -> None:
        self.bodies: list[str] = []
        answer = {"summary": "Looked at it.", "findings": list(findings)}
        self.content = content if content is not None else json.dumps(answer)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.bodies.append(request.content.decode())
        choice = {"message": {"content": self.content}, "finish_reason": "stop"}
        return httpx.Response(200, json={"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 3}})

    @property
    def sent(self) -> str:
        return "\n".join(json.loads(body)["messages"][1]["content"] for body in self.bodies)


def change(*hunks: str, path: str = "a.py") -> Changelist:
    """A change of one file; each hunk is a text of lines with their signs."""
    out = f"--- a/{path}\n+++ b/{path}\n"
    for index, hunk in enumerate(hunks):
        lines = hunk.split("\n")[:-1]
        old = sum(line[0] != "+" for line in lines)
        new = sum(line[0] != "-" for line in lines)
        out += f"@@ -{index * 100 + 1},{old} +{index * 100 + 1},{new} @@\n{hunk}"
    return parse_diff(out).named("7", "A title", "Ada")


async def ask(endpoint: Endpoint, changelist: Changelist, **options: Any) -> Review:
    http = httpx.AsyncClient(transport=httpx.MockTransport(endpoint))
    async with OpenAIClient("http://llm.example/v1", "key", http=http) as client:
        return await review(changelist, client=client, model="m", timeout_s=5, **options)


def remark(line: int, path: str = "a.py", message: str = "Broken.", severity: str = "error") -> dict[str, Any]:
    return {"path": path, "line": line, "severity": severity, "rule": "logic", "message": message}


async def test_findings_on_changed_lines_are_kept_and_all_others_dropped() -> None:
    endpoint = Endpoint(remark(2), remark(1), remark(99), remark(0), remark(2, path="other.py"), remark(2, path=""))
    found = await ask(endpoint, change(" one\n+two\n three\n"))
    assert [(f.path, f.line, f.rule, f.critic) for f in found.findings] == [("a.py", 2, "logic", "llm")]
    assert (found.tokens_in, found.tokens_out) == (7, 3)
    assert "Looked at it." in found.summary and "1 error" in found.summary


async def test_lines_carry_their_number_in_the_new_file() -> None:
    endpoint = Endpoint()
    await ask(endpoint, change(" one\n-two\n+TWO\n three\n"))
    assert "     2 + TWO\n" in endpoint.sent and "       - two\n" in endpoint.sent
    assert "FILE a.py (changed)" in endpoint.sent and "TITLE A title" in endpoint.sent


SECRETS = {
    "an assigned key": (f"+aws_key = '{AWS}'\n", AWS),
    "a token in a call": (f"+login('{GITHUB}')\n", GITHUB),
    "a removed token": (f"-old = '{GITHUB}'\n+new = env('T')\n", GITHUB),
    "a token in context": (f" keep = '{GITHUB}'\n+x = 1\n", GITHUB),
    "credentials in a URL": (f"+url = 'postgres://app:{PASSWORD}@db/x'\n", PASSWORD),
    "a password": (f'+password = "{PASSWORD}"\n', PASSWORD),
    "a PEM": (f"+-----BEGIN RSA PRIVATE KEY-----\n+{BODY}\n+{BODY}\n+-----END RSA PRIVATE KEY-----\n+x = 1\n", BODY),
    "a PEM without its end": (f"+-----BEGIN PRIVATE KEY-----\n+{BODY}\n+{BODY}\n", BODY),
    "a PEM without its beginning": (f"+{BODY}\n+{BODY}\n+-----END PRIVATE KEY-----\n+x = 1\n", BODY),
    "the middle of a PEM": (f" {BODY}\n-{BODY}x\n+{BODY}y\n {BODY}\n", BODY),
    "a PEM changed inside": (f" -----BEGIN PRIVATE KEY-----\n-{BODY}\n+Zm9{BODY}\n -----END PRIVATE KEY-----\n", BODY),
    "a PEM with CRLF": (f"+-----BEGIN PRIVATE KEY-----\r\n+{BODY}\r\n+-----END PRIVATE KEY-----\r\n", BODY),
}


@pytest.mark.parametrize("case", SECRETS)
async def test_a_planted_secret_never_leaves(case: str) -> None:
    hunk, secret = SECRETS[case]
    endpoint = Endpoint()
    await ask(endpoint, change(f" def f():\n+    harmless_code()\n{hunk}"))
    whole = "".join(endpoint.bodies)
    assert secret not in whole and secret[8:40] not in whole
    assert "harmless_code()" in endpoint.sent and "[redacted]" in endpoint.sent


async def test_context_that_was_secret_before_the_change_never_leaves() -> None:
    hunk = "------BEGIN PRIVATE KEY-----\n c2hvcnQta2V5\n------END PRIVATE KEY-----\n+after()\n"
    endpoint = Endpoint()
    await ask(endpoint, change(hunk))
    assert "c2hvcnQta2V5" not in "".join(endpoint.bodies) and "after()" in endpoint.sent


async def test_a_key_split_over_two_hunks_never_leaves() -> None:
    first = f" x = 1\n+-----BEGIN PRIVATE KEY-----\n+{BODY[:30]}\n"
    second = f"+{BODY[30:]}\n+-----END PRIVATE KEY-----\n+after()\n"
    endpoint = Endpoint()
    await ask(endpoint, change(first, second))
    assert BODY[:30] not in endpoint.sent and BODY[30:] not in endpoint.sent
    assert "   103 + after()" in endpoint.sent  # the numbers survive what redaction joined


async def test_a_key_cut_by_the_budget_never_leaves() -> None:
    lines = "".join(f"+{BODY[:-2]}{n:02}\n" for n in range(60))
    hunk = f"+-----BEGIN PRIVATE KEY-----\n{lines}+-----END PRIVATE KEY-----\n" + "+code_line()\n" * 400
    endpoint = Endpoint()
    await ask(endpoint, change(hunk), tokens_max=600)
    assert len(endpoint.bodies) > 1 and BODY[:20] not in "".join(endpoint.bodies)


async def test_secrets_in_title_path_and_answer_are_masked() -> None:
    endpoint = Endpoint(remark(1, path="keys/[redacted].py", message=f"Uses {GITHUB}."))
    given = change("+x = 1\n", path=f"keys/{AWS}.py").named("7", f"Rotate {GITHUB}", "Ada")
    found = await ask(endpoint, given)
    assert AWS not in "".join(endpoint.bodies) and GITHUB not in "".join(endpoint.bodies)
    assert found.findings[0].path == f"keys/{AWS}.py" and GITHUB not in found.findings[0].message


async def test_harmless_code_is_sent_as_it_is() -> None:
    code = "+def total(items):\n+    return sum(i.price for i in items)\n+# see https://example.test/a?b=1\n"
    endpoint = Endpoint()
    await ask(endpoint, change(code))
    assert "return sum(i.price for i in items)" in endpoint.sent and "https://example.test/a?b=1" in endpoint.sent
    assert "[redacted]" not in endpoint.sent


@pytest.mark.parametrize("breaks_on", ["code", "a.py", "A title"])
async def test_if_redaction_fails_nothing_is_sent(breaks_on: str) -> None:
    def broken(text: str) -> str:
        if breaks_on in text:
            raise RuntimeError(f"no: {text}")
        return text

    endpoint = Endpoint()
    with pytest.raises(CallError) as caught:
        await ask(endpoint, change("+code()\n"), redact=broken)
    assert (caught.value.failure.category, caught.value.failure.error_class) == (Category.BUG, "REDACTION_FAILED")
    assert "code" not in caught.value.failure.message and endpoint.bodies == []


def test_a_large_change_is_cut_by_file_then_hunk_then_line() -> None:
    hunk = "".join(f"+line_{n} = compute({n})\n" for n in range(30))
    small = [change("+x = 1\n", path=f"s{n}.py").files[0] for n in range(3)]
    by_hunk = change(hunk, hunk, path="hunks.py").files[0]
    by_line = change(hunk * 12, path="lines.py").files[0]
    whole = Changelist("1", "", "", (*small, by_hunk, by_line), "")
    chunks = plan_chunks(whole, tokens_max=700)
    assert all(estimated_tokens(chunk.text) <= 700 + 40 for chunk in chunks)
    assert {path for _, path in chunks[0].paths} >= {"s0.py", "s1.py", "s2.py"}
    assert all("FILE " in chunk.text for chunk in chunks)
    sent = "\n".join(chunk.text for chunk in chunks)
    for file in whole.files:
        for number, text in file.added_lines:
            assert f"{number:>6} + {text}\n" in sent
    with pytest.raises(CallError) as caught:
        plan_chunks(whole, tokens_max=700, chunks_max=2)
    assert caught.value.failure.error_class == "DIFF_TOO_LARGE"


async def test_findings_of_several_chunks_are_merged_without_repeats() -> None:
    hunk = "".join(f"+line_{n} = compute({n})\n" for n in range(300))
    endpoint = Endpoint(remark(5), remark(250, severity="info"))
    found = await ask(endpoint, change(hunk), tokens_max=700)
    assert len(endpoint.bodies) > 2
    assert [f.line for f in found.findings] == [5, 250]
    assert found.tokens_in == 7 * len(endpoint.bodies)


@pytest.mark.parametrize(
    "content",
    ["{}", '{"summary": "x", "findings": [1]}', json.dumps({"summary": "x", "findings": [remark(1) | {"line": "1"}]}),
     json.dumps({"summary": "x", "findings": [remark(1, severity="fatal")]}), "not json"],
)  # fmt: skip
async def test_an_answer_outside_the_schema_is_retryable(content: str) -> None:
    with pytest.raises(CallError) as caught:
        await ask(Endpoint(content=content), change("+x = 1\n"))
    assert caught.value.failure.error_class == "MALFORMED_ANSWER" and caught.value.failure.retryable


async def test_a_change_without_text_costs_nothing() -> None:
    endpoint = Endpoint()
    binary = "diff --git a/x b/x\nnew file mode 100644\nindex 0..1\nBinary files /dev/null and b/x differ\n"
    found = await ask(endpoint, parse_diff(binary))
    assert endpoint.bodies == [] and found.findings == ()


def suggesting(line: int, suggestion: object) -> dict[str, Any]:
    return {**remark(line), "suggestion": suggestion}


async def test_a_suggestion_of_one_line_is_kept_with_its_indentation() -> None:
    changelist = change(" def first(items):\n+    return items[1]\n")
    kept = await ask(Endpoint(suggesting(2, "    return items[0]")), changelist)
    assert [finding.suggestion for finding in kept.findings] == ["    return items[0]"]


@pytest.mark.parametrize(
    "suggestion",
    ["", None, 7, "two\nlines", "    return items[1] ", "x" * 301, "bell \a", f'token = "{GITHUB}"'],
    ids=["empty", "none", "number", "two lines", "the same line", "too long", "control", "a secret"],
)
async def test_what_is_no_better_line_is_no_suggestion(suggestion: object) -> None:
    changelist = change(" def first(items):\n+    return items[1]\n")
    kept = await ask(Endpoint(suggesting(2, suggestion)), changelist)
    assert [(finding.message, finding.suggestion) for finding in kept.findings] == [("Broken.", "")]


async def test_the_model_is_told_what_linters_found_in_its_files_only() -> None:
    endpoint = Endpoint()
    linted = (
        Finding("a.py", 2, "warning", "B006", "A mutable default.", "ruff"),
        Finding("other.py", 1, "warning", "F401", "Unused.", "ruff"),
        Finding("", 0, "info", NOT_RUN, "oxlint did not run.", "oxlint"),
    )
    await ask(endpoint, change(" def first(items):\n+    return items[1]\n"), linted=linted)
    assert "LINTERS\na.py:2 warning B006: A mutable default.\n" in endpoint.sent
    assert "F401" not in endpoint.sent and "did not run" not in endpoint.sent
