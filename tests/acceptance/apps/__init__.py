"""Small apps for real worker processes. Each names a `make` function: it finds its provider by the environment."""
