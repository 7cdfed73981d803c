package io.github.qosproxy;

import com.google.protobuf.ByteString;
import com.google.protobuf.NullValue;
import io.github.qosproxy.v1.DecimalValue;
import io.github.qosproxy.v1.DurationValue;
import io.github.qosproxy.v1.FloatVector;
import io.github.qosproxy.v1.ListValue;
import io.github.qosproxy.v1.MapValue;
import io.github.qosproxy.v1.Type;
import io.github.qosproxy.v1.TypeKind;
import io.github.qosproxy.v1.UdtValue;
import io.github.qosproxy.v1.Value;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;

/** Values of CQL types as Java's own; Row lists the classes. */
final class Values {
  private Values() {}

  /** The value of a cell of a type. */
  static Object decode(Type t, Value v) {
    return switch (v.getKindCase()) {
      case KIND_NOT_SET, NULL -> null;
      case TEXT -> v.getText();
      case INT -> integer(t, v.getInt());
      case BIGINT -> v.getBigint();
      case DOUBLE -> v.getDouble();
      case FLOAT -> v.getFloat();
      case BOOLEAN -> v.getBoolean();
      case BLOB -> v.getBlob().asReadOnlyByteBuffer();
      case CUSTOM -> v.getCustom().asReadOnlyByteBuffer();
      case CQL -> new CqlBytes(v.getCql().asReadOnlyByteBuffer());
      case UUID -> uuid(v.getUuid().asReadOnlyByteBuffer());
      case INET -> inet(v.getInet().toByteArray());
      case VARINT -> new BigInteger(v.getVarint().toByteArray());
      case DECIMAL -> new BigDecimal(new BigInteger(v.getDecimal().getUnscaled().toByteArray()), v.getDecimal().getScale());
      case TIMESTAMP -> Instant.ofEpochMilli(v.getTimestamp());
      case DATE -> LocalDate.ofEpochDay(v.getDate());
      case TIME -> LocalTime.ofNanoOfDay(v.getTime());
      case DURATION -> duration(v.getDuration());
      case EMPTY -> Empty.EMPTY;
      case LIST -> Collections.unmodifiableList(elements(t, v.getList()));
      case SET -> Collections.unmodifiableSet(new LinkedHashSet<>(elements(t, v.getSet())));
      case VECTOR -> new CqlVector(elements(t, v.getVector()));
      case FLOAT_VECTOR -> new CqlVector(List.copyOf(v.getFloatVector().getElementsList()));
      case TUPLE -> tuple(t, v.getTuple());
      case MAP -> map(t, v.getMap());
      case UDT -> udt(t, v.getUdt());
    };
  }

  private static Object integer(Type t, int n) {
    if (t.getKind() == TypeKind.TYPE_KIND_TINYINT) {
      return (byte) n;
    }
    return t.getKind() == TypeKind.TYPE_KIND_SMALLINT ? (Object) (short) n : (Object) n;
  }

  private static UUID uuid(ByteBuffer bytes) {
    return new UUID(bytes.getLong(), bytes.getLong());
  }

  private static InetAddress inet(byte[] bytes) {
    try {
      // InetAddress would make an IPv4 address of one that is mapped to IPv6.
      return bytes.length == 16 ? Inet6Address.getByAddress(null, bytes, -1) : InetAddress.getByAddress(bytes);
    } catch (UnknownHostException e) {
      throw new IllegalArgumentException("an inet of " + bytes.length + " bytes", e);
    }
  }

  private static CqlDuration duration(DurationValue d) {
    return new CqlDuration(d.getMonths(), d.getDays(), d.getNanoseconds());
  }

  private static Type element(Type t, int i) {
    return i < t.getElementsCount() ? t.getElements(i) : Type.getDefaultInstance();
  }

  private static List<Object> elements(Type t, ListValue values) {
    List<Object> out = new ArrayList<>(values.getElementsCount());
    values.getElementsList().forEach(e -> out.add(decode(element(t, 0), e)));
    return out;
  }

  private static CqlTuple tuple(Type t, ListValue values) {
    List<Object> out = new ArrayList<>(values.getElementsCount());
    for (int i = 0; i < values.getElementsCount(); i++) {
      out.add(decode(element(t, i), values.getElements(i)));
    }
    return new CqlTuple(out);
  }

  private static Map<Object, Object> map(Type t, MapValue entries) {
    Map<Object, Object> out = new LinkedHashMap<>();
    entries.getEntriesList().forEach(e -> out.put(decode(element(t, 0), e.getKey()), decode(element(t, 1), e.getValue())));
    return Collections.unmodifiableMap(out);
  }

  private static CqlUdt udt(Type t, UdtValue value) {
    Map<String, Object> out = new LinkedHashMap<>();
    for (int i = 0; i < t.getFieldNamesCount(); i++) {
      // A value that is older than its last fields has not got them.
      out.put(t.getFieldNames(i), i < value.getFieldsCount() ? decode(element(t, i), value.getFields(i)) : null);
    }
    return new CqlUdt(out);
  }

  /**
   * The value as the proxy takes it in a key.
   *
   * @throws IllegalArgumentException if it is of no CQL type
   */
  static Value encode(Object v) {
    Value.Builder out = Value.newBuilder();
    if (v == null) {
      return out.setNull(NullValue.NULL_VALUE).build();
    }
    if (!number(out, v) && !scalar(out, v) && !moment(out, v) && !nested(out, v)) {
      throw new IllegalArgumentException("a " + v.getClass().getName() + " is not of a CQL type; see Row for what is");
    }
    return out.build();
  }

  private static boolean number(Value.Builder out, Object v) {
    if (v instanceof Integer || v instanceof Short || v instanceof Byte) {
      out.setInt(((Number) v).intValue());
    } else if (v instanceof Long n) {
      out.setBigint(n);
    } else if (v instanceof Double d) {
      out.setDouble(d);
    } else if (v instanceof Float f) {
      out.setFloat(f);
    } else if (v instanceof BigInteger n) {
      out.setVarint(ByteString.copyFrom(n.toByteArray()));
    } else if (v instanceof BigDecimal d) {
      ByteString unscaled = ByteString.copyFrom(d.unscaledValue().toByteArray());
      out.setDecimal(DecimalValue.newBuilder().setUnscaled(unscaled).setScale(d.scale()));
    } else {
      return false;
    }
    return true;
  }

  private static boolean scalar(Value.Builder out, Object v) {
    if (v instanceof String s) {
      out.setText(s);
    } else if (v instanceof Boolean b) {
      out.setBoolean(b);
    } else if (v instanceof byte[] b) {
      out.setBlob(ByteString.copyFrom(b));
    } else if (v instanceof ByteBuffer b) {
      out.setBlob(ByteString.copyFrom(b.duplicate()));
    } else if (v instanceof UUID id) {
      ByteBuffer bytes = ByteBuffer.allocate(16).putLong(id.getMostSignificantBits()).putLong(id.getLeastSignificantBits());
      out.setUuid(ByteString.copyFrom(bytes.flip()));
    } else if (v instanceof InetAddress a) {
      out.setInet(ByteString.copyFrom(a.getAddress()));
    } else if (v instanceof CqlBytes c) {
      out.setCql(ByteString.copyFrom(c.cell().duplicate()));
    } else if (v instanceof Empty) {
      out.setEmpty(true);
    } else {
      return false;
    }
    return true;
  }

  private static boolean moment(Value.Builder out, Object v) {
    if (v instanceof Instant i) {
      out.setTimestamp(i.toEpochMilli());
    } else if (v instanceof LocalDate d) {
      out.setDate(Math.toIntExact(d.toEpochDay()));
    } else if (v instanceof LocalTime t) {
      out.setTime(t.toNanoOfDay());
    } else if (v instanceof CqlDuration d) {
      out.setDuration(
          DurationValue.newBuilder().setMonths(d.months()).setDays(d.days()).setNanoseconds(d.nanoseconds()));
    } else {
      return false;
    }
    return true;
  }

  private static boolean nested(Value.Builder out, Object v) {
    if (v instanceof Set<?> s) {
      out.setSet(list(s));
    } else if (v instanceof List<?> l) {
      out.setList(list(l));
    } else if (v instanceof Map<?, ?> m) {
      MapValue.Builder map = MapValue.newBuilder();
      m.forEach((key, value) -> map.addEntriesBuilder().setKey(encode(key)).setValue(encode(value)));
      out.setMap(map);
    } else if (v instanceof CqlTuple t) {
      out.setTuple(list(t.elements()));
    } else if (v instanceof CqlVector vector) {
      vector(out, vector.elements());
    } else if (v instanceof CqlUdt u) {
      UdtValue.Builder fields = UdtValue.newBuilder();
      u.fields().values().forEach(f -> fields.addFields(encode(f)));
      out.setUdt(fields);
    } else {
      return false;
    }
    return true;
  }

  private static ListValue list(Collection<?> elements) {
    ListValue.Builder out = ListValue.newBuilder();
    elements.forEach(e -> out.addElements(encode(e)));
    return out.build();
  }

  private static void vector(Value.Builder out, List<Object> elements) {
    if (!elements.stream().allMatch(Float.class::isInstance)) {
      out.setVector(list(elements));
      return;
    }
    FloatVector.Builder floats = FloatVector.newBuilder();
    elements.forEach(e -> floats.addElements((Float) e));
    out.setFloatVector(floats);
  }
}
