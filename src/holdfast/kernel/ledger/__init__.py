"""Keeps the ledger of effects true: calls that cost money, and every way to ask a provider what happened."""
