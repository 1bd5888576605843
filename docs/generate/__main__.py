"""`python -m docs.generate`: write every generated document."""

from __future__ import annotations

from docs.generate.documents import DOCUMENTS, ROOT


def main() -> None:
    for path, text in DOCUMENTS.items():
        (ROOT / path).write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
