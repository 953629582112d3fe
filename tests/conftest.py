"""What every test may use: private servers (tests/services) and the table of the specification (spec_table)."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.services.fixtures", "tests.spec_table", "tests.order", "tests.strict", "tests.cpu"]

# One profile at home and on a build server, where Hypothesis would draw the same examples for ever. How long an example
# takes says how busy the machine is, not what the code does.
settings.register_profile("holdfast", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("holdfast")
