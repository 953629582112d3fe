"""How good the offline defaults are: generated inputs with known answers, measured area by area."""
