"""The schema of Chakra execution traces, as messages of the protobuf library.

Here `messages` builds the classes `GlobalMetadata` and `Node` from the published
schema, in a pool of their own, so that Chakra's own package may be imported beside.
Source: MLCommons Chakra, schema/protobuf/et_def.proto.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

PACKAGE = "ChakraProtoMsg"

NODE_TYPES = {
    "METADATA_NODE": 1,
    "MEM_LOAD_NODE": 2,
    "MEM_STORE_NODE": 3,
    "COMP_NODE": 4,
    "COMM_SEND_NODE": 5,
    "COMM_RECV_NODE": 6,
    "COMM_COLL_NODE": 7,
}

COLLECTIVES = {
    0: "all_reduce",
    1: "reduce",
    2: "all_gather",
    3: "gather",
    4: "scatter",
    5: "broadcast",
    6: "all_to_all",
    7: "reduce_scatter",
    8: "reduce_scatter",
    9: "barrier",
}
"""The verb of each CollectiveCommType; 7 and 8 differ in whether shares are equal."""

SCALARS = (
    *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
    *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
)
"""Types of an attribute's value: each as one value and as a list, in this order."""

FIELDS = {
    "GlobalMetadata": "string version = 1; repeated AttributeProto attr = 2",
    "Node": (
        "uint64 id = 1; string name = 2; NodeType type = 3; "
        "repeated uint64 ctrl_deps = 4; repeated uint64 data_deps = 5; "
        "uint64 start_time_micros = 6; uint64 duration_micros = 7; "
        "IOInfo inputs = 8; IOInfo outputs = 9; repeated AttributeProto attr = 10"
    ),
    "IOInfo": "string values = 1; string shapes = 2; string types = 3",
}


@cache
def messages() -> SimpleNamespace:
    """Return the message classes, and the error for bytes that are none.

    Raises ImportError with advice without the protobuf library.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        from google.protobuf.message import DecodeError
    except ImportError as error:
        raise ImportError(
            "Chakra traces need the protobuf library, which cannot be imported here "
            f"({error}): `pip install protobuf`, or the extra collectives-lab[chakra]",
            name="google.protobuf",
        ) from None
    file = descriptor_pb2.FileDescriptorProto(
        name="collectives_lab/et_def.proto", package=PACKAGE, syntax="proto3"
    )
    kinds = file.enum_type.add(name="NodeType")
    for name, value in {"INVALID_NODE": 0, **NODE_TYPES}.items():
        kinds.value.add(name=name, number=value)
    _add_attributes(file)
    for name, text in FIELDS.items():
        message = file.message_type.add(name=name)
        for line in text.split(";"):
            _add_field(message, line)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return SimpleNamespace(
        **{
            name: message_factory.GetMessageClass(
                pool.FindMessageTypeByName(f"{PACKAGE}.{name}")
            )
            for name in ("GlobalMetadata", "Node", "AttributeProto")
        },
        DecodeError=DecodeError,
    )


def _add_attributes(file: Any) -> None:
    """Add AttributeProto, whose value is one of all types, and the lists of them."""
    attribute = file.message_type.add(name="AttributeProto")
    _add_field(attribute, "string name = 1")
    _add_field(attribute, "string doc_string = 2")
    attribute.oneof_decl.add(name="value")
    number = 3
    for kind in SCALARS:
        message = f"{kind.capitalize()}List"
        _add_field(file.message_type.add(name=message), f"repeated {kind} values = 1")
        for line in (f"{kind} {kind}_val", f"{message} {kind}_list"):
            _add_field(attribute, f"{line} = {number}").oneof_index = 0
            number += 1


def _add_field(message: Any, line: str) -> Any:
    """Add a field from its line in the schema and return it."""
    left, _, number = line.partition("=")
    *repeated, kind, name = left.split()
    field = message.field.add(name=name, number=int(number))
    field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
    if kind in SCALARS:
        field.type = getattr(field, f"TYPE_{kind.upper()}")
    else:
        is_enum = kind == "NodeType"
        field.type = field.TYPE_ENUM if is_enum else field.TYPE_MESSAGE
        field.type_name = f".{PACKAGE}.{kind}"
    return field
