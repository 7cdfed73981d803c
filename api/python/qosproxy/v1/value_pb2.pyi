from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ColumnKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COLUMN_KIND_UNSPECIFIED: _ClassVar[ColumnKind]
    COLUMN_KIND_PARTITION_KEY: _ClassVar[ColumnKind]
    COLUMN_KIND_CLUSTERING: _ClassVar[ColumnKind]
    COLUMN_KIND_STATIC: _ClassVar[ColumnKind]
    COLUMN_KIND_REGULAR: _ClassVar[ColumnKind]

class TypeKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TYPE_KIND_UNSPECIFIED: _ClassVar[TypeKind]
    TYPE_KIND_ASCII: _ClassVar[TypeKind]
    TYPE_KIND_BIGINT: _ClassVar[TypeKind]
    TYPE_KIND_BLOB: _ClassVar[TypeKind]
    TYPE_KIND_BOOLEAN: _ClassVar[TypeKind]
    TYPE_KIND_COUNTER: _ClassVar[TypeKind]
    TYPE_KIND_DATE: _ClassVar[TypeKind]
    TYPE_KIND_DECIMAL: _ClassVar[TypeKind]
    TYPE_KIND_DOUBLE: _ClassVar[TypeKind]
    TYPE_KIND_DURATION: _ClassVar[TypeKind]
    TYPE_KIND_EMPTY: _ClassVar[TypeKind]
    TYPE_KIND_FLOAT: _ClassVar[TypeKind]
    TYPE_KIND_INET: _ClassVar[TypeKind]
    TYPE_KIND_INT: _ClassVar[TypeKind]
    TYPE_KIND_SMALLINT: _ClassVar[TypeKind]
    TYPE_KIND_TEXT: _ClassVar[TypeKind]
    TYPE_KIND_TIME: _ClassVar[TypeKind]
    TYPE_KIND_TIMESTAMP: _ClassVar[TypeKind]
    TYPE_KIND_TIMEUUID: _ClassVar[TypeKind]
    TYPE_KIND_TINYINT: _ClassVar[TypeKind]
    TYPE_KIND_UUID: _ClassVar[TypeKind]
    TYPE_KIND_VARINT: _ClassVar[TypeKind]
    TYPE_KIND_LIST: _ClassVar[TypeKind]
    TYPE_KIND_SET: _ClassVar[TypeKind]
    TYPE_KIND_MAP: _ClassVar[TypeKind]
    TYPE_KIND_TUPLE: _ClassVar[TypeKind]
    TYPE_KIND_UDT: _ClassVar[TypeKind]
    TYPE_KIND_VECTOR: _ClassVar[TypeKind]
    TYPE_KIND_CUSTOM: _ClassVar[TypeKind]
COLUMN_KIND_UNSPECIFIED: ColumnKind
COLUMN_KIND_PARTITION_KEY: ColumnKind
COLUMN_KIND_CLUSTERING: ColumnKind
COLUMN_KIND_STATIC: ColumnKind
COLUMN_KIND_REGULAR: ColumnKind
TYPE_KIND_UNSPECIFIED: TypeKind
TYPE_KIND_ASCII: TypeKind
TYPE_KIND_BIGINT: TypeKind
TYPE_KIND_BLOB: TypeKind
TYPE_KIND_BOOLEAN: TypeKind
TYPE_KIND_COUNTER: TypeKind
TYPE_KIND_DATE: TypeKind
TYPE_KIND_DECIMAL: TypeKind
TYPE_KIND_DOUBLE: TypeKind
TYPE_KIND_DURATION: TypeKind
TYPE_KIND_EMPTY: TypeKind
TYPE_KIND_FLOAT: TypeKind
TYPE_KIND_INET: TypeKind
TYPE_KIND_INT: TypeKind
TYPE_KIND_SMALLINT: TypeKind
TYPE_KIND_TEXT: TypeKind
TYPE_KIND_TIME: TypeKind
TYPE_KIND_TIMESTAMP: TypeKind
TYPE_KIND_TIMEUUID: TypeKind
TYPE_KIND_TINYINT: TypeKind
TYPE_KIND_UUID: TypeKind
TYPE_KIND_VARINT: TypeKind
TYPE_KIND_LIST: TypeKind
TYPE_KIND_SET: TypeKind
TYPE_KIND_MAP: TypeKind
TYPE_KIND_TUPLE: TypeKind
TYPE_KIND_UDT: TypeKind
TYPE_KIND_VECTOR: TypeKind
TYPE_KIND_CUSTOM: TypeKind

class Value(_message.Message):
    __slots__ = ("null", "text", "int", "bigint", "double", "float", "boolean", "blob", "uuid", "timestamp", "list", "map", "cql", "udt", "set", "date", "time", "inet", "varint", "decimal", "duration", "tuple", "float_vector", "vector", "custom", "empty")
    NULL_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    INT_FIELD_NUMBER: _ClassVar[int]
    BIGINT_FIELD_NUMBER: _ClassVar[int]
    DOUBLE_FIELD_NUMBER: _ClassVar[int]
    FLOAT_FIELD_NUMBER: _ClassVar[int]
    BOOLEAN_FIELD_NUMBER: _ClassVar[int]
    BLOB_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    MAP_FIELD_NUMBER: _ClassVar[int]
    CQL_FIELD_NUMBER: _ClassVar[int]
    UDT_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    DATE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    INET_FIELD_NUMBER: _ClassVar[int]
    VARINT_FIELD_NUMBER: _ClassVar[int]
    DECIMAL_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    TUPLE_FIELD_NUMBER: _ClassVar[int]
    FLOAT_VECTOR_FIELD_NUMBER: _ClassVar[int]
    VECTOR_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_FIELD_NUMBER: _ClassVar[int]
    EMPTY_FIELD_NUMBER: _ClassVar[int]
    null: _struct_pb2.NullValue
    text: str
    int: int
    bigint: int
    double: float
    float: float
    boolean: bool
    blob: bytes
    uuid: bytes
    timestamp: int
    list: ListValue
    map: MapValue
    cql: bytes
    udt: UdtValue
    set: ListValue
    date: int
    time: int
    inet: bytes
    varint: bytes
    decimal: DecimalValue
    duration: DurationValue
    tuple: ListValue
    float_vector: FloatVector
    vector: ListValue
    custom: bytes
    empty: bool
    def __init__(self, null: _Optional[_Union[_struct_pb2.NullValue, str]] = ..., text: _Optional[str] = ..., int: _Optional[int] = ..., bigint: _Optional[int] = ..., double: _Optional[float] = ..., float: _Optional[float] = ..., boolean: bool = ..., blob: _Optional[bytes] = ..., uuid: _Optional[bytes] = ..., timestamp: _Optional[int] = ..., list: _Optional[_Union[ListValue, _Mapping]] = ..., map: _Optional[_Union[MapValue, _Mapping]] = ..., cql: _Optional[bytes] = ..., udt: _Optional[_Union[UdtValue, _Mapping]] = ..., set: _Optional[_Union[ListValue, _Mapping]] = ..., date: _Optional[int] = ..., time: _Optional[int] = ..., inet: _Optional[bytes] = ..., varint: _Optional[bytes] = ..., decimal: _Optional[_Union[DecimalValue, _Mapping]] = ..., duration: _Optional[_Union[DurationValue, _Mapping]] = ..., tuple: _Optional[_Union[ListValue, _Mapping]] = ..., float_vector: _Optional[_Union[FloatVector, _Mapping]] = ..., vector: _Optional[_Union[ListValue, _Mapping]] = ..., custom: _Optional[bytes] = ..., empty: bool = ...) -> None: ...

class ListValue(_message.Message):
    __slots__ = ("elements",)
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    elements: _containers.RepeatedCompositeFieldContainer[Value]
    def __init__(self, elements: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...) -> None: ...

class MapValue(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[MapEntry]
    def __init__(self, entries: _Optional[_Iterable[_Union[MapEntry, _Mapping]]] = ...) -> None: ...

class MapEntry(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: Value
    value: Value
    def __init__(self, key: _Optional[_Union[Value, _Mapping]] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class UdtValue(_message.Message):
    __slots__ = ("fields",)
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    fields: _containers.RepeatedCompositeFieldContainer[Value]
    def __init__(self, fields: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...) -> None: ...

class FloatVector(_message.Message):
    __slots__ = ("elements",)
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    elements: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, elements: _Optional[_Iterable[float]] = ...) -> None: ...

class DecimalValue(_message.Message):
    __slots__ = ("unscaled", "scale")
    UNSCALED_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    unscaled: bytes
    scale: int
    def __init__(self, unscaled: _Optional[bytes] = ..., scale: _Optional[int] = ...) -> None: ...

class DurationValue(_message.Message):
    __slots__ = ("months", "days", "nanoseconds")
    MONTHS_FIELD_NUMBER: _ClassVar[int]
    DAYS_FIELD_NUMBER: _ClassVar[int]
    NANOSECONDS_FIELD_NUMBER: _ClassVar[int]
    months: int
    days: int
    nanoseconds: int
    def __init__(self, months: _Optional[int] = ..., days: _Optional[int] = ..., nanoseconds: _Optional[int] = ...) -> None: ...

class Column(_message.Message):
    __slots__ = ("name", "type", "kind")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: Type
    kind: ColumnKind
    def __init__(self, name: _Optional[str] = ..., type: _Optional[_Union[Type, _Mapping]] = ..., kind: _Optional[_Union[ColumnKind, str]] = ...) -> None: ...

class Type(_message.Message):
    __slots__ = ("name", "kind", "elements", "field_names", "dimension")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    FIELD_NAMES_FIELD_NUMBER: _ClassVar[int]
    DIMENSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: TypeKind
    elements: _containers.RepeatedCompositeFieldContainer[Type]
    field_names: _containers.RepeatedScalarFieldContainer[str]
    dimension: int
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[TypeKind, str]] = ..., elements: _Optional[_Iterable[_Union[Type, _Mapping]]] = ..., field_names: _Optional[_Iterable[str]] = ..., dimension: _Optional[int] = ...) -> None: ...
