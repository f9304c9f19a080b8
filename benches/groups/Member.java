import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;

/** A member of a group on Java's consumer, which says when it got what; see events.py. Arguments: topic, then key=value settings. */
public final class Member {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        for (int at = 1; at < arguments.length; at++) {
            String[] pair = arguments[at].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        String bytes = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        settings.put("key.deserializer", bytes);
        settings.put("value.deserializer", bytes);
        System.out.println("{\"at\": " + System.nanoTime() + ", \"what\": \"ready\"}");
        System.in.read();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            // The end of standard input is the order to close.
            Thread closer = new Thread(() -> {
                try {
                    while (System.in.read() >= 0) { }
                } catch (java.io.IOException ignored) {
                    // as good as an end
                }
                consumer.wakeup();
            });
            closer.setDaemon(true);
            closer.start();
            consumer.subscribe(List.of(arguments[0]), new ConsumerRebalanceListener() {
                @Override public void onPartitionsAssigned(Collection<TopicPartition> partitions) { say("assigned", partitions); }
                @Override public void onPartitionsRevoked(Collection<TopicPartition> partitions) { say("revoked", partitions); }
                @Override public void onPartitionsLost(Collection<TopicPartition> partitions) { say("lost", partitions); }
            });
            while (true) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) {
                    continue;
                }
                Map<Integer, Integer> counts = new TreeMap<>();
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    counts.merge(record.partition(), 1, Integer::sum);
                }
                StringBuilder line = new StringBuilder();
                line.append("{\"at\": ").append(System.nanoTime()).append(", \"what\": \"records\", \"counts\": {");
                String separator = "";
                for (Map.Entry<Integer, Integer> entry : counts.entrySet()) {
                    line.append(separator).append('"').append(entry.getKey()).append("\": ").append(entry.getValue());
                    separator = ", ";
                }
                System.out.println(line.append("}}"));
            }
        } catch (WakeupException closed) {
            // the order to close
        }
        System.out.println("{\"at\": " + System.nanoTime() + ", \"what\": \"closed\"}");
    }

    private static void say(String what, Collection<TopicPartition> partitions) {
        int[] indexes = partitions.stream().mapToInt(TopicPartition::partition).sorted().toArray();
        System.out.println("{\"at\": " + System.nanoTime() + ", \"what\": \"" + what + "\", \"partitions\": "
            + java.util.Arrays.toString(indexes) + "}");
    }
}
