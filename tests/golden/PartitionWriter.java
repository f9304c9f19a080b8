import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.Base64;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;

/**
 * Says where Kafka's own partitioner puts keys: a key in base64 a line in, its partition for each count out.
 *
 * <p>Arguments: the numbers of partitions.
 */
public final class PartitionWriter {
    public static void main(String[] arguments) throws Exception {
        int[] counts = Arrays.stream(arguments).mapToInt(Integer::parseInt).toArray();
        BufferedReader keys = new BufferedReader(new InputStreamReader(System.in));
        for (String line = keys.readLine(); line != null; line = keys.readLine()) {
            byte[] key = Base64.getDecoder().decode(line);
            int[] partitions = Arrays.stream(counts).map(n -> BuiltInPartitioner.partitionForKey(key, n)).toArray();
            System.out.println(Arrays.toString(partitions));
        }
    }
}
