"""docs/asyncapi.yaml is a valid AsyncAPI document, by the specification's own schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft7Validator

ROOT = Path(__file__).parents[3]
SCHEMA = Path(__file__).parent / "node_modules/@asyncapi/specs/schemas/3.0.0.json"


def document() -> Any:
    return yaml.safe_load((ROOT / "docs/asyncapi.yaml").read_text())


def complaints(described: Any) -> list[str]:
    assert SCHEMA.is_file(), "make nodejs"
    found = Draft7Validator(json.loads(SCHEMA.read_text())).iter_errors(described)
    return [f"{error.json_path}: {error.message[:200]}" for error in found]


def test_the_document_is_valid() -> None:
    assert complaints(document()) == []


def test_a_wrong_one_is_not() -> None:
    described = document()
    described["operations"]["changes-row"]["action"] = "shout"
    assert complaints(described)


def test_every_reference_leads_somewhere() -> None:
    described = document()

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            if "$ref" in part:
                at = described
                for word in part["$ref"].removeprefix("#/").split("/"):
                    at = at[word]
            for each in part.values():
                walk(each)
        elif isinstance(part, list):
            for each in part:
                walk(each)

    walk(described)
