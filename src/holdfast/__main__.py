"""The `holdfast` command. The version is told without loading anything; a missing extra is one line."""

from __future__ import annotations

import sys

import holdfast


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        print(f"holdfast {holdfast.__version__}")
        return
    try:
        from holdfast.cli import main as run

        run()
    except ModuleNotFoundError as error:
        from holdfast.errors import missing_extra

        sentence = missing_extra(error)
        if sentence is None:
            raise
        print(sentence, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
