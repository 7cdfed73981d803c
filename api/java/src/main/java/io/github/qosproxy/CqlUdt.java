package io.github.qosproxy;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * A value of a user-defined type.
 *
 * @param fields by name, in the order of the type; in a key those at the end may be left out
 */
public record CqlUdt(Map<String, Object> fields) {
  /** Takes a copy of the fields. */
  public CqlUdt {
    fields = Collections.unmodifiableMap(new LinkedHashMap<>(fields));
  }
}
