import java.io.IOException;
import java.io.PrintStream;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.zip.GZIPOutputStream;

import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.dht.Murmur3Partitioner.LongToken;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.locator.AbstractNetworkTopologySnitch;
import org.apache.cassandra.locator.AbstractReplicationStrategy;
import org.apache.cassandra.locator.InetAddressAndPort;
import org.apache.cassandra.locator.NetworkTopologyStrategy;
import org.apache.cassandra.locator.Replica;
import org.apache.cassandra.locator.SimpleStrategy;
import org.apache.cassandra.locator.TokenMetadata;

/**
 * Writes the golden vectors of package ring by asking Cassandra's own classes: tokens.json.gz from
 * Murmur3Partitioner, placement.json.gz from SimpleStrategy and NetworkTopologyStrategy.
 *
 * With the jars of org.apache.cassandra:cassandra-all:5.0.9 and its dependencies in lib (mvn
 * dependency:copy-dependencies) and JDK 17, from the folder of this file:
 *
 *   java -cp 'lib/*' Golden.java .
 *
 * Seeds are fixed: the same jars write the same vectors.
 */
public class Golden {
    public static void main(String[] args) throws IOException {
        DatabaseDescriptor.clientInitialization();
        DatabaseDescriptor.setPartitionerUnsafe(Murmur3Partitioner.instance);
        Path dir = Path.of(args[0]);
        try (PrintStream out = open(dir.resolve("tokens.json.gz"))) {
            tokens(out);
        }
        try (PrintStream out = open(dir.resolve("placement.json.gz"))) {
            placement(out);
        }
        System.exit(0); // Cassandra's classes leave threads behind.
    }

    static PrintStream open(Path file) throws IOException {
        return new PrintStream(new GZIPOutputStream(Files.newOutputStream(file)), false, StandardCharsets.UTF_8);
    }

    // ---- tokens

    static String separator = "";

    static void tokens(PrintStream out) {
        Random random = new Random(1);
        out.print("{\"keys\":[");
        token(out, new byte[0]);
        for (int length = 1; length <= 40; length++) {
            for (int i = 0; i < 45; i++) {
                byte[] key = new byte[length];
                random.nextBytes(key);
                // A third has only bytes of 0x80 and above, a third only below.
                for (int j = 0; j < length; j++) {
                    if (i % 3 == 1) key[j] |= (byte) 0x80;
                    if (i % 3 == 2) key[j] &= (byte) 0x7f;
                }
                token(out, key);
            }
            for (int b : new int[] {0, 1, 0x7f, 0x80, 0xff}) {
                byte[] key = new byte[length];
                java.util.Arrays.fill(key, (byte) b);
                token(out, key);
            }
        }
        // Keys whose hash is a given value; that of the minimum is normalized.
        for (long t : new long[] {Long.MIN_VALUE, Long.MIN_VALUE + 1, -1, 0, 1, Long.MAX_VALUE - 1, Long.MAX_VALUE})
            token(out, LongToken.keyForToken(t).array());
        // Long keys, as the rule that makes them: byte i is i * step.
        out.print("\n],\n\"long\":[");
        separator = "";
        for (int length : new int[] {255, 256, 1000, 1023, 4096, 32767, 65521, 65534, 65535, 65536})
            for (int step : new int[] {1, 7, 129, 251}) {
                byte[] key = new byte[length];
                for (int i = 0; i < length; i++) key[i] = (byte) (i * step);
                out.printf("%s%n{\"length\":%d,\"step\":%d,\"token\":%s}", separator, length, step, tokenOf(key));
                separator = ",";
            }
        out.print("\n]}\n");
    }

    static void token(PrintStream out, byte[] key) {
        out.printf("%s%n{\"key\":\"%s\",\"token\":%s}", separator, hex(key), tokenOf(key));
        separator = ",";
    }

    static Token tokenOf(byte[] key) {
        return Murmur3Partitioner.instance.getToken(ByteBuffer.wrap(key));
    }

    static String hex(byte[] b) {
        return b.length == 0 ? "" : String.format("%0" + 2 * b.length + "x", new BigInteger(1, b));
    }

    // ---- placement

    record Host(InetAddressAndPort address, String name, String dc, String rack, List<Long> tokens) {}

    static void placement(PrintStream out) throws IOException {
        out.print("[");
        separator = "";
        long seed = 100;
        for (int vnodes : new int[] {1, 16, 256})
            for (int racks : new int[] {1, 3})
                for (int dcs : new int[] {1, 2}) {
                    int[][] layout = new int[dcs][];
                    for (int d = 0; d < dcs; d++) layout[d] = racks == 1 ? new int[] {6 - 2 * d} : new int[] {2, 2, 2 - d};
                    cluster(out, vnodes + " vnodes, " + racks + " racks, " + dcs + " datacenters", layout, h -> vnodes, seed++, 3);
                }
        cluster(out, "one host", new int[][] {{1}}, h -> 16, seed++, 3);
        cluster(out, "one host with one token", new int[][] {{1}}, h -> 1, seed++, 3);
        cluster(out, "two racks for more replicas", new int[][] {{4, 3}}, h -> 16, seed++, 9);
        cluster(out, "uneven racks", new int[][] {{1, 2, 5}}, h -> 16, seed++, 9);
        cluster(out, "a rack of one host with one token", new int[][] {{6, 1}}, h -> h == 6 ? 1 : 64, seed++, 5);
        cluster(out, "more racks than replicas", new int[][] {{1, 1, 1, 1, 1, 2}}, h -> 8, seed++, 7);
        cluster(out, "hosts of different size", new int[][] {{2, 2, 2}, {3}}, h -> 1 + 7 * h, seed++, 5);
        cluster(out, "a datacenter of few tokens among many", new int[][] {{2, 2, 2}, {1, 1, 1}}, h -> h < 6 ? 64 : 1, seed++, 5);
        cluster(out, "three datacenters", new int[][] {{3, 2}, {4}, {1, 1}}, h -> 4, seed++, 6);
        for (int i = 0; i < 40; i++) {
            Random random = new Random(1000 + i);
            int[][] layout = new int[1 + random.nextInt(3)][];
            for (int d = 0; d < layout.length; d++) {
                layout[d] = new int[1 + random.nextInt(4)];
                for (int r = 0; r < layout[d].length; r++) layout[d][r] = 1 + random.nextInt(3);
            }
            cluster(out, "random " + i, layout, h -> 1 + random.nextInt(8), seed++, 5);
        }
        out.print("\n]\n");
    }

    /** A cluster of layout[dc][rack] hosts, and where each replication up to a factor puts each range of it. */
    static void cluster(PrintStream out, String name, int[][] layout, java.util.function.IntUnaryOperator vnodes, long seed, int maxFactor) throws IOException {
        Random random = new Random(seed);
        List<Host> hosts = new ArrayList<>();
        HashSet<Long> used = new HashSet<>();
        for (int d = 0; d < layout.length; d++)
            for (int r = 0; r < layout[d].length; r++)
                for (int i = 0; i < layout[d][r]; i++) {
                    int n = hosts.size();
                    List<Long> tokens = new ArrayList<>();
                    for (int v = vnodes.applyAsInt(n); v > 0; ) {
                        // The smallest and the largest token may be owned, too.
                        long t = used.isEmpty() && seed % 2 == 0 ? Long.MIN_VALUE : used.size() == 1 && seed % 3 == 0 ? Long.MAX_VALUE : random.nextLong();
                        if (used.add(t)) {
                            tokens.add(t);
                            v--;
                        }
                    }
                    // Racks have the same names in each datacenter, as availability zones may.
                    hosts.add(new Host(InetAddressAndPort.getByName("10.0." + d + "." + (n + 1)), String.valueOf((char) ('a' + n)),
                                       "dc" + (d + 1), "r" + (r + 1), tokens));
                }
        Map<InetAddressAndPort, Host> byAddress = new HashMap<>();
        for (Host h : hosts) byAddress.put(h.address, h);
        AbstractNetworkTopologySnitch snitch = new AbstractNetworkTopologySnitch() {
            public String getRack(InetAddressAndPort a) { return byAddress.get(a).rack; }
            public String getDatacenter(InetAddressAndPort a) { return byAddress.get(a).dc; }
        };
        TokenMetadata metadata = new TokenMetadata(snitch);
        for (Host h : hosts) {
            List<Token> tokens = new ArrayList<>();
            for (long t : h.tokens) tokens.add(new LongToken(t));
            metadata.updateNormalTokens(tokens, h.address);
        }

        out.printf("%s%n{\"name\":\"%s\",\"hosts\":[", separator, name);
        separator = "";
        for (Host h : hosts) {
            out.printf("%s%n {\"name\":\"%s\",\"dc\":\"%s\",\"rack\":\"%s\",\"tokens\":%s}", separator, h.name, h.dc, h.rack, h.tokens);
            separator = ",";
        }
        out.print("],\n\"keyspaces\":[");
        separator = "";
        for (int rf = 1; rf <= maxFactor; rf++) {
            Map<String, String> simple = Map.of("replication_factor", "" + rf);
            keyspace(out, simple, new SimpleStrategy("ks", metadata, snitch, simple), metadata, byAddress, random);
            Map<String, String> all = new TreeMap<>(), one = new TreeMap<>(), mixed = new TreeMap<>();
            for (int d = 0; d < layout.length; d++) {
                all.put("dc" + (d + 1), "" + rf);
                mixed.put("dc" + (d + 1), "" + (1 + (rf + d) % maxFactor));
            }
            one.put("dc" + layout.length, "" + rf);
            // A datacenter that has no host.
            one.put("dc9", "3");
            for (Map<String, String> options : layout.length > 1 ? List.of(all, one, mixed) : List.of(all))
                keyspace(out, options, new NetworkTopologyStrategy("ks", metadata, snitch, options), metadata, byAddress, random);
        }
        out.print("]}");
        separator = ",";
    }

    /** The replicas of every range, by the names of the hosts, and of tokens on and beside its edges. */
    static void keyspace(PrintStream out, Map<String, String> options, AbstractReplicationStrategy strategy, TokenMetadata metadata,
                         Map<InetAddressAndPort, Host> byAddress, Random random) {
        StringBuilder json = new StringBuilder();
        Map<String, String> all = new TreeMap<>(options);
        all.put("class", strategy.getClass().getName());
        for (Map.Entry<String, String> e : all.entrySet())
            json.append(json.isEmpty() ? "" : ",").append('"').append(e.getKey()).append("\":\"").append(e.getValue()).append('"');
        List<String> ranges = new ArrayList<>();
        for (Token t : metadata.sortedTokens()) ranges.add(replicas(strategy, metadata, byAddress, t));
        out.printf("%s%n {\"replication\":{%s},%n  \"ranges\":\"%s\",%n  \"probes\":[", separator, json, String.join(" ", ranges));
        List<Long> probes = new ArrayList<>(List.of(Long.MIN_VALUE, Long.MAX_VALUE));
        for (int i = 0; i < 2; i++) {
            long edge = ((LongToken) metadata.sortedTokens().get(random.nextInt(ranges.size()))).token;
            probes.addAll(List.of(edge, edge + 1));
        }
        separator = "";
        for (long p : probes) {
            out.printf("%s{\"token\":%d,\"replicas\":\"%s\"}", separator, p, replicas(strategy, metadata, byAddress, new LongToken(p)));
            separator = ",";
        }
        out.print("]}");
        separator = ",";
    }

    static String replicas(AbstractReplicationStrategy strategy, TokenMetadata metadata, Map<InetAddressAndPort, Host> byAddress, Token token) {
        StringBuilder s = new StringBuilder();
        for (Replica r : strategy.calculateNaturalReplicas(token, metadata)) s.append(byAddress.get(r.endpoint()).name);
        return s.toString();
    }
}
