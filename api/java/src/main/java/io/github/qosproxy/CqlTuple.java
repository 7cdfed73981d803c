package io.github.qosproxy;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/**
 * A CQL tuple.
 *
 * @param elements all that its type has, of which some may be null
 */
public record CqlTuple(List<Object> elements) {
  /** Takes a copy of the elements. */
  public CqlTuple {
    elements = Collections.unmodifiableList(Arrays.asList(elements.toArray()));
  }

  /** The tuple of such elements. */
  public static CqlTuple of(Object... elements) {
    return new CqlTuple(Arrays.asList(elements));
  }
}
