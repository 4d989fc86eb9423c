"""Models from the hub on the command line, from a stub on this host."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from draftwalk.fetch import store
from draftwalk.fetch.hub import HubSettings, settings
from support.command_line import EXACT, Outcome, call
from support.hub_server import StubHub, StubModel, serving_hub

TEXT = ("-n", "6", "-q", *EXACT, "hi")


def content(path: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in path.iterdir() if one.is_file()}


def card(text: str) -> bytes:
    return f"---\n{text}\n---\n".encode()


@pytest.fixture
def hub(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StubHub]:
    target = {"t.Q8_0.gguf": (files / "t.gguf").read_bytes()}
    drafter = content(files / "d2")
    stub = StubHub(
        {
            "o/target": StubModel(target),
            "o/paired": StubModel({**target, "README.md": card("dflash: o/drafter")}),
            "o/drafter": StubModel({**drafter, "README.md": card("base_model: o/target")}),
            "o/stranger": StubModel({**drafter, "README.md": card("base_model: o/other")}),
            "o/silent": StubModel(drafter),
            "o/other": StubModel({"config.json": b"{}"}),
        }
    )
    with serving_hub(stub) as endpoint:
        monkeypatch.setattr(constants, "ENDPOINT", endpoint)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", True)
        yield stub


@pytest.fixture(scope="module")
def plain(files: Path) -> str:
    outcome = call("run", "-m", files / "t.gguf", "-md", "none", *TEXT)
    assert outcome.code == 0
    return outcome.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("-m", "o/target", "-md", "o/drafter"),
        ("-hf", "o/target:Q8_0", "-hfd", "o/drafter"),
        ("-hfr", "o/target:t.Q8_0.gguf", "-hfrd", "o/drafter"),
        ("--hf-repo", "o/target", "--hf-repo-draft", "o/drafter"),
        ("--hf-repo=o/target", "--spec-draft-hf=o/drafter"),
        ("-hf", "o/target", "-md", "none"),
    ],
)
def test_models_of_the_hub_answer(hub: StubHub, plain: str, arguments: tuple[str, ...]) -> None:
    outcome = call("run", *arguments, *TEXT)
    assert (outcome.code, outcome.out) == (0, plain), outcome.err
    assert "warning" not in outcome.err
    drafted = "model.safetensors" in hub.files_asked()
    assert drafted == ("none" not in arguments)


def test_target_and_drafter_mistaken_for_each_other(files: Path) -> None:
    for drafter in ("d1", "d2"):
        outcome = call("run", "-m", files / drafter, "hi")
        assert outcome.code == 1
        assert outcome.err.startswith(f"error: {drafter} is a drafter, which cannot answer by its")
    outcome = call("run", "-m", files / "t.gguf", "-md", files / "t.gguf", "hi")
    assert outcome.code == 1
    assert outcome.err.startswith("error: t.gguf is no DFlash drafter")


def used(outcome: Outcome) -> tuple[str, str]:
    assert outcome.code == 0, outcome.err
    told = outcome.json
    return str(told["model"]), str(told["model_draft"])


def test_a_drafters_card_brings_its_target(hub: StubHub, plain: str) -> None:
    outcome = call("run", "-hfd", "o/drafter", "--json", *TEXT)
    target, drafter = used(outcome)
    assert "models--o--target" in target
    assert "models--o--drafter" in drafter
    assert "target: o/target, which the card of o/drafter names" in outcome.err


def test_a_targets_card_brings_its_drafter(hub: StubHub) -> None:
    outcome = call("run", "-hf", "o/paired", "--json", *TEXT)
    assert "models--o--drafter" in used(outcome)[1]
    assert "drafter: o/drafter, which the card of o/paired names" in outcome.err
    outcome = call("run", "-hf", "o/paired", "-md", "none", "--json", *TEXT)
    assert used(outcome)[1] == "None"


def test_a_drafter_of_another_target_is_said(hub: StubHub, plain: str) -> None:
    outcome = call("run", "-hf", "o/target", "-hfd", "o/stranger", *TEXT)
    assert (outcome.code, outcome.out) == (0, plain)
    assert "warning: the card of o/stranger names o/other, not o/target" in outcome.err


def test_a_drafter_that_does_not_name_its_target_is_told(hub: StubHub) -> None:
    outcome = call("run", "-hfd", "o/silent", *TEXT)
    assert outcome.code == 1
    assert "give the target with -hf or -m" in outcome.err


def test_a_second_call_needs_no_network(hub: StubHub, plain: str) -> None:
    arguments = ("run", "-hf", "o/target", "-hfd", "o/drafter")
    assert call(*arguments, *TEXT).code == 0
    hub.asked.clear()
    outcome = call(*arguments, "--offline", *TEXT)
    assert (outcome.code, outcome.out) == (0, plain)
    assert hub.asked == []
    outcome = call("run", "-hf", "o/paired", "--offline", *TEXT)
    assert outcome.code == 1
    assert outcome.err.startswith("error: o/paired is to be used offline")
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [("-m", "x", "-hf", "o/n"), ("-md", "x", "-hfd", "o/n")])
def test_two_words_for_one_model_are_a_usage_error(
    hub: StubHub, arguments: tuple[str, ...]
) -> None:
    assert call("run", *arguments, *TEXT).code == 2
    assert hub.asked == []


def test_info_knows_models_of_the_hub(hub: StubHub) -> None:
    outcome = call("info", "o/target", "o/drafter", "--json")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["pairing"]["fits"] is True


def test_the_user_has_set_up_the_hub_as_its_library_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://index.invalid")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", "/somewhere/hub")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", False)
    monkeypatch.setenv("HF_TOKEN", "hf_x")
    where = Path("/somewhere/hub")
    assert settings.user_settings(False) == HubSettings("http://index.invalid", where, "hf_x")
    offline = HubSettings("http://index.invalid", where, None, True)
    assert settings.user_settings(True) == offline
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert settings.user_settings(False) == offline
    assert store.Store().hub_settings is settings.user_settings


def test_the_environment_of_the_hub_is_the_users(hub: StubHub, tmp_path: Path, files: Path) -> None:
    hub.models["o/private"] = StubModel({"t.gguf": (files / "t.gguf").read_bytes()}, token="hf_x")
    command = [
        sys.executable,
        "-m",
        "draftwalk.cli",
        "run",
        "-hf",
        "o/private",
        "-md",
        "none",
        *TEXT,
    ]
    set_up = {"HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path / "home"), "HF_TOKEN": "hf_x"}
    clean = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}

    def run(**more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env={**clean, **set_up, **more},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    absent = run(HF_HUB_OFFLINE="1")
    assert absent.returncode == 1
    assert absent.stderr.startswith("error: o/private is to be used offline")
    stranger = run(HF_TOKEN="hf_y")
    assert stranger.returncode == 1
    assert "does not accept the token" in stranger.stderr
    first = run()
    assert first.returncode == 0, first.stderr
    assert first.stderr == "downloading 0.2 MB\n"
    assert (tmp_path / "home" / "hub" / "models--o--private" / "refs" / "main").is_file()
    hub.asked.clear()
    again = run(HF_HUB_OFFLINE="1", HF_TOKEN="")
    assert (again.returncode, again.stdout) == (0, first.stdout)
    assert hub.asked == []
