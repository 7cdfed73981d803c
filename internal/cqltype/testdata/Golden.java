import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.TreeMap;

import org.apache.cassandra.cql3.Duration;
import org.apache.cassandra.cql3.FieldIdentifier;
import org.apache.cassandra.cql3.QueryOptions;
import org.apache.cassandra.cql3.Term;
import org.apache.cassandra.db.marshal.*;
import org.apache.cassandra.schema.CQLTypeParser;
import org.apache.cassandra.schema.Types;
import org.apache.cassandra.serializers.CollectionSerializer;
import org.apache.cassandra.serializers.DurationSerializer;
import org.apache.cassandra.transport.ProtocolVersion;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.JsonUtils;

/**
 * Writes golden.json: what Cassandra's own classes make of cells and of JSON.
 *
 * With the jars of org.apache.cassandra:cassandra-all:5.0.9 and of what it
 * depends on in DIR (mvn dependency:copy-dependencies), and JDK 11 or 17:
 *
 *   java -ea -Duser.timezone=UTC -cp 'DIR/*' Golden.java golden.json
 *
 * One array, one vector per line, of two kinds:
 *   {"type", "cell", "valid", "json"}  hexadecimal cell; does validate() accept it;
 *                                      toJSONString(), absent when that throws
 *   {"type", "input", "cell"}          JSON text; the bytes of fromJSONObject(),
 *                                      absent when that throws
 */
public class Golden
{
    static final Random random = new Random(20250509);
    static final List<String> lines = new ArrayList<>();
    static Types udts;

    static final String[] NATIVE = {
        "ascii", "bigint", "blob", "boolean", "counter", "date", "decimal", "double", "duration", "float", "inet",
        "int", "smallint", "text", "time", "timestamp", "timeuuid", "tinyint", "uuid", "varint" };

    static final String[] NESTED = {
        "list<int>", "set<text>", "set<double>", "set<timeuuid>", "set<uuid>", "set<varint>", "set<boolean>",
        "set<smallint>", "set<inet>", "set<date>", "set<timestamp>", "set<blob>",
        "map<text, int>", "map<int, text>", "map<double, float>", "map<uuid, boolean>", "map<timestamp, date>",
        "map<boolean, decimal>", "map<blob, varint>", "map<inet, time>",
        "frozen<list<frozen<list<text>>>>", "frozen<set<frozen<set<int>>>>",
        "frozen<map<frozen<list<text>>, frozen<set<int>>>>",
        "frozen<map<frozen<map<text, int>>, text>>", "map<frozen<address>, int>",
        "map<frozen<tuple<text, int>>, frozen<list<duration>>>", "set<frozen<tuple<int, text>>>",
        "frozen<tuple<int, text, double>>", "frozen<tuple<frozen<tuple<boolean>>, frozen<list<decimal>>>>",
        "address", "frozen<address>", "list<frozen<address>>", "frozen<\"Mixed Case\">",
        "vector<float, 3>", "vector<text, 2>", "vector<smallint, 2>", "vector<date, 2>", "vector<boolean, 4>",
        "vector<frozen<list<int>>, 2>", "vector<vector<int, 2>, 2>", "vector<vector<text, 1>, 2>",
        "set<frozen<vector<int, 2>>>", "list<vector<double, 2>>", "frozen<set<frozen<map<int, text>>>>" };

    public static void main(String[] args) throws Exception
    {
        udts = types();
        for (String name : NATIVE)
        {
            for (ByteBuffer cell : edges(name))
                cell(name, cell);
            for (int i = 0; i < 40; i++)
                cell(name, value(parse(name), 0));
        }
        for (String name : NESTED)
            for (int i = 0; i < 20; i++)
                cell(name, value(parse(name), 0));
        for (String name : concat(NATIVE, NESTED))
            for (int i = 0; i < 12; i++)
                cell(name, damaged(value(parse(name), 0)));
        inputs();
        Files.writeString(Path.of(args[0]), "[\n" + String.join(",\n", lines) + "\n]\n"); // Cassandra logs to stdout
    }

    static Types types()
    {
        Types.Builder builder = Types.builder();
        builder.add(udt("address", List.of("street", "zip", "tags"),
                        List.of(UTF8Type.instance, Int32Type.instance, SetType.getInstance(UTF8Type.instance, false))));
        builder.add(udt("Mixed Case", List.of("lower", "Upper", "quo\"te", "\u00dcml"),
                        List.of(UTF8Type.instance, Int32Type.instance, BooleanType.instance, DoubleType.instance)));
        return builder.build();
    }

    static UserType udt(String name, List<String> fields, List<AbstractType<?>> types)
    {
        List<FieldIdentifier> ids = new ArrayList<>();
        for (String f : fields)
            ids.add(FieldIdentifier.forInternalString(f));
        return new UserType("ks", ByteBufferUtil.bytes(name), ids, new ArrayList<>(types), true);
    }

    static AbstractType<?> parse(String name)
    {
        return CQLTypeParser.parse("ks", name, udts);
    }

    /** One vector of a cell. */
    static void cell(String name, ByteBuffer cell)
    {
        AbstractType<?> type = parse(name);
        boolean valid = true;
        try { type.validate(cell.duplicate()); } catch (Throwable e) { valid = false; }
        String json = null;
        try { json = type.toJSONString(cell.duplicate(), ProtocolVersion.V5); } catch (Throwable e) { /* absent */ }
        lines.add("{\"type\": " + quote(name) + ", \"cell\": \"" + ByteBufferUtil.bytesToHex(cell) + "\", \"valid\": " + valid
                  + (json == null ? "" : ", \"json\": " + quote(json)) + "}");
        if (valid && json != null)
            input(name, json);
    }

    /** One vector of a JSON value. */
    static void input(String name, String json)
    {
        ByteBuffer cell = null;
        try
        {
            Object parsed = JsonUtils.decodeJson(json);
            if (parsed == null)
                return;
            Term term = parse(name).fromJSONObject(parsed);
            cell = term.bindAndGet(QueryOptions.DEFAULT);
        }
        catch (Throwable e) { /* absent */ }
        lines.add("{\"type\": " + quote(name) + ", \"input\": " + quote(json)
                  + (cell == null ? "" : ", \"cell\": \"" + ByteBufferUtil.bytesToHex(cell) + "\"") + "}");
    }

    static String quote(String s)
    {
        return '"' + JsonUtils.quoteAsJsonString(s) + '"';
    }

    static String[] concat(String[] a, String[] b)
    {
        String[] all = Arrays.copyOf(a, a.length + b.length);
        System.arraycopy(b, 0, all, a.length, b.length);
        return all;
    }

    /** A random value of the type. */
    static ByteBuffer value(AbstractType<?> type, int depth)
    {
        if (type instanceof ReversedType)
            type = ((ReversedType<?>) type).baseType;
        if (type instanceof ListType)
            return collection(((ListType<?>) type).getElementsType(), random.nextInt(4), depth);
        if (type instanceof SetType)
            return set(((SetType<?>) type).getElementsType(), depth);
        if (type instanceof MapType)
            return map((MapType<?, ?>) type, depth);
        if (type instanceof TupleType)
            return tuple((TupleType) type, depth);
        if (type instanceof VectorType)
            return vector((VectorType<?>) type, depth);
        return scalar(type.asCQL3Type().toString());
    }

    static ByteBuffer collection(AbstractType<?> elem, int n, int depth)
    {
        List<ByteBuffer> values = new ArrayList<>();
        for (int i = 0; i < n; i++)
            values.add(value(elem, depth + 1));
        return CollectionSerializer.pack(values, n);
    }

    static ByteBuffer set(AbstractType<?> elem, int depth)
    {
        TreeMap<ByteBuffer, ByteBuffer> sorted = new TreeMap<>(elem);
        for (int i = random.nextInt(5); i > 0; i--)
            sorted.put(value(elem, depth + 1), ByteBufferUtil.EMPTY_BYTE_BUFFER);
        return CollectionSerializer.pack(new ArrayList<>(sorted.keySet()), sorted.size());
    }

    static ByteBuffer map(MapType<?, ?> type, int depth)
    {
        TreeMap<ByteBuffer, ByteBuffer> sorted = new TreeMap<>(type.getKeysType());
        for (int i = random.nextInt(5); i > 0; i--)
            sorted.put(value(type.getKeysType(), depth + 1), value(type.getValuesType(), depth + 1));
        List<ByteBuffer> flat = new ArrayList<>();
        sorted.forEach((k, v) -> { flat.add(k); flat.add(v); });
        return CollectionSerializer.pack(flat, sorted.size());
    }

    static ByteBuffer tuple(TupleType type, int depth)
    {
        ByteBuffer[] fields = new ByteBuffer[type.size()];
        for (int i = 0; i < fields.length; i++)
            fields[i] = random.nextInt(5) == 0 ? null : value(type.type(i), depth + 1);
        if (type.isUDT() && random.nextInt(6) == 0)
            fields = Arrays.copyOf(fields, random.nextInt(fields.length)); // written before a field was added
        return TupleType.buildValue(fields);
    }

    @SuppressWarnings("unchecked")
    static ByteBuffer vector(VectorType<?> type, int depth)
    {
        List<ByteBuffer> values = new ArrayList<>();
        for (int i = 0; i < type.dimension; i++)
            values.add(value(type.elementType, depth + 1));
        return type.decomposeRaw(values);
    }

    static ByteBuffer scalar(String name)
    {
        switch (name)
        {
            case "ascii": return ByteBufferUtil.bytes(text(127));
            case "text": return ByteBufferUtil.bytes(text(0x10ffff));
            case "blob": return bytes(random.nextInt(12));
            case "boolean": return bytes((byte) random.nextInt(3));
            case "tinyint": return bytes(1);
            case "smallint": return bytes(2);
            case "int": return ByteBufferUtil.bytes(number().intValue());
            case "bigint": case "counter": return ByteBufferUtil.bytes(number().longValue());
            case "date": return ByteBufferUtil.bytes(Integer.MIN_VALUE + (random.nextInt(3) == 0 ? random.nextInt() : random.nextInt(40000)));
            case "time": return ByteBufferUtil.bytes(Math.floorMod(number().longValue(), 86400_000_000_000L));
            case "timestamp": return ByteBufferUtil.bytes(random.nextInt(4) == 0 ? number().longValue() : random.nextInt() * 2000L + random.nextInt(1000));
            case "varint": return ByteBuffer.wrap(number().toByteArray());
            case "decimal": return DecimalType.instance.decompose(new BigDecimal(number(), random.nextInt(4) == 0 ? random.nextInt() : random.nextInt(40) - 15));
            case "double": return ByteBufferUtil.bytes(real());
            case "float": return ByteBufferUtil.bytes((float) real());
            case "duration": return duration();
            case "inet": return bytes(random.nextBoolean() ? 4 : 16);
            case "uuid": return bytes(16);
            case "timeuuid": { ByteBuffer b = bytes(16); b.put(6, (byte) (b.get(6) & 0x0f | 0x10)); return b; }
            default: throw new AssertionError(name);
        }
    }

    /** A whole number of up to 40 digits, small ones often. */
    static BigInteger number()
    {
        return new BigInteger(random.nextInt(random.nextInt(130) + 1), random).multiply(BigInteger.valueOf(random.nextBoolean() ? 1 : -1));
    }

    static double real()
    {
        switch (random.nextInt(5))
        {
            case 0: return Double.longBitsToDouble(random.nextLong());
            case 1: return Float.intBitsToFloat(random.nextInt());
            case 2: return random.nextInt(1000000) / 100.0;
            case 3: return random.nextInt(100) * Math.pow(10, random.nextInt(60) - 30);
            default: return random.nextGaussian();
        }
    }

    static ByteBuffer duration()
    {
        int sign = random.nextBoolean() ? 1 : -1;
        return DurationSerializer.instance.serialize(Duration.newInstance(
            sign * random.nextInt(random.nextBoolean() ? 1 : 100), sign * random.nextInt(random.nextBoolean() ? 1 : 1000000),
            sign * (random.nextBoolean() ? 0 : random.nextLong() >>> random.nextInt(64) >>> 1)));
    }

    static ByteBuffer bytes(int n)
    {
        byte[] b = new byte[n];
        random.nextBytes(b);
        return ByteBuffer.wrap(b);
    }

    static ByteBuffer bytes(byte b)
    {
        return ByteBuffer.wrap(new byte[] { b });
    }

    static String text(int max)
    {
        StringBuilder sb = new StringBuilder();
        for (int i = random.nextInt(8); i > 0; i--)
        {
            int c = random.nextInt(3) == 0 ? random.nextInt(max + 1) : random.nextInt(128);
            if (c < 0xd800 || c > 0xdfff)
                sb.appendCodePoint(c);
        }
        return sb.toString();
    }

    /** The cell with a byte changed, bytes missing, or bytes too many. */
    static ByteBuffer damaged(ByteBuffer cell)
    {
        byte[] b = ByteBufferUtil.getArray(cell);
        switch (random.nextInt(3))
        {
            case 0: return ByteBuffer.wrap(Arrays.copyOf(b, random.nextInt(b.length + 1)));
            case 1: return ByteBuffer.wrap(Arrays.copyOf(b, b.length + 1 + random.nextInt(5)));
            default:
                if (b.length > 0)
                    b[random.nextInt(b.length)] ^= 1 << random.nextInt(8);
                return ByteBuffer.wrap(b);
        }
    }

    static List<ByteBuffer> edges(String name)
    {
        List<ByteBuffer> cells = new ArrayList<>();
        cells.add(ByteBufferUtil.EMPTY_BYTE_BUFFER);
        switch (name)
        {
            case "text": case "ascii":
                for (int c = 0; c < 128; c++)
                    cells.add(bytes((byte) c));
                break;
            case "int":
                for (int v : new int[] { 0, 1, -1, Integer.MIN_VALUE, Integer.MAX_VALUE })
                    cells.add(ByteBufferUtil.bytes(v));
                break;
            case "date":
                for (int v : new int[] { 0, 1, -1, Integer.MIN_VALUE, Integer.MAX_VALUE, Integer.MIN_VALUE + 11016, Integer.MIN_VALUE - 719528,
                                         Integer.MIN_VALUE - 719529, Integer.MIN_VALUE + 2932896, Integer.MIN_VALUE + 2932897 })
                    cells.add(ByteBufferUtil.bytes(v));
                break;
            case "time":
                for (long v : new long[] { 0, 1, 999, 1000, 86399999999999L, 3600000000000L })
                    cells.add(ByteBufferUtil.bytes(v));
                break;
            case "bigint": case "counter": case "timestamp":
                for (long v : new long[] { 0, 1, -1, 999, -999, -1000, Long.MIN_VALUE, Long.MAX_VALUE, 951782400000L, 4107542400000L,
                                           -62135596800000L, -62135596800001L, -62198755200000L, 253402300799999L, 253402300800000L })
                    cells.add(ByteBufferUtil.bytes(v));
                break;
            case "varint":
                for (int bits : new int[] { 0, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128 })
                    for (int d = -1; d <= 1; d++)
                        for (int sign = -1; sign <= 1; sign += 2)
                            cells.add(ByteBuffer.wrap(BigInteger.ONE.shiftLeft(bits).add(BigInteger.valueOf(d)).multiply(BigInteger.valueOf(sign)).toByteArray()));
                cells.add(ByteBuffer.wrap(new byte[] { 0, 0, 5 }));
                cells.add(ByteBuffer.wrap(new byte[12]));
                break;
            case "decimal":
                for (int scale : new int[] { 0, 1, 5, 6, 7, 8, -1, -5, Integer.MIN_VALUE, Integer.MAX_VALUE })
                    for (String v : new String[] { "0", "1", "-1", "10", "123", "-1234567", "99999999999999999999" })
                        cells.add(DecimalType.instance.decompose(new BigDecimal(new BigInteger(v), scale)));
                break;
            case "double": case "float":
                for (double v : new double[] { 0, -0.0, 1, -1, 0.1, 1e-3, 9.99e-4, 1e7, 9999999, 12345678, 1e10, 1e-5, 1e23, 2e23, 1.0 / 3, 100, 16777216,
                                               16777217, 9007199254740993.0, 4611686018427387904.0, 9223372036854775807.0, Double.MIN_VALUE,
                                               Double.MIN_NORMAL, Double.MAX_VALUE, Float.MIN_VALUE, Float.MIN_NORMAL, Float.MAX_VALUE, 2.0e-3, 3.985e21,
                                               Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY })
                    cells.add(name.equals("float") ? ByteBufferUtil.bytes((float) v) : ByteBufferUtil.bytes(v));
                break;
            case "inet":
                cells.add(ByteBuffer.wrap(new byte[4]));
                cells.add(ByteBuffer.wrap(new byte[16]));
                cells.add(ByteBufferUtil.hexToBytes("00000000000000000000ffff0a000001"));
                cells.add(ByteBufferUtil.hexToBytes("0000000000000000000000000a000001"));
                cells.add(ByteBufferUtil.hexToBytes("20010db8000000000000000000000001"));
                break;
            case "duration":
                for (String s : new String[] { "1y2mo3d4h5m6s7ms8us9ns", "-1y", "12mo", "23h59m", "90s" })
                    cells.add(DurationSerializer.instance.serialize(Duration.from(s)));
                cells.add(DurationSerializer.instance.serialize(Duration.newInstance(0, 0, 0)));
                cells.add(DurationSerializer.instance.serialize(Duration.newInstance(Integer.MAX_VALUE, Integer.MAX_VALUE, Long.MAX_VALUE)));
                break;
            default:
        }
        return cells;
    }

    static void inputs(String type, String... values)
    {
        for (String v : values)
            input(type, v);
    }

    /** What a client may send for each type, right and wrong. */
    static void inputs()
    {
        String[] any = { "0", "1", "-1", "1.0", "1e2", "-0", "-0.0", "true", "false", "[]", "{}", "\"\"", "\"x\"", "\"0\"", "\"1\"", "\"-1\"", "\"+1\"",
                         "\"1.5\"", "\"1e2\"", "\" 1\"", "\"0x\"", "\"0x0aFF\"", "\"0X00\"", "\"0x1\"", "\"true\"", "\"TRUE\"", "\"[]\"", "\"{}\"", "\"null\"",
                         "127", "128", "-128", "-129", "32767", "32768", "-32768", "-32769", "2147483647", "2147483648", "-2147483648", "-2147483649",
                         "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "\"9223372036854775808\"" };
        for (String type : concat(NATIVE, new String[] { "list<int>", "set<text>", "map<text, int>", "frozen<tuple<int, text, double>>", "address", "vector<float, 3>" }))
            inputs(type, any);
        inputs("text", "\"\\u00e4\\ud83d\\ude00\\n\\/\\\"\"", "\"\u00e4\"", "\"\\u0000\"");
        inputs("ascii", "\"\u00e4\"", "\"\\u007f\"", "\"\\u0080\"");
        inputs("double", "0.1", "1.7976931348623157e308", "1e400", "-1e400", "4.9e-324", "1e-400", "123456789012345678901234567890", "\"NaN\"", "\"Infinity\"",
               "\"-Infinity\"", "\"nan\"", "\"inf\"", "\".5\"", "\"5.\"", "\" 1.5 \"", "\"1_0\"");
        inputs("float", "0.1", "3.4028236e38", "1e39", "16777217", "9007791988867073", "\"0.1\"", "\"NaN\"", "1.00000017881393432617187499", "\"1.00000017881393432617187499\"");
        inputs("decimal", "1.10", "12345678901234567890.12", "1E+3", "0.00001", "100000000.0", "\"1.10\"", "\"-0.0\"", "\"1E+3\"", "\"1e-2147483647\"", "\"1e2147483648\"",
               "\"1e-2147483648\"", "\".5\"", "\"5.\"", "\".\"", "\"1.e5\"", "\"+.5e+3\"", "\"1e\"", "\"--1\"", "\"1.-5\"", "\"1e99999999999\"", "123456789012345678901234567890");
        inputs("varint", "123456789012345678901234567890", "\"-123456789012345678901234567890\"", "\"+5\"", "\"- 5\"", "\"-\"");
        inputs("uuid", "\"550e8400-e29b-41d4-a716-446655440000\"", "\"550E8400-E29B-41D4-A716-446655440000\"", "\"550e8400e29b41d4a716446655440000\"",
               "\"550e8400-e29b-41d4-a716-44665544000\"", "\"550e8400-e29b-41d4-a716-44665544000g\"");
        inputs("timeuuid", "\"550e8400-e29b-41d4-a716-446655440000\"", "\"550e8400-e29b-11d4-a716-446655440000\"");
        inputs("inet", "\"127.0.0.1\"", "\"::1\"", "\"2001:db8::1\"", "\"::ffff:1.2.3.4\"", "\"::1.2.3.4\"", "\"1.2.3.256\"", "\"0:0:0:0:0:0:0:1\"");
        inputs("date", "\"1970-01-01\"", "\"2000-02-29\"", "\"1999-02-29\"", "\"2000-02-30\"", "\"2000-13-01\"", "\"2000-1-1\"", "\"-0001-01-01\"", "\"0000-12-31\"",
               "\"+10000-01-01\"", "\"10000-01-01\"", "\"+5881580-07-11\"", "\"+5881580-07-12\"", "\"-5877641-06-23\"", "\"-5877641-06-22\"", "\"2147483648\"",
               "\"4294967295\"", "\"4294967296\"", "\"2000-01-01 \"", "2147483648");
        inputs("time", "\"00:00:00\"", "\"23:59:59.999999999\"", "\"1:2:3\"", "\"01:02:03.5\"", "\"24:00:00\"", "\"01:60:00\"", "\"01:00:60\"", "\"01:00\"",
               "\"01:00:00.\"", "\"01:00:00.1234567890\"", "\"86399999999999\"", "\"86400000000000\"", "\" 01:02:03 \"");
        inputs("timestamp", "1234567890123", "\"1234567890123\"", "\"-5\"", "\"2011-02-03\"", "\"2011-02-03 04:05\"", "\"2011-02-03 04:05:06\"", "\"2011-02-03T04:05:06\"",
               "\"2011-02-03 04:05:06.7\"", "\"2011-02-03 04:05:06.7899\"", "\"2011-02-03 04:05:06.789Z\"", "\"2011-02-03 04:05:06.789 Z\"", "\"2011-02-03T04:05:06.789+0100\"",
               "\"2011-02-03T04:05:06.789-01:30\"", "\"2011-02-03 04:05+01\"", "\"2011-02-03Z\"", "\"2011-02-03+0130\"", "\"2011-2-3 4:5\"", "\"2011-02-03 04:05 UTC\"",
               "\"2011-02-03 04:05 GMT\"", "\"2011-02-03 04\"", "\"2011-02-03 25:00\"", "\"2011-13-03\"", "\"x2011-02-03\"");
        inputs("duration", "\"1y2mo3w4d5h6m7s8ms9us10ns\"", "\"1Y2MO\"", "\"-1d\"", "\"1h1h\"", "\"1m1h\"", "\"1\"", "\"h\"", "\"1x\"", "\"P1Y2M3DT4H5M6S\"", "\"P2W\"",
               "\"PT5M\"", "\"P\"", "\"P1D2Y\"", "\"P0001-02-03T04:05:06\"", "\"-P0001-02-03T04:05:06\"", "\"P1-2-3T4:5:6\"", "\"5\u00b5s\"", "\"178956971y\"", "\"178956970y7mo\"",
               "\"178956970y8mo\"", "\"2147483647d\"", "\"2147483648d\"", "\"9223372036854775807ns\"", "\"2562048h\"", "\"99999999999999999999ns\"", "\"1mos\"", "\"1d \"");
        inputs("list<int>", "[1, 2]", "[1, \"2\"]", "[null]", "[1.5]", "\"[1,2]\"", "\"\\\"[1]\\\"\"", "[[1]]", "[\"\"]", "{\"a\": 1}");
        inputs("set<text>", "[\"b\", \"a\", \"b\"]", "[null]");
        inputs("set<double>", "[1, 1.0, -0.0, 0.0, \"NaN\", -1]", "[3, 2, 1]");
        inputs("set<varint>", "[300, -300, 0, -1, 1, 70000, -70000]");
        inputs("set<timeuuid>", "[\"550e8400-e29b-11d4-8016-446655440000\", \"550e8400-e29b-11d4-7016-446655440000\", \"450e8400-e29b-11d4-7016-446655440000\"]");
        inputs("set<uuid>", "[\"550e8400-e29b-41d4-8016-446655440000\", \"550e8400-e29b-11d4-7016-446655440000\", \"450e8400-e29b-11d4-8016-446655440000\", \"450e8400-e29b-11d4-7016-446655440000\"]");
        inputs("set<uuid>", "[\"ffffffff-0000-1000-8016-446655440000\", \"00000000-0000-1001-8016-446655440000\", \"00000001-0000-1000-8016-446655440000\"]");
        inputs("set<decimal>", "[\"-10\", \"-1\", \"-100\", \"5\", \"0.5\", \"50\", \"-0.5\", \"0\", \"-1.5\"]");
        inputs("map<text, int>", "{\"b\": 1, \"a\": 2}", "{\"a\": null}", "{\"a\": 1, \"a\": 2}", "{\"A\": 1, \"a\": 2}", "\"{\\\"a\\\": 1}\"", "[1]");
        inputs("map<int, text>", "{\"2\": \"b\", \"10\": \"a\", \"-1\": \"c\"}", "{\"x\": \"b\"}", "{\"\": \"b\"}");
        inputs("frozen<map<frozen<list<text>>, frozen<set<int>>>>", "{\"[\\\"b\\\"]\": [2, 1], \"[\\\"a\\\", \\\"b\\\"]\": []}", "{\"a\": [1]}");
        inputs("frozen<tuple<int, text, double>>", "[1, \"a\", 2]", "[null, null, null]", "[1, \"a\"]", "[1, \"a\", 2, 3]", "\"[1, null, 2]\"");
        inputs("set<frozen<tuple<int, text>>>", "[[2, \"a\"], [1, \"b\"], [1, null], [null, \"x\"], [-1, \"a\"]]");
        inputs("frozen<address>", "{\"street\": \"x\", \"zip\": 5}", "{\"STREET\": \"x\"}", "{\"\\\"street\\\"\": \"x\"}", "{\"\\\"Street\\\"\": \"x\"}", "{\"nope\": 1}", "{\"zip\": null}",
               "{\"tags\": [\"b\", \"a\"]}", "[1]", "\"{\\\"zip\\\": 5}\"");
        inputs("frozen<\"Mixed Case\">", "{\"lower\": \"x\", \"\\\"Upper\\\"\": 1}", "{\"Upper\": 1}", "{\"\\\"\u00dcml\\\"\": 1.5}");
        inputs("vector<float, 3>", "[1, 2.5, \"3\"]", "[1, 2]", "[1, 2, 3, 4]", "[1, null, 3]", "[1, \"\", 3]", "\"[1, 2, 3]\"");
        inputs("vector<text, 2>", "[\"a\", \"\"]");
        inputs("vector<smallint, 2>", "[1, 2]");
        inputs("list<vector<double, 2>>", "[[1, 2], [3, 4]]");
    }
}
