/* When a call that failed is made again. The policy is that of every client: api/clients.md. */
import { status } from "@grpc/grpc-js";

import { LookupError } from "./answer.js";

/** The mean pause in milliseconds before the first retry where the proxy asks for none, doubled each time. */
export const FIRST_PAUSE = 10;
const LONGEST_PAUSE = 1000;

/** What passes and what is drawn; replaced in tests. */
export interface World {
  /** The time in milliseconds. */
  now(): number;
  /** Resolves after so many milliseconds. */
  sleep(milliseconds: number): Promise<void>;
  /** A number from 0 up to 1. */
  random(): number;
}

export const realWorld: World = {
  now: () => performance.now(),
  sleep: (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds)),
  random: Math.random,
};

const FULL = 100; // in tenths of a token

/**
 * Keeps retries from multiplying the load of proxies that fail: a failure costs a token, a success
 * earns a tenth of one, and a retry needs half of all ten.
 */
export class Budget {
  private tenths = FULL;

  /** Credits a success. */
  earn(): void {
    this.tenths = Math.min(this.tenths + 1, FULL);
  }

  /** Charges a failure, and tells whether a retry may follow. */
  spend(): boolean {
    this.tenths = Math.max(this.tenths - 10, 0);
    return this.tenths >= FULL / 2;
  }
}

/** Makes calls, and again where that may help. */
export class Retries {
  readonly budget = new Budget();

  constructor(private readonly most: number, private readonly shed: boolean, readonly world: World = realWorld) {}

  /** What the first attempt resolves to that does not throw, or the LookupError of the last, made before a deadline. */
  async call<T>(attempt: () => Promise<T>, deadline: number): Promise<T> {
    let mean = FIRST_PAUSE;
    for (let made = 0; ; made++) {
      try {
        const out = await attempt();
        this.budget.earn();
        return out;
      } catch (error) {
        const pause = error instanceof LookupError ? this.pause(error, mean) : undefined;
        if (pause === undefined || made >= this.most || !this.budget.spend() || !(await this.wait(pause, deadline))) throw error;
      }
      mean = Math.min(2 * mean, LONGEST_PAUSE);
    }
  }

  /** A pause between none and twice the mean. */
  jitter(mean: number): number {
    return 2 * mean * this.world.random();
  }

  /** Pauses, unless no time would be left then. */
  async wait(pause: number, deadline: number): Promise<boolean> {
    if (deadline - this.world.now() <= pause) return false;
    await this.world.sleep(pause);
    return true;
  }

  /** After how many milliseconds another attempt may help; undefined for never. */
  private pause(error: LookupError, mean: number): number | undefined {
    const unavailable = error.code === status.UNAVAILABLE;
    // Not of a proxy: the connection failed. A proxy that is gone takes many callers with it, who
    // should not come back all at once.
    if (unavailable && error.reason === "") return this.jitter(mean);
    const shed = this.shed && error.code === status.RESOURCE_EXHAUSTED;
    if (error.retryAfter !== undefined && (unavailable || shed)) return error.retryAfter * (1 + 0.2 * this.world.random());
    return undefined;
  }
}
