"""Values of CQL types as Python's own.

    ascii, text             str
    tinyint … bigint, varint, counter    int
    decimal                 decimal.Decimal, with its scale
    float                   Float, a float whose key is a CQL float
    double                  float
    boolean                 bool
    blob, a custom type     bytes
    uuid, timeuuid          uuid.UUID
    inet                    ipaddress.IPv4Address, IPv6Address
    timestamp               datetime.datetime in UTC; Timestamp beyond its years
    date                    datetime.date; Date beyond its years
    time                    Time, which has nanoseconds
    duration                Duration
    list, set, map          list, frozenset, dict
    tuple                   tuple
    a user-defined type     Udt, a dict
    vector                  FloatVector of floats, Vector of others
    null                    None
    zero bytes of an int    EMPTY

Elements of a set and keys of a map are hashable: a list in there is a FrozenList, a map a
FrozenMap, a user-defined type a FrozenUdt. As in any Python set, 0.0 and -0.0 are one element.

What a row returns can be a key. A key of a list, set or map may be given as any list, set or dict.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import ipaddress
import uuid
from typing import Any

from google.protobuf import struct_pb2

from .v1 import value_pb2 as pb

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MILLISECOND = datetime.timedelta(milliseconds=1)
_FIRST_DAY = datetime.date(1970, 1, 1).toordinal()
_INT64 = range(-(1 << 63), 1 << 63)


class Float(float):
    """A CQL float. Its value is that of the 32 bits."""

    __slots__ = ()


class Vector(tuple):
    """A CQL vector of anything but floats."""

    __slots__ = ()


class FloatVector(Vector):
    """A CQL vector of floats."""

    __slots__ = ()


class FrozenList(tuple):
    """A CQL list inside a set, or in the key of a map."""

    __slots__ = ()


class FrozenMap(tuple):
    """A CQL map inside a set, or in the key of a map: its pairs of key and value."""

    __slots__ = ()


class Udt(dict):
    """A value of a user-defined type: its fields by name, in the order of the type.

    As a key its fields must be in that order, too; those at the end may be left out.
    """

    __slots__ = ()


class FrozenUdt(tuple):
    """A user-defined type inside a set, or in the key of a map: its pairs of name and value."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True, order=True)
class Timestamp:
    """A CQL timestamp in milliseconds since 1970 UTC, of any year."""

    milliseconds: int


@dataclasses.dataclass(frozen=True, order=True)
class Date:
    """A CQL date in days since 1970-01-01, of any year."""

    days: int


@dataclasses.dataclass(frozen=True, order=True)
class Time:
    """A CQL time of day in nanoseconds since midnight."""

    nanoseconds: int

    def time(self) -> datetime.time:
        """The time of day in whole microseconds; what is below is cut off."""
        return (_EPOCH + datetime.timedelta(microseconds=self.nanoseconds // 1000)).time()


@dataclasses.dataclass(frozen=True)
class Duration:
    """A CQL duration: a span in three units that do not convert into each other."""

    months: int = 0
    days: int = 0
    nanoseconds: int = 0


@dataclasses.dataclass(frozen=True)
class Cql:
    """A component of a key of any type as Cassandra serializes it."""

    cell: bytes


class Empty:
    """The type of EMPTY."""

    def __repr__(self) -> str:
        return "EMPTY"


EMPTY = Empty()
"""The value of zero bytes that Cassandra allows for types in which it has no other meaning, such
as int. It is not null."""


def _signed(number: int) -> bytes:
    """The two's complement in as few bytes as hold it with its sign."""
    bits = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)


def _decimal(value: pb.DecimalValue) -> decimal.Decimal:
    unscaled = decimal.Decimal(int.from_bytes(value.unscaled, "big", signed=True))
    sign, digits, _ = unscaled.as_tuple()
    return decimal.Decimal((sign, digits, -value.scale))


def _decimal_value(value: decimal.Decimal) -> pb.DecimalValue:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{value} is not a number that a CQL decimal can be")
    unscaled = int(decimal.Decimal((sign, digits, 0)))
    return pb.DecimalValue(unscaled=_signed(unscaled), scale=-exponent)


def _timestamp(milliseconds: int) -> datetime.datetime | Timestamp:
    try:
        return _EPOCH + datetime.timedelta(milliseconds=milliseconds)
    except OverflowError:
        return Timestamp(milliseconds)


def _date(days: int) -> datetime.date | Date:
    try:
        return datetime.date.fromordinal(_FIRST_DAY + days)
    except (ValueError, OverflowError):
        return Date(days)


_NO_TYPE = pb.Type()


def _element(t: pb.Type, i: int) -> pb.Type:
    return t.elements[i] if i < len(t.elements) else _NO_TYPE


def _elements(t: pb.Type, values: pb.ListValue, frozen: bool) -> list[Any]:
    of = _element(t, 0)
    return [decode(of, v, frozen) for v in values.elements]


def _map(t: pb.Type, value: pb.MapValue, frozen: bool) -> dict[Any, Any] | FrozenMap:
    k, v = _element(t, 0), _element(t, 1)
    pairs = [(decode(k, e.key, True), decode(v, e.value, frozen)) for e in value.entries]
    return FrozenMap(pairs) if frozen else dict(pairs)


def _udt(t: pb.Type, value: pb.UdtValue, frozen: bool) -> Udt | FrozenUdt:
    # A value that is older than its last fields has not got them.
    fields = [decode(_element(t, i), v, frozen) for i, v in enumerate(value.fields)]
    fields += [None] * (len(t.field_names) - len(fields))
    pairs = zip(t.field_names, fields)
    return FrozenUdt(pairs) if frozen else Udt(pairs)


def decode(t: pb.Type, value: pb.Value, frozen: bool = False) -> Any:
    """The value of a cell of type t; frozen makes it hashable."""
    kind = value.WhichOneof("kind")
    match kind:
        case "null" | None:
            return None
        case "text" | "int" | "bigint" | "double" | "boolean" | "blob" | "custom":
            return getattr(value, kind)
        case "float":
            return Float(value.float)
        case "cql":
            return Cql(value.cql)
        case "uuid":
            return uuid.UUID(bytes=value.uuid)
        case "inet":
            return ipaddress.ip_address(value.inet)
        case "varint":
            return int.from_bytes(value.varint, "big", signed=True)
        case "decimal":
            return _decimal(value.decimal)
        case "timestamp":
            return _timestamp(value.timestamp)
        case "date":
            return _date(value.date)
        case "time":
            return Time(value.time)
        case "duration":
            d = value.duration
            return Duration(d.months, d.days, d.nanoseconds)
        case "empty":
            return EMPTY
        case "list":
            elements = _elements(t, value.list, frozen)
            return FrozenList(elements) if frozen else elements
        case "set":
            return frozenset(_elements(t, value.set, True))
        case "map":
            return _map(t, value.map, frozen)
        case "tuple":
            return tuple(decode(_element(t, i), v, frozen) for i, v in enumerate(value.tuple.elements))
        case "udt":
            return _udt(t, value.udt, frozen)
        case "float_vector":
            return FloatVector(value.float_vector.elements)
        case "vector":
            return Vector(_elements(t, value.vector, frozen))
    raise ValueError(f"a {t.name} is of a kind that this package does not know: {kind}")


def _list_value(values: Any) -> pb.ListValue:
    return pb.ListValue(elements=[encode(v) for v in values])


def _map_value(pairs: Any) -> pb.MapValue:
    return pb.MapValue(entries=[pb.MapEntry(key=encode(k), value=encode(v)) for k, v in pairs])


def _timestamp_value(value: datetime.datetime) -> pb.Value:
    if value.tzinfo is None:
        raise ValueError(f"{value} has no time zone, so it is no moment; set tzinfo")
    return pb.Value(timestamp=(value - _EPOCH) // _MILLISECOND)


def _time_value(value: datetime.time) -> pb.Value:
    if value.tzinfo is not None:
        raise ValueError(f"{value} has a time zone, which a CQL time has not")
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return pb.Value(time=seconds * 1_000_000_000 + value.microsecond * 1000)


def _int_value(value: int) -> pb.Value:
    if value in _INT64:
        return pb.Value(bigint=value)
    return pb.Value(varint=_signed(value))


# In order: a class comes before those that it is derived from.
_ENCODERS: list[tuple[type | tuple[type, ...], Any]] = [
    (pb.Value, lambda v: v),
    (str, lambda v: pb.Value(text=v)),
    (bool, lambda v: pb.Value(boolean=v)),
    (int, _int_value),
    (Float, lambda v: pb.Value(float=v)),
    (float, lambda v: pb.Value(double=v)),
    ((bytes, bytearray, memoryview), lambda v: pb.Value(blob=bytes(v))),
    (uuid.UUID, lambda v: pb.Value(uuid=v.bytes)),
    (decimal.Decimal, lambda v: pb.Value(decimal=_decimal_value(v))),
    (datetime.datetime, _timestamp_value),
    (Timestamp, lambda v: pb.Value(timestamp=v.milliseconds)),
    (datetime.date, lambda v: pb.Value(date=v.toordinal() - _FIRST_DAY)),
    (Date, lambda v: pb.Value(date=v.days)),
    (Time, lambda v: pb.Value(time=v.nanoseconds)),
    (datetime.time, _time_value),
    ((ipaddress.IPv4Address, ipaddress.IPv6Address), lambda v: pb.Value(inet=v.packed)),
    (Duration, lambda v: pb.Value(duration=pb.DurationValue(months=v.months, days=v.days, nanoseconds=v.nanoseconds))),
    (Cql, lambda v: pb.Value(cql=v.cell)),
    (Empty, lambda v: pb.Value(empty=True)),
    (FloatVector, lambda v: pb.Value(float_vector=pb.FloatVector(elements=v))),
    (Vector, lambda v: pb.Value(vector=_list_value(v))),
    ((list, FrozenList), lambda v: pb.Value(list=_list_value(v))),
    (FrozenMap, lambda v: pb.Value(map=_map_value(v))),
    (Udt, lambda v: pb.Value(udt=pb.UdtValue(fields=[encode(f) for f in v.values()]))),
    (FrozenUdt, lambda v: pb.Value(udt=pb.UdtValue(fields=[encode(f) for _, f in v]))),
    ((set, frozenset), lambda v: pb.Value(set=_list_value(v))),
    (dict, lambda v: pb.Value(map=_map_value(v.items()))),
    (tuple, lambda v: pb.Value(tuple=_list_value(v))),
]


def encode(value: Any) -> pb.Value:
    """The value as the proxy takes it in a key. Raises TypeError for what is of no CQL type."""
    if value is None:
        return pb.Value(null=struct_pb2.NULL_VALUE)
    for of, encoder in _ENCODERS:
        if isinstance(value, of):
            return encoder(value)
    if isinstance(value, datetime.timedelta):
        raise TypeError(f"a {type(value).__name__} is not of one CQL type; use qosproxy.Time or qosproxy.Duration")
    raise TypeError(f"a {type(value).__name__} is not of a CQL type; see the module qosproxy.values for what is")
