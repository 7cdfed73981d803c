/*
 * Values of CQL types as JavaScript's own.
 *
 *   ascii, text                string
 *   tinyint, smallint, int     number
 *   bigint, counter, varint    bigint
 *   decimal                    Decimal
 *   float, double              number
 *   boolean                    boolean
 *   blob, a custom type        Uint8Array
 *   uuid, timeuuid             Uuid
 *   inet                       Inet
 *   timestamp                  Date; Timestamp beyond its years
 *   date, time                 LocalDate, LocalTime
 *   duration                   Duration
 *   list, set, map             Array, Set, Map
 *   tuple                      Tuple
 *   a user-defined type        Udt
 *   vector                     Float32Array of floats, Vector of others
 *   null                       null
 *   zero bytes of an int       EMPTY
 *
 * As in any Set or Map of JavaScript, 0 and -0 are one element, and elements that are objects are
 * told apart by identity.
 *
 * What a row returns can be a key, but for floats and whole doubles: a number in a key is an
 * integer if it has no fraction, and a double otherwise. Write new Float(x) and new Double(x).
 */
import { create } from "@bufbuild/protobuf";
import { isIPv4, isIPv6 } from "node:net";

import * as pb from "./gen/qosproxy/v1/value_pb.js";

/** A value of a row or a key. */
export type CqlValue =
  | null | string | number | bigint | boolean | Uint8Array | Decimal | Float | Double | Uuid | Inet
  | Date | Timestamp | LocalDate | LocalTime | Duration | Empty | Cql | CqlValue[] | Set<CqlValue>
  | Map<CqlValue, CqlValue> | Tuple | Udt | Float32Array | Vector;

/** A CQL float in a key. */
export class Float {
  constructor(readonly value: number) {}
}

/** A CQL double in a key, also one without a fraction. */
export class Double {
  constructor(readonly value: number) {}
}

/** A component of a key of any type as Cassandra serializes it. */
export class Cql {
  constructor(readonly cell: Uint8Array) {}
}

/** The class of EMPTY. */
export class Empty {
  /** The word EMPTY. */
  toString(): string {
    return "EMPTY";
  }
}

/**
 * The value of zero bytes that Cassandra allows for types in which it has no other meaning, such as
 * int. It is not null.
 */
export const EMPTY = new Empty();

/** A CQL decimal, unscaled × 10^-scale. 1.50 and 1.5 are different values to Cassandra. */
export class Decimal {
  /**
   * @param unscaled the number without its decimal point
   * @param scale how many digits are behind the point; negative for zeros before it
   */
  constructor(readonly unscaled: bigint, readonly scale: number) {}

  /** The decimal that is written in a text, such as 19.50 or -1.5e-7, with the scale of the text. */
  static parse(text: string): Decimal {
    const parts = /^([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,10}))?$/.exec(text);
    const [, sign = "", whole = "", fraction = "", exponent = "0"] = parts ?? [];
    const scale = fraction.length - Number(exponent);
    if (parts === null || whole + fraction === "" || scale !== (scale | 0)) {
      throw new RangeError(`${JSON.stringify(text)} is not a decimal`);
    }
    const digits = BigInt(whole + fraction);
    return new Decimal(sign === "-" ? -digits : digits, scale);
  }

  /** The decimal as cqlsh writes it: 19.50, and in scientific notation where the point is far. */
  toString(): string {
    const sign = this.unscaled < 0n ? "-" : "";
    let digits = String(this.unscaled < 0n ? -this.unscaled : this.unscaled);
    const adjusted = digits.length - 1 - this.scale;
    if (this.scale === 0) return sign + digits;
    if (this.scale > 0 && adjusted >= -6) {
      digits = digits.padStart(this.scale + 1, "0");
      const point = digits.length - this.scale;
      return `${sign}${digits.slice(0, point)}.${digits.slice(point)}`;
    }
    if (digits.length > 1) digits = `${digits.slice(0, 1)}.${digits.slice(1)}`;
    return `${sign}${digits}E${adjusted < 0 ? "" : "+"}${adjusted}`;
  }

  /** The nearest number, which may have lost digits. */
  toNumber(): number {
    return Number(this.toString());
  }
}

/** A CQL uuid or timeuuid. */
export class Uuid {
  /** @param bytes all 16 of them */
  constructor(readonly bytes: Uint8Array) {
    if (bytes.length !== 16) throw new RangeError(`a uuid has 16 bytes, not ${bytes.length}`);
  }

  /** The uuid that is written in a text, such as 550e8400-e29b-41d4-a716-446655440000. */
  static parse(text: string): Uuid {
    if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)) throw new RangeError(`${JSON.stringify(text)} is not a uuid`);
    return new Uuid(Buffer.from(text.replaceAll("-", ""), "hex"));
  }

  /** The usual form, in lower case. */
  toString(): string {
    const h = Buffer.from(this.bytes).toString("hex");
    return `${h.slice(0, 8)}-${h.slice(8, 12)}-${h.slice(12, 16)}-${h.slice(16, 20)}-${h.slice(20)}`;
  }

  /** The same as toString. */
  toJSON(): string {
    return this.toString();
  }
}

/** A CQL inet: an address of IPv4 or IPv6. */
export class Inet {
  /** @param bytes 4 or 16 of them */
  constructor(readonly bytes: Uint8Array) {
    if (bytes.length !== 4 && bytes.length !== 16) throw new RangeError(`an inet has 4 or 16 bytes, not ${bytes.length}`);
  }

  /** The address that is written in a text, such as 127.0.0.1 or 2001:db8::1, without a zone. */
  static parse(text: string): Inet {
    if (isIPv4(text)) return new Inet(Uint8Array.from(text.split("."), Number));
    if (!isIPv6(text) || text.includes("%")) throw new RangeError(`${JSON.stringify(text)} is not an address`);
    // The last four bytes of an IPv6 address may be written as those of IPv4.
    const mapped = /^(.*:)(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(text);
    const hex = (a: number, b: number): string => ((Number(mapped?.[a]) << 8) | Number(mapped?.[b])).toString(16);
    const [head = "", tail] = (mapped ? `${mapped[1]}${hex(2, 3)}:${hex(4, 5)}` : text).split("::");
    const groups = (part: string): number[] => (part === "" ? [] : part.split(":").map((g) => parseInt(g, 16)));
    const left = groups(head);
    const right = tail === undefined ? [] : groups(tail);
    const all = [...left, ...new Array<number>(8 - left.length - right.length).fill(0), ...right];
    return new Inet(Uint8Array.from(all.flatMap((g) => [g >> 8, g & 255])));
  }

  /** The address as text. */
  toString(): string {
    if (this.bytes.length === 4) return this.bytes.join(".");
    const groups = Array.from({ length: 8 }, (_, i) => (((this.bytes[2 * i] ?? 0) << 8) | (this.bytes[2 * i + 1] ?? 0)).toString(16));
    // The first of the longest runs of two zeros or more is left out.
    const runs = [...groups.join(":").matchAll(/(?<![0-9a-f])0(?::0)+(?![0-9a-f])/g)].map((m) => m[0]);
    const longest = runs.reduce((a, b) => (b.length > a.length ? b : a), "");
    if (longest === "") return groups.join(":");
    const text = groups.join(":");
    const at = text.search(new RegExp(`(?<![0-9a-f])${longest}(?![0-9a-f])`));
    const [before, after] = [text.slice(0, at), text.slice(at + longest.length)];
    return `${before.replace(/:$/, "")}::${after.replace(/^:/, "")}`;
  }
}

/** A CQL timestamp beyond the years of Date. */
export class Timestamp {
  /** @param milliseconds since 1970 UTC */
  constructor(readonly milliseconds: bigint) {}
}

const DAY = 86_400_000;

/** A CQL date, without a time and a zone. */
export class LocalDate {
  /** @param days since 1970-01-01 */
  constructor(readonly days: number) {}

  /** The date of a year, a month from 1 and a day of the month from 1. */
  static of(year: number, month: number, day: number): LocalDate {
    const date = new Date(0);
    date.setUTCFullYear(year, month - 1, day);
    return new LocalDate(date.getTime() / DAY);
  }

  /** Midnight in UTC, an invalid Date for days beyond the years of Date. */
  toDate(): Date {
    return new Date(this.days * DAY);
  }

  /** Such as 2026-01-31. */
  toString(): string {
    const date = this.toDate();
    return Number.isNaN(date.getTime()) ? `${this.days} days since 1970-01-01` : date.toISOString().replace(/T.*/, "");
  }
}

/** A CQL time of day. */
export class LocalTime {
  /** @param nanoseconds since midnight */
  constructor(readonly nanoseconds: bigint) {}

  /** Such as 13:30:54.234000000. */
  toString(): string {
    const seconds = this.nanoseconds / 1_000_000_000n;
    const two = (n: bigint): string => String(n).padStart(2, "0");
    const fraction = String(this.nanoseconds % 1_000_000_000n).padStart(9, "0");
    return `${two(seconds / 3600n)}:${two((seconds / 60n) % 60n)}:${two(seconds % 60n)}.${fraction}`;
  }
}

/** A CQL duration: a span in three units that do not convert into each other. */
export class Duration {
  constructor(readonly months: number, readonly days: number, readonly nanoseconds: bigint) {}
}

/** A CQL tuple. */
export class Tuple {
  constructor(readonly elements: readonly CqlValue[]) {}
}

/** A CQL vector of anything but floats. */
export class Vector {
  constructor(readonly elements: readonly CqlValue[]) {}
}

/** A value of a user-defined type. */
export class Udt {
  /** @param fields in the order of the type; in a key those at the end may be left out */
  constructor(readonly fields: ReadonlyArray<readonly [name: string, value: CqlValue]>) {}

  /** The value of a field; undefined when there is none of that name. */
  get(name: string): CqlValue | undefined {
    return this.fields.find(([field]) => field === name)?.[1];
  }
}

/** The two's complement in as few bytes as hold a number with its sign. */
export function signedBytes(n: bigint): Uint8Array {
  let hex = (n < 0n ? ~n : n).toString(16);
  if (hex.length % 2 === 1) hex = `0${hex}`;
  if (hex.charAt(0) >= "8") hex = `00${hex}`;
  const bytes = Buffer.from(hex, "hex");
  return n < 0n ? bytes.map((b) => ~b & 255) : bytes;
}

/** The number of signedBytes. */
export function signedNumber(bytes: Uint8Array): bigint {
  if (bytes.length === 0) return 0n;
  return BigInt.asIntN(8 * bytes.length, BigInt(`0x${Buffer.from(bytes).toString("hex")}`));
}

const noType = create(pb.TypeSchema);

function elementType(t: pb.Type, i: number): pb.Type {
  return t.elements[i] ?? noType;
}

/** The value of a cell of a type. */
export function decode(t: pb.Type, value: pb.Value | undefined): CqlValue {
  const kind = value?.kind;
  if (kind?.case === undefined || kind.case === "null") return null;
  switch (kind.case) {
    case "text":
    case "int":
    case "bigint":
    case "double":
    case "float":
    case "boolean":
    case "blob":
    case "custom":
      return kind.value;
    case "varint":
      return signedNumber(kind.value);
    case "decimal":
      return new Decimal(signedNumber(kind.value.unscaled), kind.value.scale);
    case "cql":
      return new Cql(kind.value);
    case "uuid":
      return new Uuid(kind.value);
    case "inet":
      return new Inet(kind.value);
    case "timestamp": {
      const date = new Date(Number(kind.value));
      return Number.isNaN(date.getTime()) ? new Timestamp(kind.value) : date;
    }
    case "date":
      return new LocalDate(kind.value);
    case "time":
      return new LocalTime(kind.value);
    case "duration":
      return new Duration(kind.value.months, kind.value.days, kind.value.nanoseconds);
    case "empty":
      return EMPTY;
    default:
      return decodeNested(t, kind);
  }
}

type Nested = Extract<pb.Value["kind"], { case: "list" | "set" | "map" | "tuple" | "udt" | "floatVector" | "vector" }>;

function decodeNested(t: pb.Type, kind: Nested): CqlValue {
  switch (kind.case) {
    case "list":
      return kind.value.elements.map((e) => decode(elementType(t, 0), e));
    case "set":
      return new Set(kind.value.elements.map((e) => decode(elementType(t, 0), e)));
    case "vector":
      return new Vector(kind.value.elements.map((e) => decode(elementType(t, 0), e)));
    case "tuple":
      return new Tuple(kind.value.elements.map((e, i) => decode(elementType(t, i), e)));
    case "floatVector":
      return Float32Array.from(kind.value.elements);
    case "map":
      return new Map(kind.value.entries.map((e) => [decode(elementType(t, 0), e.key), decode(elementType(t, 1), e.value)]));
    case "udt": {
      // A value that is older than its last fields has not got them.
      const fields = kind.value.fields;
      return new Udt(t.fieldNames.map((name, i) => [name, decode(elementType(t, i), fields[i])]));
    }
    default:
      throw new TypeError(`a ${t.name} is of a kind that this package does not know`);
  }
}

type Kind = pb.Value["kind"];

function list(elements: Iterable<CqlValue>): pb.ListValue {
  return create(pb.ListValueSchema, { elements: Array.from(elements, encode) });
}

function kindOfNumber(n: number): Kind {
  if (!Number.isInteger(n)) return { case: "double", value: n };
  if (!Number.isSafeInteger(n)) throw new RangeError(`${n} is beyond the integers that a number can hold; write a bigint, or new Double(…)`);
  return { case: "bigint", value: BigInt(n) };
}

function kindOf(v: CqlValue): Kind {
  if (v === null) return { case: "null", value: 0 };
  switch (typeof v) {
    case "string":
      return { case: "text", value: v };
    case "boolean":
      return { case: "boolean", value: v };
    case "number":
      return kindOfNumber(v);
    case "bigint":
      return BigInt.asIntN(64, v) === v ? { case: "bigint", value: v } : { case: "varint", value: signedBytes(v) };
    case "object":
      return kindOfScalar(v) ?? kindOfNested(v);
    default:
      throw new TypeError(`a ${typeof v} is not of a CQL type`);
  }
}

function kindOfScalar(v: CqlValue): Kind | undefined {
  if (v instanceof Float) return { case: "float", value: v.value };
  if (v instanceof Double) return { case: "double", value: v.value };
  if (v instanceof Uint8Array) return { case: "blob", value: v };
  if (v instanceof Uuid) return { case: "uuid", value: v.bytes };
  if (v instanceof Inet) return { case: "inet", value: v.bytes };
  if (v instanceof Decimal) return { case: "decimal", value: create(pb.DecimalValueSchema, { unscaled: signedBytes(v.unscaled), scale: v.scale }) };
  if (v instanceof Date) {
    if (Number.isNaN(v.getTime())) throw new RangeError("an invalid Date is no timestamp");
    return { case: "timestamp", value: BigInt(v.getTime()) };
  }
  if (v instanceof Timestamp) return { case: "timestamp", value: v.milliseconds };
  if (v instanceof LocalDate) return { case: "date", value: v.days };
  if (v instanceof LocalTime) return { case: "time", value: v.nanoseconds };
  if (v instanceof Duration) return { case: "duration", value: create(pb.DurationValueSchema, { ...v }) };
  if (v instanceof Cql) return { case: "cql", value: v.cell };
  if (v instanceof Empty) return { case: "empty", value: true };
  return undefined;
}

function kindOfNested(v: CqlValue): Kind {
  if (Array.isArray(v)) return { case: "list", value: list(v) };
  if (v instanceof Set) return { case: "set", value: list(v) };
  if (v instanceof Tuple) return { case: "tuple", value: list(v.elements) };
  if (v instanceof Vector) return { case: "vector", value: list(v.elements) };
  if (v instanceof Float32Array) return { case: "floatVector", value: create(pb.FloatVectorSchema, { elements: Array.from(v) }) };
  if (v instanceof Udt) return { case: "udt", value: create(pb.UdtValueSchema, { fields: v.fields.map(([, f]) => encode(f)) }) };
  if (v instanceof Map) {
    const entries = Array.from(v, ([key, value]) => create(pb.MapEntrySchema, { key: encode(key), value: encode(value) }));
    return { case: "map", value: create(pb.MapValueSchema, { entries }) };
  }
  throw new TypeError(`a ${(v as object).constructor?.name ?? "value"} is not of a CQL type`);
}

/** The value as the proxy takes it in a key. Throws TypeError for what is of no CQL type. */
export function encode(v: CqlValue): pb.Value {
  return create(pb.ValueSchema, { kind: kindOf(v) });
}
