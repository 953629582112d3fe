"""What every test may use: private servers (tests/services) and the table of the specification (spec_table)."""

pytest_plugins = ["tests.services.fixtures", "tests.spec_table", "tests.order"]
