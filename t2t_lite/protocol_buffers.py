"""Protocol buffers of other projects, read and written by a description of the parts needed.

So that neither TensorFlow (seconds to import) nor a module made for one version of protobuf is.
"""

from collections.abc import Iterable
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format


def message_class(schema: str, name: str) -> Any:
    """Returns the class of a message.

    Args:
        schema: a `FileDescriptorProto` in text format. A field of a message type whose parts do
            not matter may be called bytes; fields left out go to the end when written.
        name: of the message, with its package.
    """
    pool = descriptor_pool.DescriptorPool()
    pool.Add(text_format.Parse(schema, descriptor_pb2.FileDescriptorProto()))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def pack(ids: Iterable[int]) -> bytes:
    """Returns ids as they stand in an example, one varint after the other."""
    return b"".join(map(varint, ids))


def varint(number: int) -> bytes:
    """Returns an int64 in groups of 7 bits, the lowest first; all but the last have bit 8 set."""
    rest = number % 2**64  # negative ones in two's complement
    groups = bytearray()
    while rest >= 0x80:
        groups.append(rest & 0x7F | 0x80)
        rest >>= 7
    groups.append(rest)
    return bytes(groups)
