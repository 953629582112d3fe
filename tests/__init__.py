"""The proof of Holdfast. Each test is a sentence of the specification; `make conformance` prints the table."""
