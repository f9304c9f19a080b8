import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads topics with Java's own consumer, which checks the CRC of every batch, and prints every record as a line of JSON.
 *
 * <p>Arguments: bootstrap topic...
 */
public final class Read {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0], "enable.auto.commit", "false");
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            List<TopicPartition> partitions = Stream.of(arguments).skip(1)
                .flatMap(topic -> consumer.partitionsFor(topic).stream())
                .map(info -> new TopicPartition(info.topic(), info.partition())).toList();
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            while (ends.entrySet().stream().anyMatch(end -> consumer.position(end.getKey()) < end.getValue())) {
                var records = consumer.poll(PATIENCE);
                if (records.isEmpty()) {
                    throw new IllegalStateException("nothing comes, and the end is not reached");
                }
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    System.out.println(JSON.writeValueAsString(line(record)));
                }
            }
        }
    }

    private static ObjectNode line(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode line = JSON.createObjectNode()
            .put("topic", record.topic()).put("partition", record.partition()).put("offset", record.offset())
            .put("timestamp", record.timestamp()).put("timestamp_type", record.timestampType().name)
            .put("key", record.key()).put("value", record.value());
        ArrayNode headers = line.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(header.value());
        }
        return line;
    }
}
