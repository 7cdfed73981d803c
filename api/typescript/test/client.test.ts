import { create } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { status } from "@grpc/grpc-js";
import assert from "node:assert/strict";
import { test } from "node:test";

import { part } from "../src/client.js";
import { BatchGetRequestSchema, BatchGetResponseSchema, KeyResultSchema, KeySchema, KeyStatus, RowSchema } from "../src/gen/qosproxy/v1/qosproxy_pb.js";
import { ColumnSchema, TypeSchema } from "../src/gen/qosproxy/v1/value_pb.js";
import { Answer, Client, LookupError, Result, UnansweredError } from "../src/index.js";
import { Budget, Retries } from "../src/retry.js";
import { encode } from "../src/values.js";

function failure(code: status, reason = "", retryAfter?: number): LookupError {
  const error = new LookupError(code, "no");
  error.reason = reason;
  error.retryAfter = retryAfter;
  return error;
}

interface Run { most?: number; shed?: boolean; deadline?: number; random?: number; budget?: Budget }

/** Calls that fail as told until the failures end, in a time that passes by sleeping alone. */
async function run(failures: LookupError[], { most = 2, shed = false, deadline = 10_000, random = 0.5, budget }: Run = {}): Promise<[number, status, number[]]> {
  const pauses: number[] = [];
  let now = 0;
  const sleep = async (milliseconds: number): Promise<void> => {
    pauses.push(Math.round(milliseconds * 1e6) / 1e6);
    now += milliseconds;
  };
  const retries = new Retries(most, shed, { now: () => now, sleep, random: () => random });
  if (budget !== undefined) Object.assign(retries, { budget });
  const left = [...failures];
  let calls = 0;
  const attempt = async (): Promise<void> => {
    calls++;
    const next = left.shift();
    if (next !== undefined) throw next;
  };
  try {
    await retries.call(attempt, deadline);
    return [calls, status.OK, pauses];
  } catch (error) {
    return [calls, (error as LookupError).code, pauses];
  }
}

const U = status.UNAVAILABLE;
const R = status.RESOURCE_EXHAUSTED;

test("what is asked again", async () => {
  assert.deepEqual(await run([]), [1, status.OK, []]);
  assert.deepEqual(await run([failure(U)]), [2, status.OK, [10]]);
  assert.deepEqual(await run([failure(U), failure(U), failure(U)]), [3, U, [10, 20]]);
  assert.deepEqual(await run([failure(U, "NOT_READY", 100)]), [2, status.OK, [110]]);
  assert.deepEqual(await run([failure(U, "NOT_READY", 3_600_000)]), [1, U, []]);
  assert.deepEqual(await run([failure(U)], { most: 0 }), [1, U, []]);
  assert.deepEqual(await run([failure(U, "FAILED")]), [1, U, []]);
  assert.deepEqual(await run([failure(R, "SHED", 100)]), [1, R, []]);
  assert.deepEqual(await run([failure(R, "SHED", 100)], { shed: true }), [2, status.OK, [110]]);
  for (const code of Object.values(status).filter((c): c is status => typeof c === "number")) {
    if (code !== U && code !== R && code !== status.OK) assert.deepEqual(await run([failure(code, "X", 100)], { shed: true }), [1, code, []]);
  }
});

test("the jitter is full", async () => {
  assert.deepEqual(await run([failure(U)], { random: 0 }), [2, status.OK, [0]]);
  assert.deepEqual(await run([failure(U)], { random: 1 }), [2, status.OK, [20]]);
});

test("no pause reaches the deadline", async () => {
  assert.deepEqual(await run([failure(U)], { deadline: 10 }), [1, U, []]);
  assert.deepEqual(await run([failure(U)], { deadline: 11 }), [2, status.OK, [10]]);
});

test("retries have a budget", async () => {
  const budget = new Budget();
  let made = 0;
  for (let i = 0; i < 20; i++) made += (await run(new Array(100).fill(failure(U)), { budget }))[0];
  assert.equal(made, 20 + 5, "half of ten tokens are spent on retries");
});

test("successes earn", () => {
  const budget = new Budget();
  while (budget.spend());
  for (let i = 0; i < 20; i++) budget.earn();
  assert.equal(budget.spend(), true);
  assert.equal(budget.spend(), false);
});

function answer(statuses: KeyStatus[], unprocessedKeys: number[] = []): Answer {
  const results = statuses.map((s) => create(KeyResultSchema, {
    status: s, error: s <= 2 ? "" : "why", rows: s === KeyStatus.FOUND ? [create(RowSchema, { values: [encode(2n ** 63n - 1n)] })] : [],
  }));
  const columns = [create(ColumnSchema, { name: "__proto__", type: create(TypeSchema) })];
  const keys = statuses.map((_, i) => `secret-${i}`);
  return new Answer(create(BatchGetRequestSchema), keys, create(BatchGetResponseSchema, { columns, results, unprocessedKeys }));
}

const at = (a: Answer, i: number): Result => a.results[i] as Result;

test("a key without answer has no rows", () => {
  const a = answer([1, 2, 3], [2]);
  assert.equal(at(a, 0).rows[0]?.["__proto__"], 2n ** 63n - 1n, "any name of a column");
  assert.equal(at(a, 0).rows[0]?.["toString"], undefined, "absent");
  assert.deepEqual(at(a, 1).rows, []);
  assert.throws(() => at(a, 2).rows, UnansweredError);
  assert.equal(a.partial, true);
  assert.throws(() => a.requireAll(), (error: Error) => error instanceof UnansweredError && !error.message.includes("secret"));
});

test("answers are merged", () => {
  const a = answer([3, 1, 5, 3], [0, 2, 3]);
  const b = a.merged(a.unprocessed, answer([1, 3, 2], [1]));
  assert.deepEqual(b.results.map((r) => r.status), ["FOUND", "FOUND", "TIMED_OUT", "NOT_FOUND"]);
  assert.deepEqual(b.results.map((r) => r.key), a.keys);
  assert.deepEqual(b.unprocessed, [2]);
  assert.equal(at(b, 0).rows.length, 1);
  assert.deepEqual(a.results.map((r) => r.status), ["TIMED_OUT", "FOUND", "SHED", "TIMED_OUT"]);
});

test("a part of a lookup", () => {
  const request = create(BatchGetRequestSchema, {
    keyspace: "a", table: "b", keys: ["x", "y", "z"].map((c) => create(KeySchema, { components: [encode(c)] })), pageTokens: ["1", "2", "3"],
    paging: true, optionalKeys: [1], minKeys: 2, columns: ["c"], softDeadline: durationFromMs(1),
  });
  const p = part(request, [0, 2]);
  assert.deepEqual(p.keys.map((k) => k.components[0]?.kind.value), ["x", "z"]);
  assert.deepEqual([p.pageTokens, p.optionalKeys, p.minKeys, p.softDeadline], [["1", "3"], [], 0, undefined]);
  assert.deepEqual([p.keyspace, p.table, p.columns, p.paging], ["a", "b", ["c"], true]);
  assert.equal(request.keys.length, 3);
});

test("a newer status", () => {
  assert.equal(at(answer([99 as KeyStatus]), 0).status, "FAILED");
});

test("wrong options and lookups", async () => {
  assert.throws(() => new Client("127.0.0.1:1", { token: "secret" }), /unencrypted/);
  assert.throws(() => new Client("127.0.0.1:1", { keepalive: 1000 }), /keepalive/);
  for (const [target, more] of [["unix:///x", {}], ["127.0.0.1:1", { plaintextToken: true }], ["127.0.0.1:1", { tls: {} }]] as const) {
    new Client(target, { token: "secret", ...more }).close();
  }
  const client = new Client("127.0.0.1:1");
  await assert.rejects(client.batchGet("products", ["a"]), /keyspace\.table/);
  await assert.rejects(client.batchGet("a.b", [{} as never]), TypeError);
  await assert.rejects(client.batchGet("a.b", ["a"], { where: [{ column: "c", operator: "!=" as never, value: 1 }] }), /operator/);
  client.close();
});

test("a lookup ends when its caller gives up", async () => {
  const client = new Client("127.0.0.1:1", { retries: 0 });
  await assert.rejects(client.batchGet("a.b", ["a"], { signal: AbortSignal.abort() }), { name: "LookupError", code: status.CANCELLED });
  client.close();
});
