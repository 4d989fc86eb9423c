"""How the user has set up the hub.

The huggingface-hub library says; it knows HF_HOME, HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE, logins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from draftwalk.errors import UserError, in_words


@dataclass(frozen=True, slots=True)
class HubSettings:
    """Where the hub is, and where its files are kept.

    Attributes:
        endpoint: the hub's address.
        cache: the folder that all programs share.
        token: of a login, if there is one.
        offline: never touch the network.
    """

    endpoint: str
    cache: Path
    token: str | None = field(default=None, repr=False)
    offline: bool = False


def user_settings(offline: bool) -> HubSettings:
    """The user's settings.

    Args:
        offline: whether this package was told to stay offline, whatever the library was told.
    """
    from huggingface_hub import constants, get_token

    offline = offline or constants.HF_HUB_OFFLINE
    token = None
    if not offline and not constants.HF_HUB_DISABLE_IMPLICIT_TOKEN:
        try:
            token = get_token()
        except Exception as error:  # it may ask a server for one, and has errors of many kinds
            raise UserError(
                f"the hub's token cannot be had: {in_words(error)}", "set HF_TOKEN, or log in again"
            ) from error
    return HubSettings(constants.ENDPOINT, Path(constants.HF_HUB_CACHE), token, offline)
