/* What became of a lookup. */
import { fromBinary } from "@bufbuild/protobuf";
import { type Any, anyUnpack, durationMs } from "@bufbuild/protobuf/wkt";
import { status as Code, type ServiceError } from "@grpc/grpc-js";

import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";
import { StatusSchema } from "./gen/google/rpc/status_pb.js";
import {
  type BatchGetRequest, type BatchGetResponse, BatchGetResponseSchema, type KeyResult, KeyStatus, Reason,
} from "./gen/qosproxy/v1/qosproxy_pb.js";
import type { Column } from "./gen/qosproxy/v1/value_pb.js";
import { type CqlValue, decode } from "./values.js";

/** The values of the components of a key: those of the partition key, and of clustering columns behind it. */
export class Key {
  readonly components: readonly CqlValue[];

  constructor(...components: CqlValue[]) {
    this.components = components;
  }
}

/** A key as a lookup names it: a Key, or the value of the only partition key column. */
export type KeyLike = Key | CqlValue;

/**
 * What became of one key. FOUND and NOT_FOUND were said by a replica; the others are of keys that were
 * not answered: in time, by any replica, for load, within the limits, or without a failure.
 */
export type Status = "FOUND" | "NOT_FOUND" | "TIMED_OUT" | "UNAVAILABLE" | "SHED" | "TOO_LARGE" | "FAILED";

// One that a newer proxy says is of a key that was not answered.
const statuses = new Map<KeyStatus, Status>([
  [KeyStatus.FOUND, "FOUND"], [KeyStatus.NOT_FOUND, "NOT_FOUND"], [KeyStatus.TIMED_OUT, "TIMED_OUT"],
  [KeyStatus.UNAVAILABLE, "UNAVAILABLE"], [KeyStatus.SHED, "SHED"], [KeyStatus.TOO_LARGE, "TOO_LARGE"],
]);

/** Values by the names of columns. A null is null; a column that was not asked for is absent. */
export type Row = { readonly [column: string]: CqlValue };

/** Some keys were not answered. The message names positions, never keys, which may be secret. */
export class UnansweredError extends Error {
  override readonly name = "UnansweredError";

  /** @param results those of these keys, by position */
  constructor(readonly results: readonly Result[], asked: number) {
    const first = results[0];
    super(`${results.length} of ${asked} keys were not answered: key ${first?.index}: ${first?.status}: ${first?.error}`);
  }
}

/** What became of one key. */
export class Result {
  private decoded: Row[] | undefined;

  /**
   * @param index the position of the key in the lookup
   * @param key the key as the lookup gave it
   * @param proto the result as it came
   */
  constructor(readonly index: number, readonly key: KeyLike, readonly proto: KeyResult, private readonly columns: readonly Column[]) {}

  /** What became of the key. */
  get status(): Status {
    return statuses.get(this.proto.status) ?? "FAILED";
  }

  /** Whether a replica has answered the key: FOUND or NOT_FOUND. */
  get answered(): boolean {
    return this.status === "FOUND" || this.status === "NOT_FOUND";
  }

  /** Why the key was not answered, in a word of reasons.md such as "soft_deadline"; empty when it was. */
  get reason(): string {
    // What a newer proxy says and this package does not know is told by the status.
    return this.proto.reason === Reason.UNSPECIFIED ? "" : (Reason[this.proto.reason] ?? "").toLowerCase();
  }

  /** Why the key was not answered, in a sentence; empty when it was. */
  get error(): string {
    return this.proto.error;
  }

  /** Names the page behind the rows; empty when there is none, or the lookup was not paged. */
  get nextPageToken(): string {
    return this.proto.nextPageToken;
  }

  /**
   * The rows in the order that was asked for; none for a key that is NOT_FOUND.
   * Throws UnansweredError for one that was not answered, which may have rows.
   */
  get rows(): readonly Row[] {
    if (!this.answered) throw new UnansweredError([this], this.index + 1);
    this.decoded ??= this.proto.rows.map((row) => {
      // Without a prototype any name of a column is one of its own.
      const out = Object.create(null) as Record<string, CqlValue>;
      this.columns.forEach((column, i) => {
        if (column.type !== undefined) out[column.name] = decode(column.type, row.values[i]);
      });
      return out;
    });
    return this.decoded;
  }
}

/** The results of a lookup, one for each key, in the order of the keys. */
export class Answer implements Iterable<Result> {
  /** The results by position. */
  readonly results: readonly Result[];
  /** The columns of the rows. */
  readonly columns: readonly Column[];
  /** Positions of the keys for which asking again may help: timed out, unavailable or shed. */
  readonly unprocessed: readonly number[];

  /**
   * @param request the lookup that was made
   * @param keys its keys as they were given
   * @param proto the answer as it came; that of the last request when keys were asked again
   */
  constructor(
    readonly request: BatchGetRequest, readonly keys: readonly KeyLike[], readonly proto: BatchGetResponse,
    merged?: Pick<Answer, "results" | "columns" | "unprocessed">,
  ) {
    this.columns = merged?.columns ?? proto.columns;
    this.unprocessed = merged?.unprocessed ?? proto.unprocessedKeys;
    this.results = merged?.results ?? proto.results.map((r, i) => new Result(i, keys[i] ?? null, r, proto.columns));
  }

  /** The results by position. */
  [Symbol.iterator](): Iterator<Result> {
    return this.results[Symbol.iterator]();
  }

  /** Whether some key was not answered. */
  get partial(): boolean {
    return this.results.some((r) => !r.answered);
  }

  /** The answer itself. Throws UnansweredError unless every key was answered. */
  requireAll(): this {
    const missing = this.results.filter((r) => !r.answered);
    if (missing.length > 0) throw new UnansweredError(missing, this.results.length);
    return this;
  }

  /** @internal This answer with the results of a later one for the keys at some positions. */
  merged(positions: readonly number[], later: Answer): Answer {
    const results = [...this.results];
    later.results.forEach((result, i) => {
      const at = positions[i] ?? 0;
      results[at] = new Result(at, this.keys[at] ?? null, result.proto, later.columns);
    });
    return new Answer(this.request, this.keys, later.proto, {
      results,
      columns: this.columns.length > 0 ? this.columns : later.columns,
      unprocessed: later.unprocessed.map((i) => positions[i] ?? 0),
    });
  }
}

/** A lookup failed as a whole. */
export class LookupError extends Error {
  override readonly name = "LookupError";
  /** The proxy's word for it, of reasons.md, such as "not_ready"; empty when no proxy answered. */
  reason = "";
  /** The part of the request at fault, such as keys[3]; empty when it is none. */
  field = "";
  /** The milliseconds after which asking again may help; undefined when that is no remedy, or no proxy says so. */
  retryAfter: number | undefined;
  /** The status of each key of a lookup of which none was answered; undefined for other failures. */
  answer: Answer | undefined;

  /**
   * @param code that of gRPC; qosproxy.proto tells what each means
   * @param details what is wrong and what to do
   */
  constructor(readonly code: Code, readonly details: string, options?: ErrorOptions) {
    super(`${Code[code]}: ${details}`, options);
  }

  /** @internal The error of a call that failed. */
  static of(failed: ServiceError, request: BatchGetRequest, keys: readonly KeyLike[]): LookupError {
    const out = new LookupError(failed.code, failed.details, { cause: failed });
    for (const raw of failed.metadata?.get("grpc-status-details-bin") ?? []) {
      for (const detail of fromBinary(StatusSchema, raw as Buffer).details) out.explain(detail, request, keys);
    }
    return out;
  }

  private explain(detail: Any, request: BatchGetRequest, keys: readonly KeyLike[]): void {
    const info = anyUnpack(detail, ErrorInfoSchema);
    if (info !== undefined) this.reason = info.metadata["reason"] ?? info.reason.toLowerCase();
    this.field = anyUnpack(detail, BadRequestSchema)?.fieldViolations[0]?.field ?? this.field;
    const delay = anyUnpack(detail, RetryInfoSchema)?.retryDelay;
    if (delay !== undefined) this.retryAfter = durationMs(delay) || undefined;
    const response = anyUnpack(detail, BatchGetResponseSchema);
    if (response !== undefined && response.results.length === keys.length) this.answer = new Answer(request, keys, response);
  }
}
