"""Proof of Holdfast: the simulator and its checker (`holdfast simulate`), `holdfast demo` and `holdfast bench`.

A distribution of its own: no process in production needs it.
"""
