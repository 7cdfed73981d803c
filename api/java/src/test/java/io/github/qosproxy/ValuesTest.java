package io.github.qosproxy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.github.qosproxy.v1.Type;
import io.github.qosproxy.v1.TypeKind;
import io.github.qosproxy.v1.UdtValue;
import io.github.qosproxy.v1.Value;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.UUID;
import org.junit.jupiter.api.Test;

/** Values of every CQL type, there and back. */
class ValuesTest {
  private static final Type ADDRESS =
      Type.newBuilder().setKind(TypeKind.TYPE_KIND_UDT).setName("address").addFieldNames("street").addFieldNames("Zip").build();

  /** Asserts that what a row returns is what a key of it was. */
  private static void same(Object value, Type t) {
    assertEquals(value, Values.decode(t, Values.encode(value)));
  }

  private static void same(Object value) {
    same(value, Type.getDefaultInstance());
  }

  private static Type kind(TypeKind kind) {
    return Type.newBuilder().setKind(kind).build();
  }

  @Test
  void integersKeepEveryBit() {
    for (long n : new long[] {Long.MIN_VALUE, Long.MAX_VALUE, (1L << 53) + 1, -(1L << 53) - 1, 0, -1}) {
      same(n);
    }
    same(Integer.MIN_VALUE, kind(TypeKind.TYPE_KIND_INT));
    same(Short.MIN_VALUE, kind(TypeKind.TYPE_KIND_SMALLINT));
    same(Byte.MIN_VALUE, kind(TypeKind.TYPE_KIND_TINYINT));
    Random random = new Random(1);
    for (int i = 0; i < 2000; i++) {
      BigInteger n = new BigInteger(1 + random.nextInt(160), random);
      same(n);
      same(n.negate());
      same(new BigDecimal(n.negate(), random.nextInt(100) - 50));
    }
  }

  @Test
  void decimalsKeepTheirScale() {
    for (String text : List.of("0", "1.50", "1.5", "-0.001", "1E+30", "0E-7")) {
      same(new BigDecimal(text));
    }
  }

  @Test
  void scalars() throws Exception {
    byte[] mapped = new byte[16];
    mapped[10] = mapped[11] = (byte) 0xff;
    for (Object value : Arrays.asList(
        "é", "", ByteBuffer.wrap(new byte[] {0, -1}), true, false, 0.5, -0.0, Double.NaN, 0.25f, UUID.randomUUID(),
        InetAddress.getByName("127.0.0.1"), Inet6Address.getByAddress(null, mapped, -1), Instant.ofEpochMilli(Long.MIN_VALUE),
        Instant.ofEpochMilli(Long.MAX_VALUE), LocalDate.ofEpochDay(Integer.MIN_VALUE), LocalTime.MAX, new CqlDuration(-1, -2, -3),
        new CqlBytes(ByteBuffer.allocate(1)), Empty.EMPTY, null)) {
      same(value);
    }
    assertEquals("[0, -1]", Arrays.toString(Values.encode(new byte[] {0, -1}).getBlob().toByteArray()));
  }

  @Test
  void nested() {
    same(List.of(1L, 2L));
    same(Map.of("a", List.of(1L), "b", List.of()));
    same(Set.of(1L, 2L));
    same(CqlTuple.of(1L, null, "x"));
    same(CqlVector.of(0.5f, -1f));
    same(CqlVector.of("a", ""));
    same(CqlVector.of(0.5, 1.0));
    CqlUdt udt = (CqlUdt) Values.decode(ADDRESS, Value.newBuilder().setUdt(
        UdtValue.newBuilder().addFields(Values.encode("x"))).build());
    assertEquals("{street=x, Zip=null}", udt.fields().toString(), "one that is older than its last field");
    same(udt, ADDRESS);
  }

  @Test
  void whatIsOfNoType() {
    for (Object value : List.of(new Object(), 'x', List.of(new Object()), java.time.Duration.ZERO)) {
      assertThrows(IllegalArgumentException.class, () -> Values.encode(value));
    }
  }
}
