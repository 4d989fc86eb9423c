"""A small HTTP server on this host that serves one file, well or badly."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Behaviour:
    """How the server treats its file.

    Args:
        body: the file.
        ranges: whether it continues a file in the middle.
        cuts: by request, after how many bytes the connection breaks; later ones are whole.
        status: answer with this error instead.
        length: whether the length is told.
        offset: added to where a continued part really starts.
        asked: the Range header of every request so far.
    """

    body: bytes
    ranges: bool = True
    cuts: list[int] = field(default_factory=list)
    status: int | None = None
    length: bool = True
    offset: int = 0
    asked: list[str | None] = field(default_factory=list)


@contextmanager
def serving(behaviour: Behaviour) -> Iterator[str]:
    """Runs the server; yields the file's address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            behaviour.asked.append(asked)
            cut = behaviour.cuts.pop(0) if behaviour.cuts else None
            if behaviour.status is not None:
                self.send_error(behaviour.status)
                return
            start, size = 0, len(behaviour.body)
            if asked is not None and behaviour.ranges:
                matched = re.fullmatch(r"bytes=(\d+)-", asked)
                assert matched is not None
                start = int(matched[1]) + behaviour.offset
                if start >= size:
                    self.send_response(416)
                    self.send_header("Content-Range", f"bytes */{size}")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
            else:
                self.send_response(200)
            if behaviour.length:
                self.send_header("Content-Length", str(size - start))
            self.end_headers()
            part = behaviour.body[start:]
            self.wfile.write(part if cut is None else part[:cut])
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/file.whl"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
