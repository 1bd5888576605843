"""The generated documents are what the code says now, and leave nothing out."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from docs.generate.channels import channels
from docs.generate.config import CONFIGS
from docs.generate.documents import DOCUMENTS, ROOT
from tidelog.config import keys_of
from tidelog.subjects import unescape

SERVICES = ("registry", "pump", "drainer", "applier", "backfill")


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_generated_document_is_up_to_date(path: str) -> None:
    assert (ROOT / path).read_text() == DOCUMENTS[path](), "`make docs` writes it anew: commit that"


@pytest.mark.parametrize("section", CONFIGS)
def test_every_key_says_what_it_is_for(section: str) -> None:
    keys = keys_of(CONFIGS[section])
    silent = [name for name, key in keys.items() if not key.from_file and not key.help]
    assert silent == [], "a docstring below the field is its help"


def calls(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """`subjects.pump(…, "verb")` as (pump, verb)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of, last = node.func.value, node.args[-1] if node.args else None
            verb = last.value if isinstance(last, ast.Constant) else None
            if isinstance(of, ast.Name) and of.id == "subjects" and isinstance(verb, str):
                yield node.func.attr, verb


def served_by_the_registry() -> set[str]:
    edge = ast.parse((ROOT / "services/registry/tidelog_registry/edge.py").read_text())
    handlers = next(node for node in ast.walk(edge) if isinstance(node, ast.Dict))
    return {str(key.value) for key in handlers.keys if isinstance(key, ast.Constant)} | {"tso"}


def test_every_subject_that_the_code_names_is_in_the_reference() -> None:
    known = {tuple(c.subject.split(".")[2:]) for c in channels() if c.kind == "control"}
    verbs = {(words[0], words[-1]) for words in known if len(words) > 1}
    sources = [p for room in ("shared", "services", "cli") for p in (ROOT / room).rglob("*.py")]
    named = {call for path in sources for call in calls(ast.parse(path.read_text()))}
    asked = {(service, verb) for service, verb in named if service in SERVICES}
    assert len(asked) >= 10
    assert asked <= verbs
    assert {verb for service, verb in verbs if service == "registry"} - {"<node>"} == (
        served_by_the_registry()
    )
    kinds = {(service, verb) for service, verb in named if service == "snap" and verb != ">"}
    subjects = {unescape(c.subject) for c in channels()}
    assert {f"snap.<feed>.{verb}" for _, verb in kinds} <= subjects
