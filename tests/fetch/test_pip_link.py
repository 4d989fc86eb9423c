import subprocess
from collections.abc import Callable

import pytest

from draftwalk.errors import UserError
from draftwalk.fetch import CATALOGUE
from draftwalk.fetch.pip_link import Link, ask_pip

ENTRY = CATALOGUE[0]
BASE = "https://index.invalid/packages/ab/cd"
CONFIGURED = "global.cert='/some/bundle.pem'\ninstall.cert='/other.pem'\nglobal.timeout='5'\n"


def pip_that_says(
    found: str, config: str = "", code: int = 0
) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        if "--version" in command:
            return subprocess.CompletedProcess(command, 0, "pip 99", "")
        text = config if "config" in command else found
        return subprocess.CompletedProcess(command, code, text, "")

    return run


def line(url: str) -> str:
    return f"  Found link {url} (from https://index.invalid/simple/x/), version: 1\n"


@pytest.mark.parametrize(
    ("log", "url"),
    [
        (line(f"{BASE}/{ENTRY.wheel}"), f"{BASE}/{ENTRY.wheel}"),
        (line(f"{BASE}/{ENTRY.wheel}#sha256=00"), f"{BASE}/{ENTRY.wheel}"),
        (line(f"file:///mirror/{ENTRY.wheel}"), f"file:///mirror/{ENTRY.wheel}"),
        (line(f"{BASE}/{ENTRY.wheel}.metadata") + line(f"{BASE}/{ENTRY.wheel}"), None),
    ],
)
def test_the_link_is_read_from_pips_log(
    monkeypatch: pytest.MonkeyPatch, log: str, url: str | None
) -> None:
    monkeypatch.setattr(subprocess, "run", pip_that_says(log))
    assert ask_pip(ENTRY) == Link(url or f"{BASE}/{ENTRY.wheel}", None)


def test_certificates_are_those_pip_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    log = line(f"{BASE}/{ENTRY.wheel}")
    monkeypatch.setattr(subprocess, "run", pip_that_says(log, CONFIGURED))
    assert ask_pip(ENTRY).certificates == "/some/bundle.pem"


def test_a_package_that_is_not_found_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    log = "WARNING: Retrying\nERROR: No matching distribution found for it\n"
    monkeypatch.setattr(subprocess, "run", pip_that_says(log, code=1))
    with pytest.raises(UserError, match="No matching distribution found for it") as raised:
        ask_pip(ENTRY)
    assert f"{ENTRY.package}=={ENTRY.version}" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_index_with_a_password_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    log = line(f"https://me:****@index.invalid/{ENTRY.wheel}")
    monkeypatch.setattr(subprocess, "run", pip_that_says(log))
    with pytest.raises(UserError, match="password"):
        ask_pip(ENTRY)


def test_another_pip_is_asked_where_the_environment_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(command[0])
        if "--version" in command:
            return subprocess.CompletedProcess(command, 1, "", "No module named pip")
        return subprocess.CompletedProcess(command, 0, line(f"{BASE}/{ENTRY.wheel}"), "")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert ask_pip(ENTRY).url.endswith(ENTRY.wheel)
    assert asked[1:] == ["/usr/bin/pip"] * 2

    monkeypatch.setattr("shutil.which", lambda _name: None)
    with pytest.raises(UserError, match="there is no pip"):
        ask_pip(ENTRY)


def test_a_pip_that_hangs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        if "--version" in command:
            return subprocess.CompletedProcess(command, 0, "pip 99", "")
        raise subprocess.TimeoutExpired(command, 1)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(UserError, match="could not be asked"):
        ask_pip(ENTRY)
