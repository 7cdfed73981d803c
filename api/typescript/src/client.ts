/* Lookups through a proxy. */
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { Duration as ProtoDuration } from "@bufbuild/protobuf/wkt";
import * as grpc from "@grpc/grpc-js";

import { Answer, Key, type KeyLike, LookupError } from "./answer.js";
import {
  type BatchGetRequest, BatchGetRequestSchema, type BatchGetResponse, BatchGetResponseSchema, type Condition as ProtoCondition,
  ConditionSchema, KeySchema, Operator, Order, QosProxy,
} from "./gen/qosproxy/v1/qosproxy_pb.js";
import { FIRST_PAUSE, Retries } from "./retry.js";
import { type CqlValue, encode } from "./values.js";

/** How many milliseconds a call waits that has no timeout at all. */
export const PATIENCE = 10_000;

/** The shortest interval of pings, in milliseconds, that a proxy tolerates. */
export const MIN_KEEPALIVE = 10_000;

/** TLS by PEM. Without ca the roots of Node.js are trusted. */
export interface Tls {
  ca?: Buffer;
  cert?: Buffer;
  key?: Buffer;
  /** What the certificate of the proxy must be for, where that is not the name of the target. */
  serverName?: string;
}

/** How to reach a proxy. */
export interface ClientOptions {
  /** Encrypts the connection; undefined does not. */
  tls?: Tls | grpc.ChannelCredentials;
  /**
   * The bearer token of the client, or what returns it for each call anew. It needs TLS or a unix
   * socket, or plaintextToken.
   */
  token?: string | (() => string | Promise<string>);
  /** Lets the token go without TLS where something else encrypts, such as a service mesh. */
  plaintextToken?: boolean;
  /** Says over a unix socket who the client is. */
  socketName?: string;
  /**
   * The milliseconds that a lookup takes at most which names no timeout itself. Undefined sends no
   * deadline, so that the timeout of the table applies, and gives up after 10 s.
   */
  timeout?: number;
  /** How often a call is made again at most that failed as a whole; 0 is never, and 2 the default. */
  retries?: number;
  /**
   * Also repeats lookups that were shed, after the time that the proxy asks for. It adds load where
   * there is too much already.
   */
  retryShed?: boolean;
  /** The milliseconds between pings of an idle connection, no less than 10 s; 20 s is the default, and 0 pings never. */
  keepalive?: number;
  /** The largest answer that is taken; 64 MiB is the default. */
  maxAnswerBytes?: number;
  /** Further options of the channel; they come last and so prevail. */
  channel?: grpc.ChannelOptions;
}

const operators = {
  "=": Operator.EQUAL, "in": Operator.IN, ">": Operator.GREATER, ">=": Operator.GREATER_OR_EQUAL, "<": Operator.LESS, "<=": Operator.LESS_OR_EQUAL,
} as const;

/** Restricts a clustering column behind those that the keys name. */
export type Condition =
  | { column: string; operator: Exclude<keyof typeof operators, "in">; value: CqlValue }
  | { column: string; operator: "in"; value: Iterable<CqlValue> };

/** How long a lookup may take, and what ends it. */
export interface CallOptions {
  /**
   * The milliseconds that it takes at most. Shortly before, the proxy answers with the keys it has.
   * Undefined is the timeout of the client.
   */
  timeout?: number;
  /** Ends it with CANCELLED. */
  signal?: AbortSignal;
}

/** What a lookup reads besides its keys. */
export interface LookupOptions extends CallOptions {
  /** The columns in this order; undefined means all that may be read. writetime(name) and ttl(name) are columns, too. */
  columns?: string[];
  /** The most rows of one key; 0 means all, up to the limit of the table, beyond which the key is TOO_LARGE. */
  limit?: number;
  /** Which rows of each key. */
  where?: Condition[];
  /** Whether the rows of a key come from the last to the first. */
  reverse?: boolean;
  /** The level in CQL's words, among those of the table; undefined is that of the table. */
  consistency?: string;
  /** The milliseconds after which the lookup ends if minKeys are answered. */
  softDeadline?: number;
  /** How many keys must be answered for the lookup to end at its soft deadline; 1 is the default. */
  minKeys?: number;
  /** Positions of keys that are the first to be shed under load. */
  optional?: number[];
  /** Returns the rows in pages of limit; pageTokens say where each key goes on. */
  paging?: boolean;
  /** By position the nextPageToken of the page before, or empty for the first page. */
  pageTokens?: string[];
}

const method = `/${QosProxy.typeName}/${QosProxy.method.batchGet.name}`;
const serviceConfig = { loadBalancingConfig: [{ round_robin: {} }] };

/** Makes lookups; one is enough for a process. */
export class Client {
  private readonly retries: Retries;
  private readonly client: grpc.Client;

  /**
   * A client of the proxies at a target in gRPC's notation, such as
   * dns:///qosproxy.example.org:50051 or unix:///run/qosproxy/grpc.sock. It connects when first used.
   */
  constructor(target: string, private readonly options: ClientOptions = {}) {
    const socket = target.startsWith("unix:") || target.startsWith("unix-abstract:");
    if (options.token !== undefined && options.tls === undefined && !options.plaintextToken && !socket) {
      throw new TypeError(`a token would go unencrypted to ${target}; set tls, or plaintextToken where the network encrypts`);
    }
    const keepalive = options.keepalive ?? 20_000;
    if (keepalive > 0 && keepalive < MIN_KEEPALIVE) {
      throw new RangeError(`a keepalive of ${keepalive} ms is below the ${MIN_KEEPALIVE} ms that a proxy tolerates`);
    }
    this.retries = new Retries(options.retries ?? 2, options.retryShed ?? false);
    this.client = new grpc.Client(target, credentials(options.tls), channelOptions(options, keepalive));
  }

  /** Ends the connections; calls in flight fail. */
  close(): void {
    this.client.close();
  }

  /**
   * Reads the rows of many keys of a table. Rejects with a LookupError when none was answered;
   * otherwise the Answer tells what became of each.
   *
   * @param table keyspace.table as Cassandra stores the names: unquoted, case preserved
   * @param keys a Key each, or the value of the only partition key column
   */
  async batchGet(table: string, keys: Iterable<KeyLike>, options: LookupOptions = {}): Promise<Answer> {
    const dot = table.indexOf(".");
    if (dot < 0) throw new TypeError(`the table is ${JSON.stringify(table)}; write keyspace.table`);
    const list = [...keys];
    const request = create(BatchGetRequestSchema, {
      keyspace: table.slice(0, dot),
      table: table.slice(dot + 1),
      keys: list.map((key) => create(KeySchema, { components: (key instanceof Key ? key.components : [key]).map(encode) })),
      columns: options.columns ?? [],
      limitPerKey: options.limit ?? 0,
      where: options.where?.map(conditionOf) ?? [],
      order: options.reverse ? Order.REVERSE : Order.UNSPECIFIED,
      consistency: options.consistency ?? "",
      softDeadline: options.softDeadline === undefined ? undefined : durationOf(options.softDeadline),
      minKeys: options.minKeys ?? 0,
      optionalKeys: options.optional ?? [],
      paging: options.paging ?? false,
      pageTokens: options.pageTokens ?? [],
    });
    return this.get(request, list, options);
  }

  /**
   * Asks the unprocessed keys of an answer again, and those alone, and resolves to the answer with
   * what has come of them.
   *
   * It pauses before each of the rounds (one by default), and takes the timeout at most in all.
   * While the proxy is in trouble the retry budget ends it early. It never returns less than the
   * answer had, and rejects only for what is no failure of load or time, such as PERMISSION_DENIED.
   */
  async retryUnprocessed(answer: Answer, options: CallOptions & { rounds?: number } = {}): Promise<Answer> {
    const { now } = this.retries.world;
    const timeout = options.timeout ?? this.options.timeout;
    const deadline = now() + (timeout ?? PATIENCE);
    let mean = FIRST_PAUSE;
    let asked = 0;
    for (let round = 0; round < (options.rounds ?? 1) && answer.unprocessed.length > 0; round++) {
      if (!this.retries.budget.spend()) break;
      if (!(await this.retries.wait(Math.max(asked, this.retries.jitter(mean)), deadline))) break;
      mean *= 2;
      const positions = answer.unprocessed;
      const left = timeout === undefined ? undefined : deadline - now();
      const keys = positions.map((i) => answer.keys[i] ?? null);
      const [later, retryAfter] = await this.again(part(answer.request, positions), keys, { timeout: left, signal: options.signal });
      if (later !== undefined) answer = answer.merged(positions, later);
      asked = retryAfter;
    }
    return answer;
  }

  /** The answer of keys that are asked again, if anything came of it, and the pause that the proxy asks for. */
  private async again(request: BatchGetRequest, keys: readonly KeyLike[], options: CallOptions): Promise<[Answer | undefined, number]> {
    try {
      return [await this.get(request, keys, options), 0];
    } catch (error) {
      if (!(error instanceof LookupError)) throw error;
      const passes = [grpc.status.UNAVAILABLE, grpc.status.RESOURCE_EXHAUSTED, grpc.status.DEADLINE_EXCEEDED].includes(error.code);
      if (error.answer === undefined && !passes) throw error;
      return [error.answer, error.retryAfter ?? 0];
    }
  }

  private get(request: BatchGetRequest, keys: readonly KeyLike[], options: CallOptions): Promise<Answer> {
    const { now } = this.retries.world;
    const timeout = options.timeout ?? this.options.timeout;
    const deadline = now() + (timeout ?? PATIENCE);
    const attempt = (): Promise<Answer> => this.attempt(request, keys, Math.max(deadline - now(), 0), timeout !== undefined, options.signal);
    return this.retries.call(attempt, deadline);
  }

  /** Makes one call, which ends in left milliseconds. Unless that is sent as the deadline, the timeout of the table applies. */
  private async attempt(request: BatchGetRequest, keys: readonly KeyLike[], left: number, sent: boolean, signal?: AbortSignal): Promise<Answer> {
    const metadata = await this.metadata();
    const response = await new Promise<BatchGetResponse>((resolve, reject) => {
      const cancelled = (): void => call.cancel();
      let patience: NodeJS.Timeout | undefined;
      let impatient = false;
      const call = this.client.makeUnaryRequest<BatchGetRequest, BatchGetResponse>(
        method,
        (message) => Buffer.from(toBinary(BatchGetRequestSchema, message)),
        (bytes) => fromBinary(BatchGetResponseSchema, bytes),
        request,
        metadata,
        sent ? { deadline: Date.now() + left } : {},
        (failed, out) => {
          clearTimeout(patience);
          signal?.removeEventListener("abort", cancelled);
          if (impatient) {
            const text = `no answer within ${PATIENCE / 1000} s of a call without timeout`;
            reject(new LookupError(grpc.status.DEADLINE_EXCEEDED, text));
          } else if (failed !== null) reject(LookupError.of(failed, request, keys));
          else if (out?.results.length === keys.length) resolve(out);
          else reject(new LookupError(grpc.status.INTERNAL, "the proxy answered another number of keys than were asked"));
        },
      );
      if (!sent) {
        patience = setTimeout(() => {
          impatient = true;
          call.cancel();
        }, left);
      }
      if (signal?.aborted) call.cancel();
      signal?.addEventListener("abort", cancelled);
    });
    return new Answer(request, keys, response);
  }

  /** What tells the proxy who the client is. */
  private async metadata(): Promise<grpc.Metadata> {
    const { socketName, token } = this.options;
    const out = new grpc.Metadata();
    if (socketName !== undefined) out.set("qosproxy-client", socketName);
    if (token !== undefined) out.set("authorization", `Bearer ${typeof token === "string" ? token : await token()}`);
    return out;
  }
}

function conditionOf({ column, operator, value }: Condition): ProtoCondition {
  const number = operators[operator] as Operator | undefined;
  if (number === undefined) throw new TypeError(`the operator of a condition is ${operator}; it is one of ${Object.keys(operators).join(" ")}`);
  const values = operator === "in" ? [...value] : [value];
  return create(ConditionSchema, { column, operator: number, values: values.map(encode) });
}

function durationOf(milliseconds: number): ProtoDuration {
  const nanos = BigInt(Math.round(milliseconds * 1e6));
  return { $typeName: "google.protobuf.Duration", seconds: nanos / 1_000_000_000n, nanos: Number(nanos % 1_000_000_000n) };
}

/** The same lookup of some of its keys. */
export function part(request: BatchGetRequest, positions: readonly number[]): BatchGetRequest {
  const some = <T>(all: T[]): T[] => positions.flatMap((i) => all.slice(i, i + 1));
  // What was shed as optional is wanted now, and all that is asked for.
  return create(BatchGetRequestSchema, {
    ...request, keys: some(request.keys), pageTokens: some(request.pageTokens), optionalKeys: [], minKeys: 0, softDeadline: undefined,
  });
}

function credentials(tls: ClientOptions["tls"]): grpc.ChannelCredentials {
  if (tls === undefined) return grpc.credentials.createInsecure();
  if (tls instanceof grpc.ChannelCredentials) return tls;
  return grpc.credentials.createSsl(tls.ca ?? null, tls.key ?? null, tls.cert ?? null);
}

function channelOptions(options: ClientOptions, keepalive: number): grpc.ChannelOptions {
  const bytes = options.maxAnswerBytes ?? 64 << 20;
  const out: grpc.ChannelOptions = {
    "grpc.service_config": JSON.stringify(serviceConfig),
    "grpc.enable_retries": 0, // Those of gRPC do not know which failures a retry can help.
    "grpc.max_receive_message_length": bytes,
    "grpc.max_send_message_length": bytes,
  };
  if (keepalive > 0) {
    out["grpc.keepalive_time_ms"] = keepalive;
    out["grpc.keepalive_timeout_ms"] = 5000;
    out["grpc.keepalive_permit_without_calls"] = 1;
  }
  if (options.tls !== undefined && !(options.tls instanceof grpc.ChannelCredentials) && options.tls.serverName !== undefined) {
    out["grpc.ssl_target_name_override"] = options.tls.serverName;
  }
  return { ...out, ...options.channel };
}
