"""Rows of the change stream as Parquet has them."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import fs

from tidelog.config import redacted_url
from tidelog.errors import BadInput


def array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Of the stream's values of a column; JSON documents are msgspec.Raw."""
    if pa.types.is_decimal(kind):
        texts = [None if value is None else str(value) for value in values]
        return pa.array(texts, pa.string()).cast(kind)
    if pa.types.is_binary(kind):
        return pa.array([None if value is None else b64decode(value) for value in values], kind)
    if pa.types.is_string(kind):
        texts = [bytes(v).decode() if isinstance(v, msgspec.Raw) else v for v in values]
        return pa.array(texts, kind)
    return pa.array(values, kind)


def place_of(url: str) -> tuple[fs.FileSystem, str]:
    """A path, or any URL that pyarrow knows. Raises BadInput."""
    try:
        if "://" in url:
            files, path = fs.FileSystem.from_uri(url)
            return files, str(path).rstrip("/")
        return fs.LocalFileSystem(), url.rstrip("/")
    except (pa.ArrowInvalid, OSError) as error:
        raise BadInput(
            f"{redacted_url(url)} is no place for files: {str(error).replace(url, '***')}",
            hint="a path, file://, s3://, gs://",
        ) from error
