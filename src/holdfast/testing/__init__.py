"""The public test kit: `world` runs your jobs on a real store, with a clock you turn and providers you script."""

from holdfast.testing.hand_clock import HandClock as HandClock
from holdfast.testing.history import History as History
from holdfast.testing.worlds import EffectCount as EffectCount
from holdfast.testing.worlds import World as World
from holdfast.testing.worlds import world as world
