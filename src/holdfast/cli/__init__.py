"""The command line: `program` has the commands that run things, `ops` those of an operator, the rest is theirs."""

from holdfast.cli.program import cli, main

__all__ = ["cli", "main"]
