"""`python -m tidelog_cli` and the `tidelog` script."""

from __future__ import annotations

from tidelog_cli.app import app


def main() -> None:
    app()


if __name__ == "__main__":
    main()
