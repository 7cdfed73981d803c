package io.github.qosproxy;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/**
 * Says which rows are asked for.
 *
 * @param components the value of each partition key column, in key order, and of as many clustering
 *     columns as are named, in clustering order
 */
public record Key(List<Object> components) {
  /** Takes a copy of the components. */
  public Key {
    components = Collections.unmodifiableList(Arrays.asList(components.toArray()));
  }

  /** The key of such components. */
  public static Key of(Object... components) {
    return new Key(Arrays.asList(components));
  }
}
