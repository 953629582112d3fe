"""What must not be seen, taken out of texts, messages and addresses."""

from holdfast.core.address import mask_addresses
from holdfast.core.redact import MASK, redact, redact_message, redact_text

__all__ = [
    "MASK",
    "mask_addresses",
    "redact",
    "redact_message",
    "redact_text",
]
