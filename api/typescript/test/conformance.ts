/*
 * Makes the lookups that a test asks for, and tells what came of them: conformance TARGET.
 *
 * Each line of standard input is a lookup as JSON, and each line of standard output its outcome. The
 * programs of all languages do the same; internal/apitest/conformance_test.go compares them. A value is JSON with
 * one member, its CQL type: {"bigint": "9007199254740993"}. It is written from the class that
 * JavaScript's value must have, so that a wrong class is an error.
 */
import { status } from "@grpc/grpc-js";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

import { TypeKind, type Type } from "../src/gen/qosproxy/v1/value_pb.js";
import * as q from "../src/index.js";

type Json = null | string | boolean | number | Json[] | { [member: string]: Json };
type Class<T> = abstract new (...args: never[]) => T;

function isA<T>(v: q.CqlValue, of: Class<T>): T {
  if (v instanceof of) return v;
  throw new TypeError(`${String(v)} is no ${of.name}`);
}

function text(v: q.CqlValue): string {
  if (typeof v === "string") return v;
  throw new TypeError(`${String(v)} is a ${typeof v}, not a string`);
}

function int(v: q.CqlValue): string {
  if (typeof v === "number" && Number.isSafeInteger(v)) return String(v);
  throw new TypeError(`${String(v)} is a ${typeof v}, not a whole number`);
}

function big(v: q.CqlValue): string {
  if (typeof v === "bigint") return String(v);
  throw new TypeError(`${String(v)} is a ${typeof v}, not a bigint`);
}

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");

function bits(v: q.CqlValue, size: 4 | 8): string {
  if (typeof v !== "number") throw new TypeError(`${String(v)} is a ${typeof v}, not a number`);
  const view = new DataView(new ArrayBuffer(size));
  if (size === 4) view.setFloat32(0, v);
  else view.setFloat64(0, v);
  return hex(new Uint8Array(view.buffer));
}

const millisecondsOf = (v: q.CqlValue): string => String(v instanceof q.Timestamp ? v.milliseconds : isA(v, Date).getTime());

const scalars = new Map<TypeKind, [string, (v: q.CqlValue) => Json]>([
  [TypeKind.ASCII, ["text", text]],
  [TypeKind.TEXT, ["text", text]],
  [TypeKind.TINYINT, ["int", int]],
  [TypeKind.SMALLINT, ["int", int]],
  [TypeKind.INT, ["int", int]],
  [TypeKind.BIGINT, ["bigint", big]],
  [TypeKind.COUNTER, ["bigint", big]],
  [TypeKind.VARINT, ["varint", big]],
  [TypeKind.DECIMAL, ["decimal", (v) => [big(isA(v, q.Decimal).unscaled), int(isA(v, q.Decimal).scale)]]],
  [TypeKind.FLOAT, ["float", (v) => bits(v, 4)]],
  [TypeKind.DOUBLE, ["double", (v) => bits(v, 8)]],
  [TypeKind.BOOLEAN, ["boolean", (v) => { if (typeof v !== "boolean") throw new TypeError(`${String(v)} is no boolean`); return v; }]],
  [TypeKind.BLOB, ["blob", (v) => hex(isA(v, Uint8Array))]],
  [TypeKind.UUID, ["uuid", (v) => isA(v, q.Uuid).toString()]],
  [TypeKind.TIMEUUID, ["uuid", (v) => isA(v, q.Uuid).toString()]],
  [TypeKind.INET, ["inet", (v) => hex(isA(v, q.Inet).bytes)]],
  [TypeKind.TIMESTAMP, ["timestamp", millisecondsOf]],
  [TypeKind.DATE, ["date", (v) => int(isA(v, q.LocalDate).days)]],
  [TypeKind.TIME, ["time", (v) => big(isA(v, q.LocalTime).nanoseconds)]],
  [TypeKind.DURATION, ["duration", (v) => { const d = isA(v, q.Duration); return [int(d.months), int(d.days), big(d.nanoseconds)]; }]],
]);

/** The JSON of a value of a type. */
function out(t: Type | undefined, v: q.CqlValue | undefined): Json {
  if (t === undefined || v === undefined) throw new TypeError("a value is missing");
  if (v === null) return null;
  if (v === q.EMPTY) return { empty: true };
  const scalar = scalars.get(t.kind);
  if (scalar !== undefined) return { [scalar[0]]: scalar[1](v) };
  const e = t.elements;
  switch (t.kind) {
    case TypeKind.LIST:
      return { list: (isA(v, Array) as q.CqlValue[]).map((x) => out(e[0], x)) };
    case TypeKind.SET:
      return { set: Array.from(isA(v, Set) as Set<q.CqlValue>, (x) => out(e[0], x)) };
    case TypeKind.MAP:
      return { map: Array.from(isA(v, Map) as Map<q.CqlValue, q.CqlValue>, ([k, x]) => [out(e[0], k), out(e[1], x)]) };
    case TypeKind.TUPLE:
      return { tuple: isA(v, q.Tuple).elements.map((x, i) => out(e[i], x)) };
    case TypeKind.UDT:
      return { udt: isA(v, q.Udt).fields.map(([name, x], i) => [name, out(e[i], x)]) };
    case TypeKind.VECTOR: {
      const elements: readonly q.CqlValue[] = e[0]?.kind === TypeKind.FLOAT ? Array.from(isA(v, Float32Array)) : isA(v, q.Vector).elements;
      return { vector: elements.map((x) => out(e[0], x)) };
    }
    default:
      throw new TypeError(`no JSON for a ${t.name}`);
  }
}

const unhex = (s: Json): Uint8Array => Uint8Array.from(Buffer.from(s as string, "hex"));
const view = (s: Json): DataView => { const b = unhex(s); return new DataView(b.buffer, b.byteOffset, b.byteLength); };
const number = (s: Json): number => Number(s as string);
const bigint = (s: Json): bigint => BigInt(s as string);

function vectorInto(v: Json): q.CqlValue {
  const elements = (v as Json[]).map(into);
  const floats = elements.every((x) => x instanceof q.Float);
  return floats ? Float32Array.from(elements, (x) => (x as q.Float).value) : new q.Vector(elements);
}

function timestampInto(v: Json): q.CqlValue {
  const date = new Date(number(v));
  return Number.isNaN(date.getTime()) ? new q.Timestamp(bigint(v)) : date;
}

const readers: { [type: string]: (v: Json) => q.CqlValue } = {
  text: (v) => v as string,
  int: number,
  bigint,
  varint: bigint,
  decimal: (v) => new q.Decimal(bigint((v as Json[])[0] ?? null), number((v as Json[])[1] ?? null)),
  float: (v) => new q.Float(view(v).getFloat32(0)),
  double: (v) => new q.Double(view(v).getFloat64(0)),
  boolean: (v) => v as boolean,
  blob: unhex,
  uuid: (v) => q.Uuid.parse(v as string),
  inet: (v) => new q.Inet(unhex(v)),
  timestamp: timestampInto,
  date: (v) => new q.LocalDate(number(v)),
  time: (v) => new q.LocalTime(bigint(v)),
  list: (v) => (v as Json[]).map(into),
  set: (v) => new Set((v as Json[]).map(into)),
  map: (v) => new Map((v as Json[][]).map(([k, x]) => [into(k ?? null), into(x ?? null)])),
  tuple: (v) => new q.Tuple((v as Json[]).map(into)),
  udt: (v) => new q.Udt((v as Json[][]).map(([name, x]) => [name as string, into(x ?? null)] as const)),
  vector: vectorInto,
};

/** The value of JSON. */
function into(v: Json): q.CqlValue {
  if (v === null) return null;
  const [[name, inner] = ["", null]] = Object.entries(v as { [member: string]: Json });
  const read = readers[name];
  if (read === undefined) throw new TypeError(`no value of ${JSON.stringify(v)}`);
  return read(inner);
}

function resultOut(answer: q.Answer, result: q.Result): Json {
  if (!result.answered) return { status: result.status, error: result.error, reason: result.reason };
  const rows = result.rows.map((row) => Object.fromEntries(answer.columns.map((c) => [c.name, out(c.type, row[c.name])])));
  return { status: result.status, rows };
}

function failureOut(error: q.LookupError): Json {
  return {
    code: status[error.code] as string, reason: error.reason, field: error.field, retry_ms: error.retryAfter ?? null,
    statuses: error.answer?.results.map((r) => r.status) ?? null,
  };
}

interface Ask {
  table: string; keys: Json[][]; columns?: string[]; timeout_ms?: number; rounds?: number; target?: string; client?: Options;
}

interface Options {
  timeout_ms?: number; retry_shed?: boolean; retries?: number; token?: string; plaintext_token?: boolean; socket_name?: string;
  ca_file?: string; cert_file?: string; key_file?: string;
}

async function answerOf(client: q.Client, ask: Ask): Promise<q.Answer> {
  const keys = ask.keys.map((components) => new q.Key(...components.map(into)));
  let answer: q.Answer;
  try {
    answer = await client.batchGet(ask.table, keys, { columns: ask.columns, timeout: ask.timeout_ms });
  } catch (error) {
    if (!(error instanceof q.LookupError) || ask.rounds === undefined || error.answer === undefined) throw error;
    answer = error.answer;
  }
  if (ask.rounds === undefined) return answer;
  return client.retryUnprocessed(answer, { timeout: ask.timeout_ms, rounds: ask.rounds });
}

async function lookup(client: q.Client, ask: Ask): Promise<Json> {
  try {
    const answer = await answerOf(client, ask);
    return { results: answer.results.map((r) => resultOut(answer, r)), unprocessed: [...answer.unprocessed] };
  } catch (error) {
    if (error instanceof q.LookupError) return failureOut(error);
    throw error;
  }
}

function connect(target: string, o: Options): q.Client {
  const file = (name?: string): Buffer | undefined => (name === undefined ? undefined : readFileSync(name));
  return new q.Client(target, {
    timeout: o.timeout_ms, retryShed: o.retry_shed, retries: o.retries, token: o.token, plaintextToken: o.plaintext_token, socketName: o.socket_name,
    tls: o.ca_file === undefined ? undefined : { ca: file(o.ca_file), cert: file(o.cert_file), key: file(o.key_file) },
  });
}

const target = process.argv[2] ?? "";
let client: q.Client | undefined;
for await (const line of createInterface({ input: process.stdin })) {
  const ask = JSON.parse(line) as Ask;
  if (client === undefined || ask.client !== undefined) {
    // Each client has a budget of its own.
    client?.close();
    client = connect(ask.target ?? target, ask.client ?? {});
  }
  console.log(JSON.stringify(await lookup(client, ask)));
}
client?.close();
