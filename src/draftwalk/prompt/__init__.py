"""From what a user says to token ids: tokenizers and chat templates.

The files that both are read from are untrusted: metadata is checked, templates run in a sandbox
with limits. This room knows no model and no checkpoint, only mappings, texts and ids.
"""

from draftwalk.prompt.chat import ChatTemplate
from draftwalk.prompt.from_folder import tokenizer_from_folder, tokenizer_from_json
from draftwalk.prompt.from_gguf import tokenizer_from_gguf
from draftwalk.prompt.messages import Message
from draftwalk.prompt.tokenizer import Tokenizer

__all__ = [
    "ChatTemplate",
    "Message",
    "Tokenizer",
    "tokenizer_from_folder",
    "tokenizer_from_gguf",
    "tokenizer_from_json",
]
