"""Publishes the contract: AsyncAPI 3 and JSON Schema 2020-12, generated from the models of `contract.py`.

python -m holdfast_systems.grading.asyncapi            writes docs/contract/
python -m holdfast_systems.grading.asyncapi --check    exits 1 if the files there say something else
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter

from holdfast_systems.grading import contract

DIRECTORY = Path("docs/contract")
DIALECT = "https://json-schema.org/draft/2020-12/schema"
VERSION = "2.0.0"
SCHEMAS: dict[str, TypeAdapter[Any]] = {
    contract.REQUEST_QUEUE: contract.REQUEST,
    contract.CALLBACK_QUEUE: contract.CALLBACK,
    contract.DEAD_LETTER_QUEUE: contract.DEAD_LETTER,
}
_SUMMARIES = {
    contract.REQUEST_QUEUE: "Grade one attempt of a submission. `requestId` is its idempotency key.",
    contract.CALLBACK_QUEUE: "Progress, result or error of a request. `eventId` is unique per message.",
    contract.DEAD_LETTER_QUEUE: "A request that will not be graded without a person, and why.",
}
_RULES = """\
Two services that know each other only by this contract: the main app sends `grading.request`, the grading
service answers on `grading.callback` and puts what it cannot grade into `grading.dlq`.

Delivery is at least once and unordered; every consumer is idempotent. Bodies are UTF-8 JSON objects of at
most 1 MiB and 32 levels, without duplicate keys, NaN, NUL characters or lone surrogates. Unknown extra
fields are accepted. An `error` with `retryable: false` and every `completed` is final; an `error` with
`retryable: true` is news, and the service goes on. Messages are persistent.

Where keys are set, the header `holdfast-signature` is `sha256=` and the HMAC-SHA256 of the body in hex, and
a message without a right one is refused."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write or check the published grading contract.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 on drift")
    parser.add_argument("--directory", type=Path, default=DIRECTORY)
    options = parser.parse_args(arguments)
    if options.check:
        stale = drifted(options.directory)
        for name in stale:
            print(f"{options.directory / name} does not say what the code does; generate it again.")
        return 1 if stale else 0
    options.directory.mkdir(parents=True, exist_ok=True)
    for name, text in documents().items():
        (options.directory / name).write_text(text, encoding="utf-8")
    return 0


def drifted(directory: Path) -> list[str]:
    """The published files that are missing or differ from what the models say."""
    return [
        name
        for name, text in documents().items()
        if not (directory / name).is_file() or (directory / name).read_text(encoding="utf-8") != text
    ]


@cache
def documents() -> dict[str, str]:
    """Every generated file by name. The same code always writes the same bytes."""
    files = {f"{queue}.schema.json": json.dumps(json_schema(queue), indent=2) + "\n" for queue in SCHEMAS}
    files["asyncapi.yaml"] = yaml.dump(asyncapi(), Dumper=_Dumper, sort_keys=False, width=100)
    return files


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are, and never an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def json_schema(queue: str) -> dict[str, Any]:
    """The JSON Schema of the messages on one queue."""
    schema = _plain(SCHEMAS[queue].json_schema(by_alias=True))
    return {"$schema": DIALECT, "$id": f"{queue}.schema.json", "title": queue, **schema}


def _plain(node: Any, *, names: bool = False) -> Any:
    """The schema without what strict validators reject or no reader needs.

    `discriminator` is OpenAPI's word, not JSON Schema's; a title that only repeats the field's name and a
    default of null say nothing. `names` is true where the keys are field names, which are never dropped.
    """
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {key: value for key, value in node.items() if names or not _noise(key, value)}
    return {key: _plain(value, names=key in ("properties", "$defs") and not names) for key, value in kept.items()}


def _noise(key: str, value: Any) -> bool:
    return key in ("discriminator", "title") or (key == "default" and value is None)


def asyncapi() -> dict[str, Any]:
    """The AsyncAPI 3 document as the main app sees it. It stands alone: every schema is inside."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Grading queue contract",
            "version": VERSION,
            "description": _RULES,
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": contract.CONTENT_TYPE,
        "channels": {_key(queue): _channel(queue) for queue in contract.QUEUES},
        "operations": {
            "requestGrading": _operation("send", contract.REQUEST_QUEUE, "Main app to grading service."),
            "receiveCallback": _operation("receive", contract.CALLBACK_QUEUE, "Grading service to main app."),
            "receiveDeadLetter": _operation("receive", contract.DEAD_LETTER_QUEUE, "For people and their tools."),
        },
        "components": {
            "messages": {_key(queue): _message(queue) for queue in contract.QUEUES},
            "schemas": _component_schemas(),
        },
    }


def _key(queue: str) -> str:
    head, tail = queue.split(".")
    return head + tail.capitalize()


def _channel(queue: str) -> dict[str, Any]:
    return {
        "address": queue,
        "title": queue,
        "summary": f"Durable queue `{queue}`, bound to `{contract.EXCHANGE}` by the routing key `{queue}`.",
        "messages": {_key(queue): {"$ref": f"#/components/messages/{_key(queue)}"}},
        "bindings": {
            "amqp": {
                "is": "routingKey",
                "exchange": {
                    "name": contract.EXCHANGE,
                    "type": contract.EXCHANGE_TYPE,
                    "durable": True,
                    "autoDelete": False,
                },
                "bindingVersion": "0.3.0",
            }
        },
        "x-queue": {"name": queue, "durable": True, "exclusive": False, "autoDelete": False, "arguments": {}},
    }


def _operation(action: str, queue: str, summary: str) -> dict[str, Any]:
    binding: dict[str, Any] = {"bindingVersion": "0.3.0"}
    # 2 is AMQP's "persistent"; `ack` belongs to consumers.
    binding |= {"deliveryMode": 2, "mandatory": True} if action == "send" else {"ack": True}
    return {
        "action": action,
        "summary": summary,
        "channel": {"$ref": f"#/channels/{_key(queue)}"},
        "messages": [{"$ref": f"#/channels/{_key(queue)}/messages/{_key(queue)}"}],
        "bindings": {"amqp": binding},
    }


def _message(queue: str) -> dict[str, Any]:
    return {
        "name": queue,
        "summary": _SUMMARIES[queue],
        "contentType": contract.CONTENT_TYPE,
        "payload": {"$ref": f"#/components/schemas/{_key(queue)}"},
        "bindings": {"amqp": {"contentEncoding": "UTF-8", "messageType": queue, "bindingVersion": "0.3.0"}},
    }


def _component_schemas() -> dict[str, Any]:
    schemas: dict[str, Any] = {}
    for queue, adapter in SCHEMAS.items():
        whole = _plain(adapter.json_schema(by_alias=True, ref_template="#/components/schemas/{model}"))
        schemas |= whole.pop("$defs", {})
        schemas[_key(queue)] = whole
    return schemas


if __name__ == "__main__":
    sys.exit(main())
