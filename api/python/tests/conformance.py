"""Makes the lookups that a test asks for, and tells what came of them: conformance.py TARGET.

Each line of standard input is a lookup as JSON, and each line of standard output its outcome. The
programs of all languages do the same; internal/apitest/conformance_test.go compares them. A value is JSON with
one member, its CQL type: {"bigint": "9007199254740993"}. It is written from the class that
Python's value must have, so that a wrong class is an error.
"""

import datetime
import decimal
import ipaddress
import json
import struct
import sys
import uuid

import qosproxy
from qosproxy.v1 import value_pb2 as pb

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
FIRST_DAY = datetime.date(1970, 1, 1).toordinal()


def is_a(value, *classes):
    """The value, of which the class is checked: a bool is no int here, and a Udt no dict."""
    if type(value) not in classes:
        raise TypeError(f"{value!r} is a {type(value).__name__}, not a {classes}")
    return value


def decimal_out(v):
    sign, digits, exponent = is_a(v, decimal.Decimal).as_tuple()
    unscaled = int("".join(map(str, digits)) or "0")
    return [str(-unscaled if sign else unscaled), str(-exponent)]


def timestamp_out(v):
    if type(v) is qosproxy.Timestamp:
        return str(v.milliseconds)
    return str((is_a(v, datetime.datetime) - EPOCH) // datetime.timedelta(milliseconds=1))


def date_out(v):
    if type(v) is qosproxy.Date:
        return str(v.days)
    return str(is_a(v, datetime.date).toordinal() - FIRST_DAY)


def duration_out(v):
    is_a(v, qosproxy.Duration)
    return [str(v.months), str(v.days), str(v.nanoseconds)]


def integer_out(v):
    return str(is_a(v, int))


SCALARS = {
    pb.TYPE_KIND_ASCII: ("text", lambda v: is_a(v, str)),
    pb.TYPE_KIND_TEXT: ("text", lambda v: is_a(v, str)),
    pb.TYPE_KIND_TINYINT: ("int", integer_out),
    pb.TYPE_KIND_SMALLINT: ("int", integer_out),
    pb.TYPE_KIND_INT: ("int", integer_out),
    pb.TYPE_KIND_BIGINT: ("bigint", integer_out),
    pb.TYPE_KIND_COUNTER: ("bigint", integer_out),
    pb.TYPE_KIND_VARINT: ("varint", integer_out),
    pb.TYPE_KIND_DECIMAL: ("decimal", decimal_out),
    pb.TYPE_KIND_FLOAT: ("float", lambda v: struct.pack(">f", is_a(v, qosproxy.Float)).hex()),
    pb.TYPE_KIND_DOUBLE: ("double", lambda v: struct.pack(">d", is_a(v, float)).hex()),
    pb.TYPE_KIND_BOOLEAN: ("boolean", lambda v: is_a(v, bool)),
    pb.TYPE_KIND_BLOB: ("blob", lambda v: is_a(v, bytes).hex()),
    pb.TYPE_KIND_UUID: ("uuid", lambda v: str(is_a(v, uuid.UUID))),
    pb.TYPE_KIND_TIMEUUID: ("uuid", lambda v: str(is_a(v, uuid.UUID))),
    pb.TYPE_KIND_INET: ("inet", lambda v: is_a(v, ipaddress.IPv4Address, ipaddress.IPv6Address).packed.hex()),
    pb.TYPE_KIND_TIMESTAMP: ("timestamp", timestamp_out),
    pb.TYPE_KIND_DATE: ("date", date_out),
    pb.TYPE_KIND_TIME: ("time", lambda v: str(is_a(v, qosproxy.Time).nanoseconds)),
    pb.TYPE_KIND_DURATION: ("duration", duration_out),
}


def out(t, v):
    """The JSON of a value of a type."""
    if v is None:
        return None
    if v is qosproxy.EMPTY:
        return {"empty": True}
    if t.kind in SCALARS:
        name, write = SCALARS[t.kind]
        return {name: write(v)}
    e = t.elements
    match t.kind:
        case pb.TYPE_KIND_LIST:
            return {"list": [out(e[0], x) for x in is_a(v, list, qosproxy.FrozenList)]}
        case pb.TYPE_KIND_SET:
            return {"set": [out(e[0], x) for x in is_a(v, frozenset)]}
        case pb.TYPE_KIND_MAP:
            pairs = v.items() if type(v) is dict else is_a(v, qosproxy.FrozenMap)
            return {"map": [[out(e[0], k), out(e[1], x)] for k, x in pairs]}
        case pb.TYPE_KIND_TUPLE:
            return {"tuple": [out(of, x) for of, x in zip(e, is_a(v, tuple), strict=True)]}
        case pb.TYPE_KIND_UDT:
            pairs = v.items() if type(v) is qosproxy.Udt else is_a(v, qosproxy.FrozenUdt)
            return {"udt": [[name, out(of, x)] for of, (name, x) in zip(e, pairs, strict=True)]}
        case pb.TYPE_KIND_VECTOR:
            of = qosproxy.FloatVector if e[0].kind == pb.TYPE_KIND_FLOAT else qosproxy.Vector
            floats = (qosproxy.Float(x) if of is qosproxy.FloatVector else x for x in is_a(v, of))
            return {"vector": [out(e[0], x) for x in floats]}
    raise TypeError(f"no JSON for a {t.name}")


def vector_into(elements):
    elements = [into(x) for x in elements]
    floats = all(type(x) is qosproxy.Float for x in elements)
    return (qosproxy.FloatVector if floats else qosproxy.Vector)(elements)


READERS = {
    "text": str,
    "int": int,
    "bigint": int,
    "varint": int,
    "decimal": lambda v: decimal.Decimal((int(v[0] < "0"), tuple(map(int, v[0].lstrip("-"))), -int(v[1]))),
    "float": lambda v: qosproxy.Float(struct.unpack(">f", bytes.fromhex(v))[0]),
    "double": lambda v: struct.unpack(">d", bytes.fromhex(v))[0],
    "boolean": bool,
    "blob": bytes.fromhex,
    "uuid": uuid.UUID,
    "inet": lambda v: ipaddress.ip_address(bytes.fromhex(v)),
    "timestamp": lambda v: timestamp_into(int(v)),
    "date": lambda v: date_into(int(v)),
    "time": lambda v: qosproxy.Time(int(v)),
    "list": lambda v: [into(x) for x in v],
    "set": lambda v: frozenset(frozen(into(x)) for x in v),
    "map": lambda v: {frozen(into(k)): into(x) for k, x in v},
    "tuple": lambda v: tuple(into(x) for x in v),
    "udt": lambda v: qosproxy.Udt((name, into(x)) for name, x in v),
    "vector": vector_into,
}


def timestamp_into(milliseconds):
    try:
        return EPOCH + datetime.timedelta(milliseconds=milliseconds)
    except OverflowError:
        return qosproxy.Timestamp(milliseconds)


def date_into(days):
    try:
        return datetime.date.fromordinal(FIRST_DAY + days)
    except (ValueError, OverflowError):
        return qosproxy.Date(days)


def frozen(v):
    """The value as an element of a set."""
    match v:
        case qosproxy.Udt():
            return qosproxy.FrozenUdt((name, frozen(x)) for name, x in v.items())
        case dict():
            return qosproxy.FrozenMap((k, frozen(x)) for k, x in v.items())
        case list():
            return qosproxy.FrozenList(frozen(x) for x in v)
        case tuple():
            return type(v)(frozen(x) for x in v)
    return v


def into(v):
    """The value of JSON."""
    if v is None:
        return None
    ((name, inner),) = v.items()
    return READERS[name](inner)


def result_out(answer, result):
    if not result.answered:
        return {"status": result.status.name, "error": result.error, "reason": result.reason}
    rows = [{c.name: out(c.type, row[c.name]) for c in answer.columns} for row in result.rows]
    return {"status": result.status.name, "rows": rows}


def failure_out(error):
    statuses = [r.status.name for r in error.answer] if error.answer is not None else None
    retry = round(error.retry_after * 1000) if error.retry_after is not None else None
    return {
        "code": error.code.name, "reason": error.reason, "field": error.field, "retry_ms": retry, "statuses": statuses,
    }  # fmt: skip


def seconds(milliseconds):
    return None if milliseconds is None else milliseconds / 1000


def answer_of(client, ask):
    keys = [qosproxy.Key(*(into(c) for c in key)) for key in ask["keys"]]
    timeout = seconds(ask.get("timeout_ms"))
    try:
        answer = client.batch_get(ask["table"], keys, ask.get("columns", ()), timeout=timeout)
    except qosproxy.Error as error:
        if "rounds" not in ask or error.answer is None:
            raise
        answer = error.answer
    if "rounds" in ask:
        answer = client.retry_unprocessed(answer, timeout=timeout, rounds=ask["rounds"])
    return answer


def lookup(client, ask):
    try:
        answer = answer_of(client, ask)
    except qosproxy.Error as error:
        return failure_out(error)
    return {"results": [result_out(answer, r) for r in answer], "unprocessed": answer.unprocessed}


def connect(target, options):
    if "ca_file" in options:
        options["tls"] = qosproxy.Tls(options.pop("ca_file"), options.pop("cert_file", None), options.pop("key_file", None))
    return qosproxy.Client(target, timeout=seconds(options.pop("timeout_ms", None)), **options)


def main(target):
    client = None
    for line in sys.stdin:
        ask = json.loads(line)
        # Each client has a budget of its own.
        if client is None or "client" in ask:
            client = connect(ask.get("target", target), ask.get("client", {}))
        print(json.dumps(lookup(client, ask), ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
