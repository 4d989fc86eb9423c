"""Whether a drafter belongs to a target: sizes are checked, another embedding is warned of."""

import warnings
from pathlib import Path

import numpy as np
import pytest

from draftwalk.convert.factored import write_factored
from draftwalk.convert.types import MIXES
from draftwalk.draft.config import DrafterConfig
from draftwalk.draft.export import embedding_fingerprint
from draftwalk.draft.load import check_pairing, read_config
from draftwalk.draft.pairing import EMBEDDING, check_fingerprint, packaged_drafters
from draftwalk.errors import PairingError
from draftwalk.models import open_model
from draftwalk.quant.f32 import FORMATS as F32
from draftwalk.weights import RawTensor, pack_tensor
from support.models import FIXTURES, MadeCheckpoint, drafter_checkpoint, random_drafter, target

MOST_BYTES = 15_000_000


@pytest.mark.parametrize(
    ("vocabulary", "width", "depth", "message"),
    [
        (161, 48, 3, "knows 160 tokens, the target 161"),
        (128, 48, 3, "knows 160 tokens, the target 128"),
        (160, 64, 3, "48 wide for a target of 48, the target is 64 wide"),
        (160, 48, 2, "layer 2, the target's last is 1"),
    ],
)
def test_sizes_that_do_not_fit(vocabulary: int, width: int, depth: int, message: str) -> None:
    config = read_config(drafter_checkpoint(160, 48, (0, 2), selector=True))
    check_pairing(config, 160, 48, 3)
    with pytest.raises(PairingError, match=message):
        check_pairing(config, vocabulary, width, depth)


def test_a_target_of_another_width_than_it_expects() -> None:
    made = drafter_checkpoint(160, 48, (0, 2), selector=True)
    config = DrafterConfig.read({**made.config, "target_hidden_size": 64}, "x")
    for width in (48, 64):
        with pytest.raises(PairingError, match="48 wide for a target of 64"):
            check_pairing(config, 160, width, 3)


def test_building_checks_the_pair() -> None:
    model = target("llama-rope3")
    for made in (
        drafter_checkpoint(161, 48, (0,), selector=False),
        drafter_checkpoint(160, 32, (0,), selector=True),
        drafter_checkpoint(160, 48, (0, model.depth), selector=True),
    ):
        with pytest.raises(PairingError):
            random_drafter(made, model)


def with_embedding(raw: RawTensor) -> MadeCheckpoint:
    return MadeCheckpoint({}, {EMBEDDING: raw}, Path("some-target"))


def test_another_embedding_is_warned_of(tmp_path: Path) -> None:
    embedding = np.random.default_rng(0).standard_normal((160, 48)).astype(np.float32)
    own = pack_tensor(EMBEDDING, embedding, F32)
    altered = embedding.copy()
    altered[7, 7] += 1e-6
    other = pack_tensor(EMBEDDING, altered, F32)
    assert embedding_fingerprint(own) != embedding_fingerprint(other)
    made = drafter_checkpoint(160, 48, (0, 2), selector=True)
    factor = pack_tensor("", np.ones((6, 48), np.float32), F32)
    path = tmp_path / "drafter.gguf"
    factors = {"predecessor": factor, "successor": factor}
    write_factored(path, made, MIXES["F32"], factors, embedding_fingerprint(own))
    drafter = open_model(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_fingerprint(drafter, with_embedding(own))
        # Drafters without factors have nothing to compare.
        check_fingerprint(made, with_embedding(other))
        check_fingerprint(open_model(FIXTURES / "drafters" / "dflash2-plain"), with_embedding(own))
    with pytest.warns(UserWarning, match=r"drafter\.gguf was trained on another embedding"):
        check_fingerprint(drafter, with_embedding(other))


def test_a_fingerprint_tells_format_and_shape() -> None:
    values = np.arange(12, dtype=np.float32)
    prints = {
        embedding_fingerprint(pack_tensor(name, values.reshape(shape), F32))
        for name, shape in (("a", (3, 4)), ("b", (3, 4)), ("a", (4, 3)), ("a", (12, 1)))
    }
    assert len(prints) == 3, "and not the name"


def test_what_the_package_carries() -> None:
    paths = packaged_drafters()
    assert sum(path.stat().st_size for path in paths) <= MOST_BYTES
    for path in paths:
        config = read_config(open_model(path))
        assert config.selector is not None
        check_pairing(config, config.sizes.vocabulary, config.target_width, max(config.taps) + 1)
    assert paths
