"""What a person, or a system for them, does with work that went wrong: correct an input, look into a doubtful effect,
replay."""

from holdfast.kernel import operate
from holdfast.kernel.app import Corrected, TakenBack
from holdfast.kernel.effects import ask_person
from holdfast.kernel.hands.correct import correct
from holdfast.kernel.ledger.look_into import look_into

__all__ = [
    "Corrected",
    "TakenBack",
    "ask_person",
    "correct",
    "look_into",
    "operate",
]
