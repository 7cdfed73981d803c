import { create } from "@bufbuild/protobuf";
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";

import * as pb from "../src/gen/qosproxy/v1/value_pb.js";
import * as q from "../src/index.js";
import { decode, encode, signedBytes, signedNumber } from "../src/values.js";

const address = create(pb.TypeSchema, {
  kind: pb.TypeKind.UDT, name: "address", fieldNames: ["street", "Zip"], elements: [create(pb.TypeSchema), create(pb.TypeSchema)],
});

/** Asserts that what a row returns is what a key of it was. */
function same(value: q.CqlValue, t = create(pb.TypeSchema)): void {
  const back = decode(t, encode(value));
  assert.deepEqual(back, value);
}

test("integers keep every bit", () => {
  for (const exponent of [0n, 1n, 7n, 8n, 15n, 31n, 52n, 53n, 62n, 63n, 64n, 127n, 200n]) {
    for (const beside of [-1n, 0n, 1n]) {
      for (const sign of [-1n, 1n]) {
        const n = sign * 2n ** exponent + beside;
        same(n);
        assert.equal(signedNumber(signedBytes(n)), n);
      }
    }
  }
  for (let i = 0; i < 2000; i++) {
    const n = signedNumber(randomBytes(1 + (i % 20)));
    same(n);
    assert.equal(signedNumber(signedBytes(n)), n);
  }
});

test("bigint and varint", () => {
  for (const n of [-(2n ** 63n), 2n ** 63n - 1n, 2n ** 53n + 1n]) assert.equal(encode(n).kind.case, "bigint");
  for (const n of [-(2n ** 63n) - 1n, 2n ** 63n]) assert.equal(encode(n).kind.case, "varint");
});

test("the bytes of a varint are the fewest", () => {
  for (const [n, hex] of [[0n, "00"], [127n, "7f"], [128n, "0080"], [-128n, "80"], [-129n, "ff7f"], [-1n, "ff"], [256n, "0100"]] as const) {
    assert.equal(Buffer.from(signedBytes(n)).toString("hex"), hex);
  }
});

test("numbers in keys", () => {
  assert.equal(encode(7).kind.case, "bigint");
  assert.equal(encode(0.5).kind.case, "double");
  assert.equal(encode(NaN).kind.case, "double");
  assert.equal(encode(new q.Double(7)).kind.case, "double");
  assert.equal(encode(new q.Float(7)).kind.case, "float");
  assert.throws(() => encode(2 ** 53), /beyond the integers.*bigint/);
});

test("decimals keep their scale", () => {
  for (const text of ["0", "1.50", "1.5", "-0.001", "1E+30", "-123456789012345678901234567890.123456789", "0E-7", "1.5E-8"]) {
    const value = q.Decimal.parse(text);
    same(value);
    assert.equal(value.toString(), text);
  }
  assert.equal(q.Decimal.parse("1.50").scale, 2);
  assert.equal(q.Decimal.parse("-1.5e3").toNumber(), -1500);
  for (const text of ["", ".", "-", "1e", "0x1", "NaN", "1_0", "1e9999999999"]) assert.throws(() => q.Decimal.parse(text), RangeError);
});

test("scalars", () => {
  for (const value of [
    "é", "", Buffer.from([0, 255]), true, false, 0.5, q.Uuid.parse("550e8400-E29b-41d4-a716-446655440000"), q.Inet.parse("127.0.0.1"),
    new Date(0), new Date(8.64e15), new q.Timestamp(2n ** 63n - 1n), new q.Timestamp(-(2n ** 63n)), new q.LocalDate(-(2 ** 31)),
    new q.LocalTime(86_399_999_999_999n), new q.Duration(-1, -2, -3n), new q.Cql(Buffer.from([0])), q.EMPTY, null,
  ]) same(value);
});

test("nested", () => {
  same([1n, 2n]);
  same(new Map<q.CqlValue, q.CqlValue>([["a", [1n]], ["b", []]]));
  same(new Set(["a", "b"]));
  same(new q.Tuple([1n, null, "x"]));
  same(Float32Array.of(0.5, -1));
  same(new q.Vector(["a", ""]));
  same(new q.Udt([["street", "x"], ["Zip", null]]), address);
  same(new Set([[1n], [2n]]));
});

test("a user-defined type older than its last fields", () => {
  const value = create(pb.ValueSchema, { kind: { case: "udt", value: create(pb.UdtValueSchema, { fields: [encode("x")] }) } });
  const udt = decode(address, value) as q.Udt;
  assert.equal(udt.get("street"), "x");
  assert.equal(udt.get("Zip"), null);
  assert.equal(udt.get("nope"), undefined);
});

test("addresses as text", () => {
  for (const text of ["0.0.0.0", "255.1.2.3", "::", "::1", "1::", "2001:db8::1", "2001:db8:0:1:1:1:1:1", "1:0:0:2::3", "::ffff:7f00:1"]) {
    assert.equal(q.Inet.parse(text).toString(), text);
  }
  assert.equal(q.Inet.parse("::ffff:127.0.0.1").toString(), "::ffff:7f00:1");
  assert.equal(q.Inet.parse("1:2:3:4:5:6:7:8").toString(), "1:2:3:4:5:6:7:8");
  for (const text of ["", "localhost", "1.2.3", "fe80::1%eth0"]) assert.throws(() => q.Inet.parse(text), RangeError);
});

test("dates and times as text", () => {
  assert.equal(q.LocalDate.of(1969, 12, 31).days, -1);
  assert.equal(q.LocalDate.of(50, 1, 1).toString(), "0050-01-01");
  assert.equal(new q.LocalDate(2 ** 31 - 1).toString(), "2147483647 days since 1970-01-01");
  assert.equal(new q.LocalTime(48_654_234_000_001n).toString(), "13:30:54.234000001");
});

test("what is of no type", () => {
  for (const value of [undefined, {}, Symbol("x"), new Date(NaN), () => 1]) assert.throws(() => encode(value as never));
});
