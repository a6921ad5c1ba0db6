"""Protocol buffers of other projects, read and written by a description of the parts needed.

So that neither TensorFlow (seconds to import) nor a module made for one version of protobuf is.
"""

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
