"""Lossless speculative decoding with DFlash and DFlash2 drafters.

    from pathlib import Path
    import draftwalk

    engine = draftwalk.load(Path("model.gguf"))
    prompt = engine.encode_chat([draftwalk.Message("user", "Why is the sky blue?")])
    for step in engine.stream(prompt):
        print(step.text, end="")

Names are imported on first use, so that the command line answers `--help` without loading torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from draftwalk.engine import Engine, Placement, load
    from draftwalk.errors import UserError
    from draftwalk.prompt.messages import Message
    from draftwalk.result import Result
    from draftwalk.settings import Limits, Sampling, Window
    from draftwalk.step import Step

__all__ = [
    "Engine",
    "Limits",
    "Message",
    "Placement",
    "Result",
    "Sampling",
    "Step",
    "UserError",
    "Window",
    "load",
]

_HOMES = {
    "Engine": "engine",
    "Limits": "settings",
    "Message": "prompt.messages",
    "Placement": "engine",
    "Result": "result",
    "Sampling": "settings",
    "Step": "step",
    "UserError": "errors",
    "Window": "settings",
    "load": "engine",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return vars(import_module(f"{__name__}.{_HOMES[name]}"))[name]
