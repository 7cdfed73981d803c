package io.github.qosproxy;

import com.google.protobuf.Duration;
import io.github.qosproxy.v1.BatchGetRequest;
import io.github.qosproxy.v1.Order;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.function.Consumer;
import java.util.stream.Stream;

/**
 * Asks for the rows of many keys of one table. It is immutable: each method that sets something
 * returns another lookup.
 */
public final class Lookup {
  private final List<Key> keys;
  private final BatchGetRequest request;
  private final java.time.Duration timeout;

  private Lookup(List<Key> keys, BatchGetRequest request, java.time.Duration timeout) {
    this.keys = keys;
    this.request = request;
    this.timeout = timeout;
  }

  /**
   * A lookup of keys of a table.
   *
   * @param table keyspace.table as Cassandra stores the names: unquoted, case preserved
   * @param keys a Key each, or the value of the only partition key column
   * @throws IllegalArgumentException if a value is of no CQL type
   */
  public static Lookup of(String table, Collection<?> keys) {
    int dot = table.indexOf('.');
    if (dot < 0) {
      throw new IllegalArgumentException("the table is \"" + table + "\"; write keyspace.table");
    }
    List<Key> list = keys.stream().map(Lookup::key).toList();
    var request = BatchGetRequest.newBuilder().setKeyspace(table.substring(0, dot)).setTable(table.substring(dot + 1));
    for (Key key : list) {
      var components = request.addKeysBuilder();
      key.components().forEach(c -> components.addComponents(Values.encode(c)));
    }
    return new Lookup(list, request.build(), null);
  }

  private static Key key(Object given) {
    return given instanceof Key key ? key : new Key(java.util.Collections.singletonList(given));
  }

  /** The same with the keys one by one. */
  public static Lookup of(String table, Object... keys) {
    return of(table, Arrays.asList(keys));
  }

  private Lookup with(Consumer<BatchGetRequest.Builder> change) {
    BatchGetRequest.Builder builder = request.toBuilder();
    change.accept(builder);
    return new Lookup(keys, builder.build(), timeout);
  }

  /** The columns to return, in this order; none means all that may be read. writetime(name) and ttl(name) are columns, too. */
  public Lookup columns(String... columns) {
    return with(r -> r.clearColumns().addAllColumns(Arrays.asList(columns)));
  }

  /** The most rows of one key; 0 means all, up to the limit of the table, beyond which the key is TOO_LARGE. */
  public Lookup limit(int rows) {
    return with(r -> r.setLimitPerKey(rows));
  }

  /**
   * What the lookup takes at most. Shortly before, the proxy answers with the keys it has. Null is the
   * timeout of the client.
   */
  public Lookup timeout(java.time.Duration most) {
    return new Lookup(keys, request, most);
  }

  /** Which rows of each key. */
  public Lookup where(Condition... conditions) {
    return with(r -> r.clearWhere().addAllWhere(Stream.of(conditions).map(Condition::proto).toList()));
  }

  /** Returns the rows of a key from the last to the first. */
  public Lookup reverse() {
    return with(r -> r.setOrder(Order.ORDER_REVERSE));
  }

  /** The consistency level in CQL's words, among those of the table. */
  public Lookup consistency(String level) {
    return with(r -> r.setConsistency(level));
  }

  /** After which time the lookup ends if so many keys are answered. */
  public Lookup softDeadline(java.time.Duration after, int minKeys) {
    Duration d = Duration.newBuilder().setSeconds(after.getSeconds()).setNanos(after.getNano()).build();
    return with(r -> r.setSoftDeadline(d).setMinKeys(minKeys));
  }

  /** Positions of keys that are the first to be shed under load. */
  public Lookup optional(Collection<Integer> positions) {
    return with(r -> r.clearOptionalKeys().addAllOptionalKeys(positions));
  }

  /**
   * Returns the rows in pages of limit.
   *
   * @param tokens where each key goes on: its nextPageToken of the page before, or empty; none begins
   *     every key
   */
  public Lookup paging(String... tokens) {
    return with(r -> r.setPaging(true).clearPageTokens().addAllPageTokens(Arrays.asList(tokens)));
  }

  /** The keys. */
  public List<Key> keys() {
    return keys;
  }

  /** What the lookup takes at most; null is the timeout of the client. */
  public java.time.Duration timeout() {
    return timeout;
  }

  /** The lookup as the proxy takes it. */
  public BatchGetRequest request() {
    return request;
  }

  /** The same lookup of some of its keys. */
  Lookup part(List<Integer> positions) {
    BatchGetRequest.Builder some = request.toBuilder();
    // What was shed as optional is wanted now, and all that is asked for.
    some.clearKeys().clearPageTokens().clearOptionalKeys().clearMinKeys().clearSoftDeadline();
    for (int i : positions) {
      some.addKeys(request.getKeys(i));
      if (request.getPageTokensCount() > 0) {
        some.addPageTokens(request.getPageTokens(i));
      }
    }
    return new Lookup(positions.stream().map(keys::get).toList(), some.build(), timeout);
  }
}
