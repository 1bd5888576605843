"""TiDB's status API as far as the Drainer reads it: `GET /ddl/history` (fixtures README)."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


def answer(jobs: list[dict[str, Any]], query: dict[str, list[str]]) -> list[dict[str, Any]]:
    """All jobs oldest first; with start_job_id and limit it walks back from that job."""
    if "start_job_id" not in query and "limit" not in query:
        return jobs
    start = int(query.get("start_job_id", ["0"])[0]) or max(job["id"] for job in jobs)
    back = sorted((j for j in jobs if j["id"] <= start), key=lambda j: j["id"], reverse=True)
    return back[: int(query.get("limit", ["2048"])[0])]


@contextmanager
def status_api(history: bytes, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve a recorded history on 127.0.0.1; yields the URL."""
    jobs = json.loads(history)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            known = url.path == "/ddl/history"
            body = json.dumps(answer(jobs, parse_qs(url.query))).encode() if known else b""
            self.send_response(200 if known else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http{'s' * (tls is not None)}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
