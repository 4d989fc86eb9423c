"""Targets and drafters that belong together, as cards say."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from draftwalk.errors import UserError
from draftwalk.fetch import Hub, HubSettings, drafter_named_by, is_trained_for, target_named_by
from draftwalk.fetch.hub.card import Card, read_card
from draftwalk.fetch.pair import Found
from support.hub_server import StubHub, StubModel, serving_hub

DRAFTER_CONFIGS = [b'{"dflash_config": {}}', b'{"speculators_model_type": "dflash"}']


def card(text: str) -> bytes:
    return f"---\n{text}\n---\n# A model\n".encode()


def models(config: bytes) -> dict[str, StubModel]:
    target = {"config.json": b"{}", "README.md": card("base_model: o/pretrained")}
    drafter = {"config.json": config, "README.md": card("base_model: [o/target]")}
    return {"o/target": StubModel(target), "o/drafter": StubModel(drafter)}


@contextmanager
def hub_of(folder: Path, stub: dict[str, StubModel]) -> Iterator[tuple[Hub, StubHub]]:
    hub = StubHub(stub)
    with serving_hub(hub) as endpoint:
        yield Hub(HubSettings(endpoint, folder)), hub


def found(repo: str, *bases: str) -> Found:
    return Found(Path("x"), repo, Card(bases))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (card("base_model: o/n"), Card(("o/n",))),
        (card("base_model:\n- o/n\n- o/m\n- o/n"), Card(("o/n", "o/m"))),
        (card("dflash: o/d:Q8_0"), Card((), ("o/d:Q8_0",))),
        (card("drafter: [o/d, o/e]\ndflash: o/f"), Card((), ("o/f", "o/d", "o/e"))),
        (card("base_model: ../../x\ndflash: 7"), Card()),
        (card("base_model: {a: b}"), Card()),
        (card("base_model: [[o/n]]"), Card()),
        (card("- a\n- b"), Card()),
        (card("a: ["), Card()),
        (card("base_model: !!python/object:os.system o/n"), Card()),
        (card("base_model: " + "[" * 5000), Card()),
        (b"# no block", Card()),
        (b"", Card()),
        (b"---\nbase_model: o/n\n---\n\xff\xfe", Card(("o/n",))),
        (b"\xef\xbb\xbf---\r\nbase_model:\r\n  - o/n\r\nx: 1\r\n---\r\n", Card(("o/n",))),
        (b"base_model: o/n\n---\n", Card()),
        (b"---\nbase_model: o/n\n", Card()),
        (card("license: mit\nx:\n  base_model: o/x\nbase_model: 'o/n'  # y\nz: 1"), Card(("o/n",))),
        (card("model-index: [" + "[" * 5000 + "\nbase_model: o/n"), Card(("o/n",))),
        (card("x:\n" + "  y: {a: 1}\n" * 50_000 + "base_model: o/n"), Card(("o/n",))),
        (card("base_model:\n" + "- o/n\n" * 5000), Card()),
        (card("base_model: o/n") + b"x" * (9 << 20), Card(("o/n",))),
    ],
)
def test_cards_are_read_or_say_nothing(tmp_path: Path, text: bytes, expected: Card) -> None:
    path = tmp_path / "README.md"
    path.write_bytes(text)
    assert read_card(path) == expected
    assert read_card(tmp_path / "none.md") == Card()


@pytest.mark.parametrize("config", DRAFTER_CONFIGS)
def test_a_drafters_card_names_its_target(tmp_path: Path, config: bytes) -> None:
    with hub_of(tmp_path, models(config)) as (hub, _):
        assert target_named_by(found("o/drafter", "o/target"), hub) == "o/target"


@pytest.mark.parametrize("config", DRAFTER_CONFIGS)
def test_a_conversions_card_leads_there_through_the_drafters(tmp_path: Path, config: bytes) -> None:
    with hub_of(tmp_path, models(config)) as (hub, stub):
        conversion = found("o/drafter-GGUF", "o/drafter")
        assert target_named_by(conversion, hub) == "o/target"
        assert is_trained_for(conversion, found("o/target"), hub)
        assert is_trained_for(conversion, found("o/target-GGUF", "o/target"), hub)
        assert not is_trained_for(conversion, found("o/other", "o/elsewhere"), hub)
    assert set(stub.files_asked()) <= {"README.md", "config.json"}


def test_a_direct_word_asks_nobody(tmp_path: Path) -> None:
    hub = Hub(HubSettings("http://index.invalid", tmp_path))
    assert is_trained_for(found("o/d", "o/t"), found("o/t"), hub)
    assert is_trained_for(found("o/d", "o/t"), found("o/quantised", "o/t"), hub)
    assert is_trained_for(found("o/d"), found("o/t"), hub)


def test_cards_that_cannot_be_had_say_nothing_against(tmp_path: Path) -> None:
    with hub_of(tmp_path, {}) as (hub, _):
        assert is_trained_for(found("o/d", "o/hidden"), found("o/t"), hub)
        with pytest.raises(UserError, match="no model o/hidden"):
            target_named_by(found("o/d", "o/hidden"), hub)


def test_cards_that_name_each_other_end(tmp_path: Path) -> None:
    ring = {
        name: StubModel({"config.json": DRAFTER_CONFIGS[0], "README.md": card(f"base_model: {to}")})
        for name, to in (("o/a", "o/b"), ("o/b", "o/a"))
    }
    with hub_of(tmp_path, ring) as (hub, _):
        assert target_named_by(found("o/d", "o/a"), hub) in ring


@pytest.mark.parametrize(("bases", "message"), [((), "does not say"), (("o/a", "o/b"), "names 2")])
def test_no_single_target_is_told(tmp_path: Path, bases: tuple[str, ...], message: str) -> None:
    plain = {name: StubModel({"config.json": b"{}"}) for name in ("o/a", "o/b")}
    with (
        hub_of(tmp_path, plain) as (hub, _),
        pytest.raises(UserError, match=rf"{message}.*-hf or -m"),
    ):
        target_named_by(found("o/d", *bases), hub)


def test_a_look_does_not_make_a_commit_the_newest(tmp_path: Path) -> None:
    with hub_of(tmp_path, models(DRAFTER_CONFIGS[0])) as (hub, _):
        assert hub.look("o/drafter").is_drafter
        assert not hub.look("o/target").is_drafter
    assert not (tmp_path / "models--o--drafter" / "refs").exists()


def test_a_target_names_its_drafter() -> None:
    assert drafter_named_by(Found(Path("x"))) is None
    assert drafter_named_by(Found(Path("x"), "o/t", Card((), ("o/d:Q8_0", "o/e")))) == "o/d:Q8_0"
