package io.github.qosproxy;

import io.github.qosproxy.v1.Operator;
import java.util.Collection;
import java.util.List;

/** Restricts a clustering column behind those that the keys name. */
public final class Condition {
  private final io.github.qosproxy.v1.Condition proto;

  private Condition(String column, Operator operator, Collection<?> values) {
    var out = io.github.qosproxy.v1.Condition.newBuilder().setColumn(column).setOperator(operator);
    values.forEach(v -> out.addValues(Values.encode(v)));
    proto = out.build();
  }

  io.github.qosproxy.v1.Condition proto() {
    return proto;
  }

  /** Is met by rows whose column is the value. */
  public static Condition equal(String column, Object value) {
    return new Condition(column, Operator.OPERATOR_EQUAL, List.of(value));
  }

  /** Is met by rows whose column is one of the values, of which there is at least one. */
  public static Condition in(String column, Collection<?> values) {
    return new Condition(column, Operator.OPERATOR_IN, values);
  }

  /** Is met by rows whose column is above the value. */
  public static Condition greater(String column, Object value) {
    return new Condition(column, Operator.OPERATOR_GREATER, List.of(value));
  }

  /** Is met by rows whose column is the value or above it. */
  public static Condition atLeast(String column, Object value) {
    return new Condition(column, Operator.OPERATOR_GREATER_OR_EQUAL, List.of(value));
  }

  /** Is met by rows whose column is below the value. */
  public static Condition less(String column, Object value) {
    return new Condition(column, Operator.OPERATOR_LESS, List.of(value));
  }

  /** Is met by rows whose column is the value or below it. */
  public static Condition atMost(String column, Object value) {
    return new Condition(column, Operator.OPERATOR_LESS_OR_EQUAL, List.of(value));
  }
}
