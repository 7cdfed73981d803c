import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.cassandra.tools.NodeProbe;

/** Answers what "nodetool getendpoints" answers, for many keys in one JVM. */
public class endpoints {
    /** Arguments: JMX port, keyspace.table. Input: keys in Base64, one per line. Output: a line of addresses per table and key. */
    public static void main(String[] args) throws Exception {
        try (NodeProbe probe = new NodeProbe("127.0.0.1", Integer.parseInt(args[0]));
             BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII))) {
            List<String> keys = new ArrayList<>();
            for (String line = input.readLine(); line != null; line = input.readLine())
                keys.add(new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8));
            StringBuilder answers = new StringBuilder();
            for (int i = 1; i < args.length; i++) {
                String[] name = args[i].split("\\.", 2);
                for (String key : keys)
                    answers.append(String.join(" ", probe.getEndpointsWithPort(name[0], name[1], key))).append('\n');
            }
            System.out.print(answers);
        }
    }
}
