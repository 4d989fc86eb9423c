"""From what a user says to token ids: tokenizers and chat templates.

The files that both are read from are untrusted: metadata is checked, templates run in a sandbox
with limits. This room knows no model and no checkpoint, only mappings, texts and ids.
"""
