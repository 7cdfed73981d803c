package io.github.qosproxy;

import io.github.qosproxy.v1.KeyResult;
import java.util.List;
import java.util.Locale;

/** What became of one key. */
public final class Result {
  private static final String PREFIX = "REASON_";

  private final int index;
  private final Key key;
  private final KeyResult proto;
  private final Columns columns;

  Result(int index, Key key, KeyResult proto, Columns columns) {
    this.index = index;
    this.key = key;
    this.proto = proto;
    this.columns = columns;
  }

  /** The position of the key in the lookup. */
  public int index() {
    return index;
  }

  /** The key. */
  public Key key() {
    return key;
  }

  /** The result as it came. */
  public KeyResult proto() {
    return proto;
  }

  /** What became of the key. */
  public Status status() {
    return Status.of(proto.getStatus());
  }

  /** Whether a replica has answered the key: FOUND or NOT_FOUND. */
  public boolean isAnswered() {
    return status().isAnswered();
  }

  /** Why the key was not answered, in a word of reasons.md such as soft_deadline; empty when it was. */
  public String reason() {
    return switch (proto.getReason()) {
      // What a newer proxy says and this package does not know is told by the status.
      case REASON_UNSPECIFIED, UNRECOGNIZED -> "";
      default -> proto.getReason().name().substring(PREFIX.length()).toLowerCase(Locale.ROOT);
    };
  }

  /** Why the key was not answered, in a sentence; empty when it was. */
  public String error() {
    return proto.getError();
  }

  /** Names the page behind the rows; empty when there is none, or the lookup was not paged. */
  public String nextPageToken() {
    return proto.getNextPageToken();
  }

  /**
   * The rows in the order that was asked for; none for a key that is NOT_FOUND.
   *
   * @throws UnansweredException for one that was not answered, which may have rows
   */
  public List<Row> rows() {
    if (!isAnswered()) {
      throw new UnansweredException(List.of(this), index + 1);
    }
    return proto.getRowsList().stream().map(row -> new Row(columns, row)).toList();
  }
}
