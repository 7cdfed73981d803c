package io.github.qosproxy;

import io.grpc.Status.Code;
import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.DoubleSupplier;
import java.util.function.LongSupplier;
import java.util.function.Supplier;

/** When a call that failed is made again. The policy is that of every client: api/clients.md. */
final class Retries {
  /** The mean pause before the first retry where the proxy asks for none, doubled each time. */
  static final Duration FIRST_PAUSE = Duration.ofMillis(10);

  private static final Duration LONGEST_PAUSE = Duration.ofSeconds(1);

  /** Pauses for nanoseconds. */
  interface Sleeper {
    void sleep(long nanos) throws InterruptedException;
  }

  /**
   * Keeps retries from multiplying the load of proxies that fail: a failure costs a token, a success
   * earns a tenth of one, and a retry needs half of all ten.
   */
  static final class Budget {
    private static final int FULL = 100; // in tenths of a token
    private final AtomicInteger tenths = new AtomicInteger(FULL);

    /** Credits a success. */
    void earn() {
      tenths.updateAndGet(t -> Math.min(t + 1, FULL));
    }

    /** Charges a failure, and tells whether a retry may follow. */
    boolean spend() {
      return tenths.updateAndGet(t -> Math.max(t - 10, 0)) >= FULL / 2;
    }
  }

  final Budget budget;
  private final int most;
  private final boolean shed;
  private final LongSupplier clock;
  private final Sleeper sleeper;
  private final DoubleSupplier random;

  Retries(int most, boolean shed) {
    this(most, shed, new Budget(), System::nanoTime, TimeUnit.NANOSECONDS::sleep, () -> ThreadLocalRandom.current().nextDouble());
  }

  /** For tests, in a time of their own. */
  Retries(int most, boolean shed, Budget budget, LongSupplier clock, Sleeper sleeper, DoubleSupplier random) {
    this.most = most;
    this.shed = shed;
    this.budget = budget;
    this.clock = clock;
    this.sleeper = sleeper;
    this.random = random;
  }

  /** The time in nanoseconds. */
  long now() {
    return clock.getAsLong();
  }

  /** What the first attempt returns that does not fail, or the failure of the last, made before a deadline. */
  <T> T call(Supplier<T> attempt, long deadline) {
    Duration mean = FIRST_PAUSE;
    for (int made = 0; ; made++) {
      try {
        T out = attempt.get();
        budget.earn();
        return out;
      } catch (LookupException e) {
        long pause = pause(e, mean);
        if (pause < 0 || made >= most || !budget.spend() || !waitFor(pause, deadline)) {
          throw e;
        }
      }
      mean = longer(mean);
    }
  }

  /** Twice as long, up to a limit. */
  static Duration longer(Duration mean) {
    Duration twice = mean.multipliedBy(2);
    return twice.compareTo(LONGEST_PAUSE) > 0 ? LONGEST_PAUSE : twice;
  }

  /** A pause in nanoseconds between none and twice the mean. */
  long jitter(Duration mean) {
    return (long) (2 * mean.toNanos() * random.getAsDouble());
  }

  /** Pauses, unless no time would be left then, or the thread is interrupted. */
  boolean waitFor(long pause, long deadline) {
    if (deadline - now() <= pause) {
      return false;
    }
    try {
      sleeper.sleep(pause);
      return true;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return false;
    }
  }

  /** After how many nanoseconds another attempt may help; negative for never. */
  private long pause(LookupException e, Duration mean) {
    boolean unavailable = e.code() == Code.UNAVAILABLE;
    if (unavailable && e.reason().isEmpty()) {
      // Not of a proxy: the connection failed. A proxy that is gone takes many callers with it,
      // who should not come back all at once.
      return jitter(mean);
    }
    if (unavailable || shed && e.code() == Code.RESOURCE_EXHAUSTED) {
      return e.retryAfter().map(after -> (long) (after.toNanos() * (1 + 0.2 * random.getAsDouble()))).orElse(-1L);
    }
    return -1;
  }
}
