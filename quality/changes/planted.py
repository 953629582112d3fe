"""Defects: path, before, after, and parts of the names of the rules that may find them."""

from __future__ import annotations

_KEY = "AKIA" + "Q3EGRVLSWD7NBX2M"
_FETCH = """import json
import urllib.request


def fetch(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def names(items):
    if items is None:
        return []
    return [item["name"] for item in items]
"""
_SCRIPT = """export function total(rows) {
  let sum = 0;
  for (let i = 0; i < rows.length; i++) {
    sum += rows[i].value;
  }
  return sum;
}
"""
_GO = """package main

import "fmt"

func main() {
	count := 3
	fmt.Printf("%d\\n", count)
}
"""
_SHELL = """#!/bin/sh
set -eu
target="$1"
rm -rf "$target/cache"
"""
CHANGES: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("app/fetch.py", _FETCH, _FETCH.replace("json.load(answer)", "jsn.load(answer)"), ("F821",)),
    ("app/fetch.py", _FETCH, _FETCH.replace("def fetch(url):", "def fetch(url, seen=[]):"), ("B006",)),
    ("app/fetch.py", _FETCH, _FETCH.replace("    if items is None:\n        return []\n", ""), ("removed-guard",)),
    (
        "app/run.py",
        "import subprocess\n",
        "import subprocess\n\n\ndef go(name):\n    subprocess.call('ls ' + name, shell=True)\n",
        ("S602",),
    ),
    ("app/keys.py", "", f'ACCESS = "{_KEY}"\n', ("secret", "credential")),
    ("app/broken.py", "x = 1\n", "x = 1\n<<<<<<< ours\ny = 2\n=======\ny = 3\n>>>>>>> theirs\n", ("merge", "syntax")),
    ("app/half.py", "def f():\n    return 1\n", "def f(:\n    return 1\n", ("syntax",)),
    ("app/map.py", "", 'COLOURS = {"a": 1, "b": 2, "a": 3}\n', ("F601",)),
    (
        "app/safe.py",
        "try:\n    work()\nexcept KeyError:\n    pass\n",
        "try:\n    work()\nexcept Exception:\n    pass\n",
        ("widened-except", "S110"),
    ),
    ("app/debug.py", "def f(x):\n    return x\n", "def f(x):\n    breakpoint()\n    return x\n", ("debugging", "T100")),
    (
        "app/load.py",
        "import json\n",
        "import json\nimport pickle\n\n\ndef load(b):\n    return pickle.loads(b)\n",
        ("S301",),
    ),
    ("bin.sh/clean.sh", _SHELL, _SHELL.replace('"$target/cache"', "$target/cache"), ("SC2086", "SC2115")),
    ("web/total.js", _SCRIPT, _SCRIPT.replace("i++", "i--"), ("for-direction",)),
    ("web/total.js", _SCRIPT, _SCRIPT.replace("return sum;", "if (sum = 0) return null;\n  return sum;"), ("no-cond",)),
    (
        "web/kind.ts",
        "export const isText = (value: unknown) => false;\n",
        'export const isText = (value: unknown) => typeof value === "strnig";\n',
        ("valid-typeof",),
    ),
    ("web/half.ts", "export const a = 1;\n", "export const a = {;\n", ("syntax",)),
    ("cmd/main.go", _GO, _GO.replace("%d", "%s"), ("go-vet",)),
    ("cmd/main.go", _GO, _GO.replace("count := 3", "count := )"), ("syntax",)),
)
