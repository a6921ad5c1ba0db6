"""The encoders under their old import path, which users' problems import."""

from t2t_lite.text.text_encoder import (
    EOS_ID,
    PAD_ID,
    RESERVED_TOKENS,
    ByteTextEncoder,
    TextEncoder,
    TokenTextEncoder,
)
from t2t_lite.text.vocabularies import build, load

__all__ = [
    "EOS_ID",
    "PAD_ID",
    "RESERVED_TOKENS",
    "ByteTextEncoder",
    "TextEncoder",
    "TokenTextEncoder",
    "build",
    "load",
]
