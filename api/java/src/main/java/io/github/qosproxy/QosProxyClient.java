package io.github.qosproxy;

import io.github.qosproxy.v1.BatchGetResponse;
import io.github.qosproxy.v1.QosProxyGrpc;
import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.Status.Code;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.MetadataUtils;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Supplier;

/** Makes lookups. It is safe for use by many threads; one is enough for a process. */
public final class QosProxyClient implements AutoCloseable {
  /** How long a call waits that has no timeout at all. */
  public static final Duration PATIENCE = Duration.ofSeconds(10);

  /** The shortest interval of pings that a proxy tolerates. */
  public static final Duration MIN_KEEPALIVE = Duration.ofSeconds(10);

  /** Calls go to the ready proxies of the target in turn. */
  private static final Map<String, ?> SERVICE_CONFIG = Map.of(
      "loadBalancingConfig", List.of(Map.of("round_robin", Map.of())), "healthCheckConfig", Map.of("serviceName", ""));

  /** What may pass by itself: no failure of the request. */
  private static final Set<Code> PASSING = Set.of(Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.DEADLINE_EXCEEDED);

  private static final Metadata.Key<String> AUTHORIZATION = ascii("authorization");
  private static final Metadata.Key<String> SOCKET_NAME = ascii("qosproxy-client");

  private final Builder options;
  private final Retries retries;
  private final ManagedChannel channel;

  private QosProxyClient(Builder options, ManagedChannel channel) {
    this.options = options;
    this.channel = channel;
    retries = new Retries(options.retries, options.retryShed);
  }

  private static Metadata.Key<String> ascii(String name) {
    return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
  }

  /**
   * A builder of a client of the proxies at a target in gRPC's notation, such as
   * dns:///qosproxy.example.org:50051 or unix:///run/qosproxy/grpc.sock (on Linux).
   */
  public static Builder builder(String target) {
    return new Builder(target);
  }

  /** How to reach a proxy. */
  public static final class Builder {
    private final String target;
    private ChannelCredentials tls;
    private Supplier<String> token;
    private boolean plaintextToken;
    private String socketName;
    private Duration timeout;
    private int retries = 2;
    private boolean retryShed;
    private Duration keepalive = Duration.ofSeconds(20);
    private int maxAnswerBytes = 64 << 20;
    private Consumer<ManagedChannelBuilder<?>> channel = c -> {};

    private Builder(String target) {
      this.target = target;
    }

    /** Encrypts the connection, such as by TlsChannelCredentials. */
    public Builder tls(ChannelCredentials credentials) {
      tls = credentials;
      return this;
    }

    /** The bearer token of the client, asked for each call anew. It needs TLS or a unix socket. */
    public Builder token(Supplier<String> supplier) {
      token = supplier;
      return this;
    }

    /** Lets the token go without TLS where something else encrypts, such as a service mesh. */
    public Builder plaintextToken() {
      plaintextToken = true;
      return this;
    }

    /** Says over a unix socket who the client is. */
    public Builder socketName(String name) {
      socketName = name;
      return this;
    }

    /**
     * What a lookup takes at most that has no timeout itself. By default no deadline is sent, so that
     * the timeout of the table applies, and the client gives up after 10 s.
     */
    public Builder timeout(Duration most) {
      timeout = most;
      return this;
    }

    /** How often a call is made again at most that failed as a whole; 0 is never, and 2 the default. */
    public Builder retries(int most) {
      retries = most;
      return this;
    }

    /**
     * Also repeats lookups that were shed, after the time that the proxy asks for. It adds load where
     * there is too much already.
     */
    public Builder retryShed() {
      retryShed = true;
      return this;
    }

    /** The interval of pings of an idle connection, no less than 10 s; 20 s is the default, and 0 pings never. */
    public Builder keepalive(Duration interval) {
      if (!interval.isZero() && interval.compareTo(MIN_KEEPALIVE) < 0) {
        throw new IllegalArgumentException(
            "a keepalive of " + interval + " is below the " + MIN_KEEPALIVE + " that a proxy tolerates");
      }
      keepalive = interval;
      return this;
    }

    /** The largest answer that is taken; 64 MiB is the default. */
    public Builder maxAnswerBytes(int bytes) {
      maxAnswerBytes = bytes;
      return this;
    }

    /** Changes the channel; it comes last and so prevails. */
    public Builder channel(Consumer<ManagedChannelBuilder<?>> change) {
      channel = change;
      return this;
    }

    /**
     * Returns the client, which connects when first used.
     *
     * @throws IllegalArgumentException if a token would go unencrypted
     */
    public QosProxyClient build() {
      if (token != null && tls == null && !plaintextToken && !target.startsWith("unix:")) {
        throw new IllegalArgumentException(
            "a token would go unencrypted to " + target + "; set tls, or plaintextToken where the network encrypts");
      }
      ManagedChannelBuilder<?> out =
          Grpc.newChannelBuilder(target, tls == null ? InsecureChannelCredentials.create() : tls)
              .defaultServiceConfig(SERVICE_CONFIG)
              .disableRetry() // Those of gRPC do not know which failures a retry can help.
              .maxInboundMessageSize(maxAnswerBytes);
      if (!keepalive.isZero()) {
        out.keepAliveTime(keepalive.toNanos(), TimeUnit.NANOSECONDS)
            .keepAliveTimeout(5, TimeUnit.SECONDS)
            .keepAliveWithoutCalls(true);
      }
      channel.accept(out);
      return new QosProxyClient(this, out.build());
    }
  }

  /** Ends the connections; calls in flight fail. */
  @Override
  public void close() {
    channel.shutdownNow();
  }

  /** Makes a lookup of keys, each a Key or the value of the only partition key column. */
  public Answer batchGet(String table, Collection<?> keys) {
    return batchGet(Lookup.of(table, keys));
  }

  /**
   * Reads the rows of many keys of a table. Unless it throws, some key was answered, and the answer
   * tells what became of each.
   *
   * @throws LookupException if none was answered
   */
  public Answer batchGet(Lookup lookup) {
    return get(lookup, timeout(lookup));
  }

  private Duration timeout(Lookup lookup) {
    return lookup.timeout() == null ? options.timeout : lookup.timeout();
  }

  private Answer get(Lookup lookup, Duration timeout) {
    long deadline = retries.now() + Objects.requireNonNullElse(timeout, PATIENCE).toNanos();
    return retries.call(() -> attempt(lookup, Math.max(deadline - retries.now(), 0), timeout != null), deadline);
  }

  /** Asks the unprocessed keys of an answer again in one round, with the timeout of the lookup. */
  public Answer retryUnprocessed(Answer answer) {
    return retryUnprocessed(answer, timeout(answer.lookup()), 1);
  }

  /**
   * Asks the unprocessed keys of an answer again, and those alone, and returns the answer with what has
   * come of them.
   *
   * <p>It pauses before each round, and takes the timeout at most in all. While the proxy is in
   * trouble the retry budget ends it early. It never returns less than the answer had.
   *
   * @param timeout of all rounds; null sends no deadline and gives up after 10 s
   * @param rounds how often at most
   * @throws LookupException only for what is no failure of load or time, such as PERMISSION_DENIED
   */
  public Answer retryUnprocessed(Answer answer, Duration timeout, int rounds) {
    long deadline = retries.now() + Objects.requireNonNullElse(timeout, PATIENCE).toNanos();
    Duration mean = Retries.FIRST_PAUSE;
    long asked = 0;
    for (int i = 0; i < rounds && !answer.unprocessed().isEmpty(); i++) {
      if (!retries.budget.spend() || !retries.waitFor(Math.max(asked, retries.jitter(mean)), deadline)) {
        break;
      }
      mean = Retries.longer(mean);
      asked = 0;
      Lookup rest = answer.lookup().part(answer.unprocessed());
      try {
        answer = answer.merged(get(rest, timeout == null ? null : Duration.ofNanos(deadline - retries.now())));
      } catch (LookupException e) {
        if (e.answer().isEmpty() && !PASSING.contains(e.code())) {
          throw e;
        }
        answer = e.answer().map(answer::merged).orElse(answer);
        asked = e.retryAfter().map(Duration::toNanos).orElse(0L);
      }
    }
    return answer;
  }

  /**
   * Makes one call, which ends after nanoseconds. Unless these are sent as the deadline, the timeout of
   * the table applies.
   */
  private Answer attempt(Lookup lookup, long left, boolean sent) {
    var stub = QosProxyGrpc.newFutureStub(channel).withInterceptors(MetadataUtils.newAttachHeadersInterceptor(metadata()));
    if (sent) {
      stub = stub.withDeadlineAfter(left, TimeUnit.NANOSECONDS);
    }
    stub = stub.withMaxOutboundMessageSize(options.maxAnswerBytes);
    var call = stub.batchGet(lookup.request());
    try {
      // A deadline ends the call by itself.
      return answer(lookup, sent ? call.get() : call.get(left, TimeUnit.NANOSECONDS));
    } catch (TimeoutException e) {
      call.cancel(true);
      String text = "no answer within " + PATIENCE.toSeconds() + " s of a call without timeout";
      throw new LookupException(Code.DEADLINE_EXCEEDED, text, e);
    } catch (InterruptedException e) {
      call.cancel(true);
      Thread.currentThread().interrupt();
      throw new LookupException(Code.CANCELLED, "the thread was interrupted", e);
    } catch (ExecutionException e) {
      if (e.getCause() instanceof StatusRuntimeException failed) {
        throw LookupException.of(failed, lookup);
      }
      throw new LookupException(Code.UNKNOWN, String.valueOf(e.getCause()), e);
    }
  }

  private static Answer answer(Lookup lookup, BatchGetResponse response) {
    if (response.getResultsCount() != lookup.keys().size()) {
      String text = "the proxy answered another number of keys than were asked";
      throw new LookupException(Code.INTERNAL, text, (Throwable) null);
    }
    return new Answer(lookup, response);
  }

  /** What tells the proxy who the client is. */
  private Metadata metadata() {
    Metadata out = new Metadata();
    if (options.socketName != null) {
      out.put(SOCKET_NAME, options.socketName);
    }
    if (options.token != null) {
      out.put(AUTHORIZATION, "Bearer " + options.token.get());
    }
    return out;
  }
}
