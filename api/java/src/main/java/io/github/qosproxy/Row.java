package io.github.qosproxy;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;

/**
 * One row. Each method that takes the name of a column returns null for null, and throws
 * IllegalArgumentException for a column that was not asked for, and ClassCastException for one of
 * another type.
 *
 * <table>
 * <caption>The class of each CQL type</caption>
 * <tr><td>ascii, text</td><td>String</td></tr>
 * <tr><td>tinyint, smallint, int, bigint</td><td>Byte, Short, Integer, Long</td></tr>
 * <tr><td>counter</td><td>Long</td></tr>
 * <tr><td>varint, decimal</td><td>BigInteger, BigDecimal with its scale</td></tr>
 * <tr><td>float, double, boolean</td><td>Float, Double, Boolean</td></tr>
 * <tr><td>blob, a custom type</td><td>ByteBuffer, read-only</td></tr>
 * <tr><td>uuid, timeuuid</td><td>UUID</td></tr>
 * <tr><td>inet</td><td>InetAddress</td></tr>
 * <tr><td>timestamp, date, time</td><td>Instant, LocalDate, LocalTime</td></tr>
 * <tr><td>duration</td><td>CqlDuration</td></tr>
 * <tr><td>list, set, map</td><td>List, Set, Map, in Cassandra's order and unmodifiable</td></tr>
 * <tr><td>tuple, vector, a user-defined type</td><td>CqlTuple, CqlVector, CqlUdt</td></tr>
 * <tr><td>zero bytes of an int</td><td>Empty</td></tr>
 * </table>
 *
 * <p>What a row returns can be a key.
 */
public final class Row {
  private final Columns columns;
  private final io.github.qosproxy.v1.Row proto;

  Row(Columns columns, io.github.qosproxy.v1.Row proto) {
    this.columns = columns;
    this.proto = proto;
  }

  /** Whether the lookup asked for the column; its value may be null. */
  public boolean has(String column) {
    return columns.has(column);
  }

  /** The value of a column, of the class in the table above. */
  public Object get(String column) {
    return at(columns.position(column));
  }

  private Object at(int i) {
    return Values.decode(columns.list.get(i).getType(), proto.getValues(i));
  }

  /** The value of a column of that class. */
  public <T> T get(String column, Class<T> of) {
    Object value = get(column);
    if (value != null && !of.isInstance(value)) {
      throw new ClassCastException(
          "column %s is a %s, not a %s".formatted(column, value.getClass().getName(), of.getName()));
    }
    return of.cast(value);
  }

  /** The value of an ascii or text. */
  public String getString(String column) {
    return get(column, String.class);
  }

  /** The value of an int, smallint or tinyint. */
  public Integer getInt(String column) {
    Object value = get(column);
    return value instanceof Short || value instanceof Byte
        ? Integer.valueOf(((Number) value).intValue())
        : get(column, Integer.class);
  }

  /** The value of a bigint, a counter or a smaller integer. */
  public Long getLong(String column) {
    Object value = get(column);
    return value instanceof Integer || value instanceof Short || value instanceof Byte
        ? Long.valueOf(((Number) value).longValue())
        : get(column, Long.class);
  }

  /** The value of a varint. */
  public BigInteger getBigInteger(String column) {
    return get(column, BigInteger.class);
  }

  /** The value of a decimal. */
  public BigDecimal getBigDecimal(String column) {
    return get(column, BigDecimal.class);
  }

  /** The value of a float. */
  public Float getFloat(String column) {
    return get(column, Float.class);
  }

  /** The value of a double. */
  public Double getDouble(String column) {
    return get(column, Double.class);
  }

  /** The value of a boolean. */
  public Boolean getBoolean(String column) {
    return get(column, Boolean.class);
  }

  /** The value of a blob. */
  public ByteBuffer getBytes(String column) {
    return get(column, ByteBuffer.class);
  }

  /** The value of a uuid or timeuuid. */
  public UUID getUuid(String column) {
    return get(column, UUID.class);
  }

  /** The value of a timestamp. */
  public Instant getInstant(String column) {
    return get(column, Instant.class);
  }

  /** The value of a date. */
  public LocalDate getDate(String column) {
    return get(column, LocalDate.class);
  }

  /** The value of a time. */
  public LocalTime getTime(String column) {
    return get(column, LocalTime.class);
  }

  /** The value of a list. */
  @SuppressWarnings("unchecked")
  public List<Object> getList(String column) {
    return get(column, List.class);
  }

  /** The value of a set. */
  @SuppressWarnings("unchecked")
  public Set<Object> getSet(String column) {
    return get(column, Set.class);
  }

  /** The value of a map. */
  @SuppressWarnings("unchecked")
  public Map<Object, Object> getMap(String column) {
    return get(column, Map.class);
  }

  /** All values by column, in the order of the lookup. */
  public Map<String, Object> asMap() {
    Map<String, Object> out = new LinkedHashMap<>();
    for (int i = 0; i < columns.list.size(); i++) {
      out.put(columns.list.get(i).getName(), at(i));
    }
    return Collections.unmodifiableMap(out);
  }

  /** All values by column. */
  @Override
  public String toString() {
    return asMap().toString();
  }
}
