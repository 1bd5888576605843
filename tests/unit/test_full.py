"""`make full` records what passed whole, and goes on with what is left."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.commit import ROOT
from tests.full import record
from tests.full.record import Ran, load, page, save, version
from tests.full.run import run
from tests.full.suites import SUITES, Suite

EVER = float("inf")
PASSES = Suite("passes", "platform")
FAILS = Suite("fails", "json.tool /there/is/none")
RAN = Ran(
    command="python -m platform", on="2026-01-01", commit="c", seconds=60, said="of another | day"
)


def test_what_passed_is_recorded_and_what_fails_is_told_and_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ran.json"
    assert run([FAILS, PASSES], 2, tmp_path / "logs", path, EVER) == 1
    told = capsys.readouterr().out
    assert "FAILED fails" in told
    assert "No such file or directory: '/there/is/none'" in told
    kept = load(path)
    assert kept.left([FAILS, PASSES]) == [FAILS]
    assert kept.suites["passes"].said
    assert kept.suites["passes"].said in told
    assert kept.suites["passes"].said in (tmp_path / "logs/passes.log").read_text()


def test_one_that_fails_now_counts_no_more(tmp_path: Path) -> None:
    path = tmp_path / "ran.json"
    save(record.Record(version=version(), suites={"fails": RAN, "passes": RAN}), path)
    assert run([FAILS], 1, tmp_path / "logs", path, EVER) == 1
    assert load(path).suites == {"passes": RAN}


def test_one_that_goes_on_another_day_is_left_and_has_not_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "parted.py").write_text("print('90 of 180 minutes'); raise SystemExit(75)")
    parted = Suite("parted", "parted", environ={"PYTHONPATH": str(tmp_path)})
    assert run([parted], 1, tmp_path / "logs", tmp_path / "ran.json", EVER) == 0
    assert "in part parted, 0.0 min: 90 of 180 minutes" in capsys.readouterr().out
    assert load(tmp_path / "ran.json").left([parted]) == [parted]


def test_one_of_another_command_counts_for_none() -> None:
    kept = record.Record(version=version(), suites={"passes": RAN})
    assert kept.left([PASSES]) == []
    more = PASSES._replace(module="platform --terse")
    assert kept.left([more]) == [more]
    assert "not run whole yet" in page(kept, (more,))


def test_one_whose_cases_have_become_more_is_left(tmp_path: Path) -> None:
    path, listed = tmp_path / "ran.json", PASSES._replace(cases=85)
    assert run([listed], 1, tmp_path / "logs", path, EVER) == 0
    assert load(path).left([listed]) == []
    more = listed._replace(cases=92)
    assert load(path).left([more]) == [more]
    assert "| 92 cases now; of 85 it said on " in page(load(path), (more,))


def test_one_that_looks_at_more_now_is_left(tmp_path: Path) -> None:
    path = tmp_path / "ran.json"
    assert run([PASSES], 1, tmp_path / "logs", path, EVER) == 0
    stricter = PASSES._replace(judge=1)
    assert load(path).left([stricter]) == [stricter]
    assert "| it looks at more now; before that it said on " in page(load(path), (stricter,))
    assert run([stricter], 1, tmp_path / "logs", path, EVER) == 0
    assert load(path).left([stricter]) == []


def test_none_is_begun_after_the_time_is_over(tmp_path: Path) -> None:
    path = tmp_path / "ran.json"
    assert run([PASSES, FAILS], 1, tmp_path / "logs", path, 0.0) == 0
    assert not path.exists()


def test_alone_comes_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone = Suite("by itself", "platform", alone=True)
    assert run([alone, PASSES], 2, tmp_path / "logs", tmp_path / "ran.json", EVER) == 0
    told = capsys.readouterr().out
    assert told.index("passed passes") < told.index("began  by itself")


def test_what_another_version_ran_counts_for_none(tmp_path: Path) -> None:
    path = tmp_path / "ran.json"
    save(record.Record(version="0.0.1", suites={"passes": RAN}), path)
    assert load(path) == record.Record(version=version())


def test_the_page_says_what_ran_and_what_did_not(tmp_path: Path) -> None:
    some = record.Record(version="9.9", suites={"passes": RAN})
    told = page(some, (PASSES, FAILS))
    assert "version 9.9: 1 of 2 suites" in told
    assert "| passes | `python -m platform` | 2026-01-01 | c | 1.0 | of another / day |" in told
    assert (
        "| fails | `python -m json.tool /there/is/none` | – | – | – | not run whole yet |" in told
    )


def test_the_page_is_up_to_date() -> None:
    assert record.PAGE.read_text() == page(load(), SUITES), "`python -m tests.full.run --write`"


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_each_suite_is_there(suite: Suite) -> None:
    module, *arguments = suite.module.split()
    assert importlib.util.find_spec(module)
    for argument in arguments:
        assert not argument.startswith("tests/") or (ROOT / argument).exists()
    assert sum(one.name == suite.name for one in SUITES) == 1
