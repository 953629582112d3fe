"""The world of this system for the simulator: its users, its providers and the checks of its promises."""
