package io.github.qosproxy;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import io.github.qosproxy.v1.Column;
import io.github.qosproxy.v1.Type;
import io.grpc.TlsChannelCredentials;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.function.Function;

/**
 * Makes the lookups that a test asks for, and tells what came of them: Conformance TARGET.
 *
 * <p>Each line of standard input is a lookup as JSON, and each line of standard output its outcome.
 * The programs of all languages do the same; internal/apitest/conformance_test.go compares them. A value is JSON
 * with one member, its CQL type: {"bigint": "9007199254740993"}. It is written from the class that
 * Java's value must have, so that a wrong class is an error.
 */
final class Conformance {
  private static final Gson GSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();

  private Conformance() {}

  private static JsonObject object(String name, JsonElement value) {
    JsonObject out = new JsonObject();
    out.add(name, value);
    return out;
  }

  private static JsonElement text(Object v) {
    return v == null ? JsonNull.INSTANCE : new JsonPrimitive(v.toString());
  }

  private static JsonArray array(List<JsonElement> elements) {
    JsonArray out = new JsonArray();
    elements.forEach(out::add);
    return out;
  }

  private static String hex(ByteBuffer bytes) {
    byte[] copy = new byte[bytes.remaining()];
    bytes.duplicate().get(copy);
    return HexFormat.of().formatHex(copy);
  }

  /** The JSON of a value of a type. */
  private static JsonElement out(Type t, Object v) {
    if (v == null) {
      return JsonNull.INSTANCE;
    }
    if (v == Empty.EMPTY) {
      return object("empty", new JsonPrimitive(true));
    }
    return switch (t.getKind()) {
      case TYPE_KIND_ASCII, TYPE_KIND_TEXT -> object("text", text((String) v));
      case TYPE_KIND_TINYINT -> object("int", text((Byte) v));
      case TYPE_KIND_SMALLINT -> object("int", text((Short) v));
      case TYPE_KIND_INT -> object("int", text((Integer) v));
      case TYPE_KIND_BIGINT, TYPE_KIND_COUNTER -> object("bigint", text((Long) v));
      case TYPE_KIND_VARINT -> object("varint", text((BigInteger) v));
      case TYPE_KIND_DECIMAL ->
          object("decimal", array(List.of(text(((BigDecimal) v).unscaledValue()), text(((BigDecimal) v).scale()))));
      case TYPE_KIND_FLOAT -> object("float", text("%08x".formatted(Float.floatToRawIntBits((Float) v))));
      case TYPE_KIND_DOUBLE -> object("double", text("%016x".formatted(Double.doubleToRawLongBits((Double) v))));
      case TYPE_KIND_BOOLEAN -> object("boolean", new JsonPrimitive((Boolean) v));
      case TYPE_KIND_BLOB -> object("blob", text(hex((ByteBuffer) v)));
      case TYPE_KIND_UUID, TYPE_KIND_TIMEUUID -> object("uuid", text((UUID) v));
      case TYPE_KIND_INET -> object("inet", text(HexFormat.of().formatHex(((InetAddress) v).getAddress())));
      case TYPE_KIND_TIMESTAMP -> object("timestamp", text(((Instant) v).toEpochMilli()));
      case TYPE_KIND_DATE -> object("date", text(((LocalDate) v).toEpochDay()));
      case TYPE_KIND_TIME -> object("time", text(((LocalTime) v).toNanoOfDay()));
      case TYPE_KIND_DURATION -> {
        CqlDuration d = (CqlDuration) v;
        yield object("duration", array(List.of(text(d.months()), text(d.days()), text(d.nanoseconds()))));
      }
      case TYPE_KIND_LIST -> object("list", all(t, (List<?>) v));
      case TYPE_KIND_SET -> object("set", all(t, List.copyOf((Set<?>) v)));
      case TYPE_KIND_VECTOR -> object("vector", all(t, ((CqlVector) v).elements()));
      case TYPE_KIND_MAP -> map(t, (Map<?, ?>) v);
      case TYPE_KIND_TUPLE -> tuple(t, (CqlTuple) v);
      case TYPE_KIND_UDT -> udt(t, (CqlUdt) v);
      default -> throw new IllegalArgumentException("no JSON for a " + t.getName());
    };
  }

  private static JsonArray all(Type t, List<?> values) {
    JsonArray out = new JsonArray();
    values.forEach(v -> out.add(out(t.getElements(0), v)));
    return out;
  }

  private static JsonObject map(Type t, Map<?, ?> entries) {
    JsonArray out = new JsonArray();
    entries.forEach((k, v) -> out.add(array(List.of(out(t.getElements(0), k), out(t.getElements(1), v)))));
    return object("map", out);
  }

  private static JsonObject tuple(Type t, CqlTuple tuple) {
    JsonArray out = new JsonArray();
    for (int i = 0; i < t.getElementsCount(); i++) {
      out.add(out(t.getElements(i), tuple.elements().get(i)));
    }
    return object("tuple", out);
  }

  private static JsonObject udt(Type t, CqlUdt udt) {
    JsonArray out = new JsonArray();
    udt.fields().forEach((name, v) -> out.add(array(List.of(text(name), out(t.getElements(out.size()), v)))));
    return object("udt", out);
  }

  private static final Map<String, Function<JsonElement, Object>> READERS = new LinkedHashMap<>();

  static {
    READERS.put("text", JsonElement::getAsString);
    READERS.put("int", v -> Integer.valueOf(v.getAsString()));
    READERS.put("bigint", v -> Long.valueOf(v.getAsString()));
    READERS.put("varint", v -> new BigInteger(v.getAsString()));
    READERS.put("decimal", v -> new BigDecimal(new BigInteger(part(v, 0)), Integer.parseInt(part(v, 1))));
    READERS.put("float", v -> Float.intBitsToFloat(Integer.parseUnsignedInt(v.getAsString(), 16)));
    READERS.put("double", v -> Double.longBitsToDouble(Long.parseUnsignedLong(v.getAsString(), 16)));
    READERS.put("boolean", JsonElement::getAsBoolean);
    READERS.put("blob", v -> ByteBuffer.wrap(bytes(v)));
    READERS.put("uuid", v -> UUID.fromString(v.getAsString()));
    READERS.put("inet", Conformance::inet);
    READERS.put("timestamp", v -> Instant.ofEpochMilli(Long.parseLong(v.getAsString())));
    READERS.put("date", v -> LocalDate.ofEpochDay(Long.parseLong(v.getAsString())));
    READERS.put("time", v -> LocalTime.ofNanoOfDay(Long.parseLong(v.getAsString())));
    READERS.put("list", Conformance::all);
    READERS.put("set", v -> new LinkedHashSet<>(all(v)));
    READERS.put("tuple", v -> new CqlTuple(all(v)));
    READERS.put("vector", v -> new CqlVector(all(v)));
    READERS.put("map", v -> {
      Map<Object, Object> out = new LinkedHashMap<>();
      v.getAsJsonArray().forEach(e -> out.put(in(e.getAsJsonArray().get(0)), in(e.getAsJsonArray().get(1))));
      return out;
    });
    READERS.put("udt", v -> {
      Map<String, Object> out = new LinkedHashMap<>();
      v.getAsJsonArray().forEach(e -> out.put(part(e, 0), in(e.getAsJsonArray().get(1))));
      return new CqlUdt(out);
    });
  }

  private static String part(JsonElement v, int i) {
    return v.getAsJsonArray().get(i).getAsString();
  }

  private static byte[] bytes(JsonElement v) {
    return HexFormat.of().parseHex(v.getAsString());
  }

  private static InetAddress inet(JsonElement v) {
    try {
      byte[] b = bytes(v);
      return b.length == 16 ? Inet6Address.getByAddress(null, b, -1) : InetAddress.getByAddress(b);
    } catch (java.net.UnknownHostException e) {
      throw new IllegalArgumentException(e);
    }
  }

  private static List<Object> all(JsonElement v) {
    List<Object> out = new ArrayList<>();
    v.getAsJsonArray().forEach(e -> out.add(in(e)));
    return out;
  }

  /** The value of JSON. */
  private static Object in(JsonElement v) {
    if (v.isJsonNull()) {
      return null;
    }
    var member = v.getAsJsonObject().entrySet().iterator().next();
    return READERS.get(member.getKey()).apply(member.getValue());
  }

  private static JsonObject result(Answer answer, Result r) {
    JsonObject out = object("status", text(r.status()));
    if (!r.isAnswered()) {
      out.addProperty("error", r.error());
      out.addProperty("reason", r.reason());
      return out;
    }
    JsonArray rows = new JsonArray();
    for (Row row : r.rows()) {
      JsonObject cells = new JsonObject();
      for (Column c : answer.columns()) {
        cells.add(c.getName(), out(c.getType(), row.get(c.getName())));
      }
      rows.add(cells);
    }
    out.add("rows", rows);
    return out;
  }

  private static JsonObject failure(LookupException e) {
    JsonObject out = object("code", text(e.code()));
    out.addProperty("reason", e.reason());
    out.addProperty("field", e.field());
    out.add("retry_ms", e.retryAfter().<JsonElement>map(d -> new JsonPrimitive(d.toMillis())).orElse(JsonNull.INSTANCE));
    out.add("statuses", e.answer().<JsonElement>map(a -> array(a.results().stream().map(r -> text(r.status())).toList()))
        .orElse(JsonNull.INSTANCE));
    return out;
  }

  private static Duration millis(JsonObject o, String name) {
    return o.has(name) ? Duration.ofMillis(o.get(name).getAsLong()) : null;
  }

  private static Answer answer(QosProxyClient client, JsonObject ask) {
    List<Key> keys = new ArrayList<>();
    ask.getAsJsonArray("keys").forEach(k -> keys.add(new Key(all(k))));
    Lookup lookup = Lookup.of(ask.get("table").getAsString(), keys).timeout(millis(ask, "timeout_ms"));
    if (ask.has("columns")) {
      lookup = lookup.columns(GSON.fromJson(ask.get("columns"), String[].class));
    }
    Answer answer;
    try {
      answer = client.batchGet(lookup);
    } catch (LookupException e) {
      if (!ask.has("rounds")) {
        throw e;
      }
      answer = e.answer().orElseThrow(() -> e);
    }
    return ask.has("rounds")
        ? client.retryUnprocessed(answer, lookup.timeout(), ask.get("rounds").getAsInt())
        : answer;
  }

  private static JsonObject lookup(QosProxyClient client, JsonObject ask) {
    Answer answer;
    try {
      answer = answer(client, ask);
    } catch (LookupException e) {
      return failure(e);
    }
    JsonObject out = new JsonObject();
    JsonArray results = new JsonArray();
    for (Result r : answer) {
      results.add(result(answer, r));
    }
    out.add("results", results);
    out.add("unprocessed", GSON.toJsonTree(answer.unprocessed()));
    return out;
  }

  private static QosProxyClient connect(String target, JsonObject o) throws java.io.IOException {
    var builder = QosProxyClient.builder(target).timeout(millis(o, "timeout_ms"));
    if (o.has("retries")) {
      builder.retries(o.get("retries").getAsInt());
    }
    if (o.has("retry_shed")) {
      builder.retryShed();
    }
    if (o.has("plaintext_token")) {
      builder.plaintextToken();
    }
    if (o.has("token")) {
      String token = o.get("token").getAsString();
      builder.token(() -> token);
    }
    if (o.has("socket_name")) {
      builder.socketName(o.get("socket_name").getAsString());
    }
    if (o.has("ca_file")) {
      var tls = TlsChannelCredentials.newBuilder().trustManager(new File(o.get("ca_file").getAsString()));
      if (o.has("cert_file")) {
        tls.keyManager(new File(o.get("cert_file").getAsString()), new File(o.get("key_file").getAsString()));
      }
      builder.tls(tls.build());
    }
    return builder.build();
  }

  public static void main(String[] args) throws java.io.IOException {
    var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    var print = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    QosProxyClient client = null;
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      JsonObject ask = JsonParser.parseString(line).getAsJsonObject();
      if (client == null || ask.has("client")) {
        // Each client has a budget of its own.
        if (client != null) {
          client.close();
        }
        JsonObject options = ask.has("client") ? ask.getAsJsonObject("client") : new JsonObject();
        client = connect(ask.has("target") ? ask.get("target").getAsString() : args[0], options);
      }
      print.println(GSON.toJson(lookup(client, ask)));
    }
    if (client != null) {
      client.close();
    }
  }
}
