"""A small HTTP server on this host that speaks the model hub's API, well or badly.

Large files are redirected to a second server, as the hub does to its content network.
"""

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

LARGE = (".gguf", ".safetensors")


@dataclass
class StubModel:
    """A model of the stub.

    Args:
        files: contents by path.
        token: needed to see the model at all.
        gated: whether files need more than being seen.
    """

    files: dict[str, bytes]
    token: str | None = None
    gated: bool = False

    @property
    def commit(self) -> str:
        told = json.dumps(sorted((name, sum_of(name, data)) for name, data in self.files.items()))
        return hashlib.sha1(told.encode()).hexdigest()


def sum_of(name: str, data: bytes) -> str:
    """The sum the hub tells: SHA-256 of large files, Git's for others."""
    if name.endswith(LARGE):
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@dataclass
class Asked:
    """A request that came."""

    method: str
    path: str
    range: str | None
    token: str | None


@dataclass
class StubHub:
    """The stub's content and manners.

    Args:
        models: by owner/name.
        cuts: by request for a large file, after how many bytes the connection breaks.
        ranges: whether files are continued in the middle.
        served: contents that are sent in place of those that were told, by path.
        statuses: the API answers with these first, one a request.
        body: the API's answer, in place of the right one.
        asked: requests so far.
    """

    models: dict[str, StubModel]
    cuts: list[int] = field(default_factory=list)
    ranges: bool = True
    served: dict[str, bytes] = field(default_factory=dict)
    statuses: list[int] = field(default_factory=list)
    body: bytes | None = None
    asked: list[Asked] = field(default_factory=list)
    endpoint: str = ""
    network: str = ""

    def files_asked(self) -> list[str]:
        """Names of the files that were sent, in order."""
        found = (one.path for one in self.asked if one.method == "GET" and "/api/" not in one.path)
        return [path.rpartition("/")[2] for path in found if "/cdn/" in path or "/small/" in path]

    @cached_property
    def handler(self) -> type[BaseHTTPRequestHandler]:
        hub = self

        class Handler(_Handler):
            pass

        Handler.hub = hub
        return Handler


class _Handler(BaseHTTPRequestHandler):
    hub: StubHub

    def do_GET(self) -> None:
        self._answer(True)

    def do_HEAD(self) -> None:
        self._answer(False)

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _answer(self, with_body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        bearer = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None
        self.hub.asked.append(Asked(self.command, path, self.headers.get("Range"), bearer))
        self.close_connection = True
        if matched := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/\w+)?", path):
            self._list(matched[1], bearer)
        elif matched := re.fullmatch(r"/(cdn|small)/([^/]+/[^/]+)/[0-9a-f]{40}/(.+)", path):
            self._send_file(matched[1] == "cdn", matched[2], matched[3], bearer, with_body)
        elif matched := re.fullmatch(r"/([^/]+/[^/]+)/resolve/(\w+)/(.+)", path):
            self._resolve(matched[1], matched[3], bearer)
        else:
            self._refuse(404)

    def _refuse(self, status: int, code: str | None = None) -> None:
        self.send_response(status)
        if code is not None:
            self.send_header("X-Error-Code", code)
            self.send_header("X-Error-Message", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _model(self, repo: str, bearer: str | None) -> StubModel | None:
        model = self.hub.models.get(repo)
        if model is not None and model.token in (None, bearer):
            return model
        if bearer is None:
            self._refuse(401, "RepoNotFound")
        elif model is None:
            self._refuse(404, "RepoNotFound")
        else:
            self._refuse(401)
        return None

    def _list(self, repo: str, bearer: str | None) -> None:
        if self.hub.statuses:
            self._refuse(self.hub.statuses.pop(0))
            return
        model = self._model(repo, bearer)
        if model is None:
            return
        body = self.hub.body
        if body is None:
            files = [_told(name, data) for name, data in model.files.items()]
            body = json.dumps({"id": repo, "sha": model.commit, "siblings": files}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _resolve(self, repo: str, file: str, bearer: str | None) -> None:
        model = self._model(repo, bearer)
        if model is None:
            return
        if model.gated:
            self._refuse(403, "GatedRepo")
        elif file not in model.files:
            self._refuse(404, "EntryNotFound")
        else:
            large = file.endswith(LARGE)
            where = f"{self.hub.network}/cdn" if large else "/small"
            self.send_response(302 if large else 307)
            self.send_header("Location", f"{where}/{repo}/{model.commit}/{file}")
            self.send_header("X-Repo-Commit", model.commit)
            digest = sum_of(file, model.files[file])
            self.send_header("ETag", f'"{digest}"')
            self.send_header("X-Linked-Etag", f'"{digest}"')
            self.send_header("X-Linked-Size", str(len(model.files[file])))
            self.send_header("Content-Length", "0")
            self.end_headers()

    def _send_file(
        self, large: bool, repo: str, file: str, bearer: str | None, with_body: bool
    ) -> None:
        if not large and self._model(repo, bearer) is None:
            return
        model = self.hub.models[repo]
        told = model.files[file]
        data = self.hub.served.get(file, told)
        asked = self.headers.get("Range")
        start = 0
        if asked is not None and self.hub.ranges:
            start = int(asked.removeprefix("bytes=").partition("-")[0])
            if start >= len(data):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(data)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        self.send_header("ETag", f'"{sum_of(file, told)}"')
        self.send_header("X-Repo-Commit", model.commit)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        if with_body:
            cut = self.hub.cuts.pop(0) if large and self.hub.cuts else None
            part = data[start:]
            self.wfile.write(part if cut is None else part[:cut])


def _told(name: str, data: bytes) -> dict[str, object]:
    told: dict[str, object] = {"rfilename": name, "size": len(data)}
    if name.endswith(LARGE):
        pointer = hashlib.sha1(b"pointer" + data).hexdigest()
        large = {"sha256": sum_of(name, data), "size": len(data), "pointerSize": 134}
        return {**told, "blobId": pointer, "lfs": large}
    return {**told, "blobId": sum_of(name, data)}


@contextmanager
def serving_hub(hub: StubHub) -> Iterator[str]:
    """Runs the stub; yields its address."""
    with ExitStack() as stack:
        hub.network = stack.enter_context(_server(hub))
        hub.endpoint = stack.enter_context(_server(hub))
        yield hub.endpoint


@contextmanager
def _server(hub: StubHub) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), hub.handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
