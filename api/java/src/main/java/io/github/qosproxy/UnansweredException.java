package io.github.qosproxy;

import java.util.List;

/** Some keys were not answered. The message names positions, never keys, which may be secret. */
public final class UnansweredException extends RuntimeException {
  private static final long serialVersionUID = 1;

  private final transient List<Result> results;

  UnansweredException(List<Result> results, int asked) {
    super(message(results.get(0), results.size(), asked));
    this.results = List.copyOf(results);
  }

  private static String message(Result first, int missing, int asked) {
    return "%d of %d keys were not answered: key %d: %s: %s"
        .formatted(missing, asked, first.index(), first.status(), first.error());
  }

  /** The results of these keys, by position. */
  public List<Result> results() {
    return results;
  }
}
