"""The references under docs/reference and docs/asyncapi.yaml, made from the code they describe:
`make docs` writes them, tests/unit/test_reference.py compares."""
