"""The checked-in protobuf modules are what proto/ generates."""

import sys
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).parents[2]


def test_generated_modules_are_up_to_date(tmp_path: Path) -> None:
    protos = sorted((ROOT / "proto" / "tidelog_proto").glob("*.proto"))
    assert len(protos) == 10
    plugin = Path(sys.executable).parent / "protoc-gen-mypy"
    status = protoc.main(
        [
            "protoc",
            f"-I{ROOT / 'proto'}",
            f"--python_out={tmp_path}",
            f"--mypy_out=quiet:{tmp_path}",
            f"--plugin=protoc-gen-mypy={plugin}",
            *(f"tidelog_proto/{proto.name}" for proto in protos),
        ]
    )
    assert status == 0
    made = sorted((tmp_path / "tidelog_proto").iterdir())
    assert len(made) == 20
    for path in made:
        assert path.read_text() == (ROOT / "shared" / "tidelog_proto" / path.name).read_text(), (
            f"{path.name} is stale: run `make proto`"
        )
