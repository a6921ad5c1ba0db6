"""Protocol buffers of other projects, read and written by a schema of the fields needed.

This avoids TensorFlow, which takes seconds to import, and modules generated for one version of
protobuf.
"""

import operator
import struct
from collections.abc import Iterable
from typing import Any, SupportsIndex

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

_FLOAT = struct.Struct("<f")


def message_class(schema: str, name: str) -> Any:
    """Returns the class of a message.

    Args:
        schema: a `FileDescriptorProto` in text format. A message field whose contents do not
            matter may be declared as bytes; fields not declared are written last.
        name: the message's name, with its package.
    """
    pool = descriptor_pool.DescriptorPool()
    pool.Add(text_format.Parse(schema, descriptor_pb2.FileDescriptorProto()))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def pack(ids: Iterable[int]) -> bytes:
    """Returns ids as they are stored in an example: one varint after another."""
    return b"".join(map(varint, ids))


def pack_floats(numbers: Iterable[float]) -> bytes:
    """Returns numbers as they are stored in an example: one float32 after another."""
    return b"".join(map(_FLOAT.pack, numbers))


def int64(value: SupportsIndex) -> int:
    """Returns an integer of any type.

    Raises:
        TypeError: it is not an integer.
        OverflowError: it takes more than 64 bits.
    """
    number = operator.index(value)
    if not -(2**63) <= number < 2**63:
        raise OverflowError(f"{number} takes more than 64 bits")
    return number


def varint(number: int) -> bytes:
    """Encodes an int64 in groups of 7 bits, lowest first; all but the last have bit 8 set."""
    rest = number % 2**64  # two's complement of negative numbers
    groups = bytearray()
    while rest >= 0x80:
        groups.append(rest & 0x7F | 0x80)
        rest >>= 7
    groups.append(rest)
    return bytes(groups)
