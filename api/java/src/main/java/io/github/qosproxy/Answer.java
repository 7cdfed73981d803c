package io.github.qosproxy;

import io.github.qosproxy.v1.BatchGetResponse;
import io.github.qosproxy.v1.Column;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;

/** The results of a lookup, one for each key, in the order of the keys. It is immutable. */
public final class Answer implements Iterable<Result> {
  private final Lookup lookup;
  private final BatchGetResponse proto;
  private final List<Result> results;
  private final List<Column> columns;
  private final List<Integer> unprocessed;

  Answer(Lookup lookup, BatchGetResponse proto) {
    this(lookup, proto, results(lookup, proto), proto.getColumnsList(), proto.getUnprocessedKeysList());
  }

  private Answer(
      Lookup lookup, BatchGetResponse proto, List<Result> results, List<Column> columns, List<Integer> unprocessed) {
    this.lookup = lookup;
    this.proto = proto;
    this.results = List.copyOf(results);
    this.columns = columns;
    this.unprocessed = List.copyOf(unprocessed);
  }

  private static List<Result> results(Lookup lookup, BatchGetResponse proto) {
    Columns columns = new Columns(proto.getColumnsList());
    List<Result> out = new ArrayList<>(proto.getResultsCount());
    for (int i = 0; i < proto.getResultsCount(); i++) {
      out.add(new Result(i, lookup.keys().get(i), proto.getResults(i), columns));
    }
    return out;
  }

  /** This answer with the results of a later one for its unprocessed keys. */
  Answer merged(Answer later) {
    List<Result> all = new ArrayList<>(results);
    Columns named = new Columns(later.columns);
    for (Result r : later) {
      int at = unprocessed.get(r.index());
      all.set(at, new Result(at, lookup.keys().get(at), r.proto(), named));
    }
    List<Integer> left = later.unprocessed.stream().map(unprocessed::get).toList();
    return new Answer(lookup, later.proto, all, columns.isEmpty() ? later.columns : columns, left);
  }

  /** The lookup that was made. */
  public Lookup lookup() {
    return lookup;
  }

  /** The answer as it came, with its counts; that of the last request when keys were asked again. */
  public BatchGetResponse proto() {
    return proto;
  }

  /** The results by position. */
  public List<Result> results() {
    return results;
  }

  /** The result of the key at a position. */
  public Result get(int index) {
    return results.get(index);
  }

  @Override
  public Iterator<Result> iterator() {
    return results.iterator();
  }

  /** The columns of the rows, in the order of SELECT * or of the lookup. */
  public List<Column> columns() {
    return columns;
  }

  /** Positions of the keys for which asking again may help: timed out, unavailable or shed. */
  public List<Integer> unprocessed() {
    return unprocessed;
  }

  /** Whether some key was not answered. */
  public boolean isPartial() {
    return results.stream().anyMatch(r -> !r.isAnswered());
  }

  /**
   * Returns the answer itself.
   *
   * @throws UnansweredException unless every key was answered
   */
  public Answer requireAll() {
    List<Result> missing = results.stream().filter(r -> !r.isAnswered()).toList();
    if (!missing.isEmpty()) {
      throw new UnansweredException(missing, results.size());
    }
    return this;
  }
}
