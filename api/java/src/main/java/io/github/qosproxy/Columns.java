package io.github.qosproxy;

import io.github.qosproxy.v1.Column;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The columns of the rows of an answer. */
final class Columns {
  final List<Column> list;
  private final Map<String, Integer> positions = new HashMap<>();

  Columns(List<Column> list) {
    this.list = list;
    for (int i = 0; i < list.size(); i++) {
      positions.put(list.get(i).getName(), i);
    }
  }

  boolean has(String name) {
    return positions.containsKey(name);
  }

  int position(String name) {
    Integer at = positions.get(name);
    if (at == null) {
      throw new IllegalArgumentException("no column " + name + " was asked for; there are " + positions.keySet());
    }
    return at;
  }
}
