"""JSON that users write."""

from __future__ import annotations

import json


def parse(text: str) -> object:
    """What a text means.

    Raises:
        ValueError: it is no JSON, or more than can be read; one line that says why.
    """
    try:
        found: object = json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # what Python says is advice to programmers
        raise ValueError("it has a number with too many digits") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return found
