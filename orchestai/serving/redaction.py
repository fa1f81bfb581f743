"""What becomes of texts before they are kept, as `serving.log` and `serving.redact` say."""

from __future__ import annotations

import logging
from collections.abc import Callable

from orchestai.config import ServingConfig
from orchestai.errors import UserError
from orchestai.names import find_object

logger = logging.getLogger(__name__)


def text_change(config: ServingConfig) -> Callable[[str], str] | None:
    """What becomes of a text before it is kept; None where it is kept as it is.

    Of a text at which the user's function fails, nothing is kept: the answer it belongs to was paid for.

    Raises:
        UserError: there is no such function.
    """
    if config.log != "full":
        return _nothing
    if config.redact is None:
        return None
    try:
        found = find_object(config.redact)
    except (ImportError, AttributeError) as error:
        raise UserError(f"serving.redact={config.redact}: {error}; write MODULE:FUNCTION") from None
    if not callable(found):
        raise UserError(
            f"serving.redact={config.redact}: {type(found).__name__}, not a function; write MODULE:FUNCTION"
        )

    def redact(text: str) -> str:
        try:
            return str(found(text))
        except Exception as error:
            logger.error("serving.redact=%s failed (%s); a text is not kept", config.redact, type(error).__name__)
            return ""

    return redact


def _nothing(text: str) -> str:
    """Keep none."""
    return ""
