"""The sums of what the tests cost are right."""

from tests.cpu import file_of, read_costs, report, spent_s, sums_of


def test_the_costs_of_a_test_are_added_up_and_sorted() -> None:
    lines = [
        "0.50 tests/a.py::test_x[1 2]",
        "2.00 tests/b.py::test_y",
        "0.25 tests/a.py::test_x[1 2]",
        "1.00 tests/a.py::z",
    ]
    costs = read_costs(lines)
    assert costs == {"tests/a.py::test_x[1 2]": 0.75, "tests/b.py::test_y": 2.0, "tests/a.py::z": 1.0}
    assert sums_of(costs, file_of) == [(2.0, "tests/b.py"), (1.75, "tests/a.py")]
    assert report(costs).startswith("       4 s of CPU in 3 tests")


def test_what_a_process_spends_grows_with_its_work() -> None:
    before = spent_s()
    while spent_s() - before < 0.02:
        sum(range(10_000))
