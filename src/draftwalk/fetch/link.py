"""An address and how it may be asked: certificates, a token, redirects."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPMessage, HTTPResponse
from typing import IO
from urllib.parse import urlsplit

from draftwalk.errors import UserError, in_words

_TIMEOUT = 30.0
_KINDS = ("http", "https", "file")
_TOKEN_HEADER = "Authorization"


@dataclass(frozen=True, slots=True)
class Link:
    """A file's address.

    Attributes:
        url: the address.
        certificates: to check its server with besides the system's.
        token: says who asks; told to this server only, wherever it sends us.
    """

    url: str
    certificates: str | None = None
    token: str | None = field(default=None, repr=False)

    def ssl_context(self) -> ssl.SSLContext:
        """Checks servers against the system's certificates and those of this link."""
        context = ssl.create_default_context()
        if self.certificates is not None:
            context.load_verify_locations(cafile=self.certificates)
        return context


class RefusedError(UserError):
    """A server's answer that asking again does not change.

    Args:
        name: what was asked for.
        status: the HTTP status.
        reason: its text.
        code: the hub's own name for what is wrong, if it gave one.
    """

    def __init__(self, name: str, status: int, reason: str, code: str = "") -> None:
        super().__init__(f"{name}: the server says {status} {reason}".rstrip())
        self.status = status
        self.code = code


def ask(
    link: Link, name: str, headers: Mapping[str, str], timeout: float = _TIMEOUT
) -> HTTPResponse:
    """Asks for a link with GET.

    Args:
        link: the address.
        name: of what is asked for, in messages.
        headers: sent along.
        timeout: seconds without a byte.

    Raises:
        UserError: an address of a kind that is not followed.
        urllib.error.URLError: the server cannot be reached, or refuses.
    """
    sent = {"User-Agent": "draftwalk", "Accept-Encoding": "identity", **headers}
    request = urllib.request.Request(link.url, headers=sent)
    if request.type not in _KINDS:
        raise UserError(f"{name}: addresses of type {request.type!r} are not followed")
    if link.token is not None:
        request.add_unredirected_header(_TOKEN_HEADER, f"Bearer {link.token}")
    handlers: list[urllib.request.BaseHandler] = [_Redirects()]
    if request.type == "https":
        handlers.append(urllib.request.HTTPSHandler(context=link.ssl_context()))
    opener = urllib.request.build_opener(*handlers)
    response: HTTPResponse = opener.open(request, timeout=timeout)
    return response


def why_unreached(error: urllib.error.URLError) -> str:
    """Why a server cannot be reached."""
    cause = error.reason
    return in_words(cause) if isinstance(cause, BaseException) else str(cause)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows where a server sends us; the token goes along only to the same server."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """The request to make in place of one that was redirected."""
        onward = super().redirect_request(req, fp, code, msg, headers, newurl)
        if onward is None:
            return None
        if onward.type not in _KINDS[:2] or (req.type, onward.type) == ("https", "http"):
            raise UserError(f"the server of {req.host} redirects to a less safe address")
        token = req.unredirected_hdrs.get(_TOKEN_HEADER)
        if token is not None and _server(req.full_url) == _server(newurl):
            onward.add_unredirected_header(_TOKEN_HEADER, token)
        return onward


def _server(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.rpartition("@")[2]
