"""`python -m draftwalk.cli`, the same as the `draftwalk` script."""

from __future__ import annotations

from draftwalk.cli import main

main()
