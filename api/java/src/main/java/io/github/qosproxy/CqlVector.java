package io.github.qosproxy;

import java.util.List;

/**
 * A CQL vector.
 *
 * @param elements none of them null; all are a Float in a vector of floats
 */
public record CqlVector(List<Object> elements) {
  /** Takes a copy of the elements. */
  public CqlVector {
    elements = List.copyOf(elements);
  }

  /** The vector of such elements. */
  public static CqlVector of(Object... elements) {
    return new CqlVector(List.of(elements));
  }
}
