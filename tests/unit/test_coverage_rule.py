"""How much the tests have to run, and whether that would be noticed."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.coverage.rule import BAR, WHOLE, Ran, below, by_room, handlers, never_run, of, together
from tests.unit.test_tidy import ROOT, sources

ALL = Ran(statements=10, run_statements=10, branches=4, run_branches=4)


def product(**changed: Ran) -> dict[str, Ran]:
    """Each source file, run in full but for those whose name is given."""
    paths = [path.relative_to(ROOT) for path in sources()]
    return {str(path): changed.get(path.stem, ALL) for path in paths}


def test_all_is_enough() -> None:
    assert below(product(), 0) == []


@pytest.mark.parametrize("stem", ["record", "segments", "sorter", "merger", "causality"])
@pytest.mark.parametrize(
    "short", [Ran(10, 9, 4, 4), Ran(10, 10, 4, 3)], ids=["a statement", "a branch"]
)
def test_a_room_that_has_to_be_whole_may_miss_nothing(stem: str, short: Ran) -> None:
    (told,) = below(product(**{stem: short}), 0)
    assert f"/{stem}.py is run by 92.9%" in told


def test_elsewhere_the_total_counts() -> None:
    files = product()
    unrun = Ran(statements=1_000_000, run_statements=0, branches=0, run_branches=0)
    (told,) = below(files | {"cli/tidelog_cli/app.py": unrun}, 0)
    assert told.startswith("in all: ")
    of_branches = Ran(10_000_000, 10_000_000, 100_000, 0)
    (told,) = below(files | {"cli/tidelog_cli/app.py": of_branches}, 0)
    assert "% of the branches" in told
    at_the_bar = Ran(100, round(100 * BAR), 0, 0)
    assert below(files | {"cli/tidelog_cli/app.py": at_the_bar}, 0) == []


def test_each_except_body_has_to_run() -> None:
    (told,) = below(product(), 2)
    assert told == "2 `except` bodies are run by no test, wanted is 0"


@pytest.mark.parametrize("name", WHOLE)
def test_every_name_means_files_that_are_there(name: str) -> None:
    assert of(name, product())
    with pytest.raises(LookupError, match=name):
        of(name, {"cli/tidelog_cli/app.py": ALL})


def test_rooms_add_up() -> None:
    files = {
        "shared/tidelog/plan/keys.py": Ran(10, 5, 2, 1),
        "shared/tidelog/plan/fold.py": Ran(30, 30, 2, 2),
        "shared/tidelog/errors.py": ALL,
    }
    rooms = by_room(files)
    assert rooms == {"tidelog/plan": Ran(40, 35, 4, 3), "tidelog": ALL}
    assert together(rooms.values()) == together(files.values())
    assert rooms["tidelog/plan"].share == 38 / 44
    assert rooms["tidelog/plan"].branch_share == 3 / 4


def test_each_except_body_is_found() -> None:
    source = textwrap.dedent("""\
        try:
            a()
        except ValueError:
            b()
        except (KeyError, OSError) as error:
            # why

            raise X(
                error) from error
        try:
            try: a()
            except TypeError: c()
        finally:
            d()
        try:
            a()
        except* OSError:
            e()
        """)
    assert sorted(handlers(source)) == [4, 8, 12, 18]
    assert never_run(source, [1, 2, 8, 12]) == [4, 18]
    assert never_run(source, range(20)) == []


def test_no_line_excuses_itself() -> None:
    excuse = "pragma: no" + " cover"
    assert [path for path in sources() if excuse in Path(path).read_text()] == []
