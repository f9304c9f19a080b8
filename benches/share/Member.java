import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;

/**
 * A member of a share group on Java's consumer. Arguments: what, topic, records, then key=value settings.
 *
 * <p>"accept" and "mask" read until every record is accepted or rejected, and print what benches/measure.py says;
 * "stamps" goes on until nobody reads it, and prints a line for each poll: when it returned (ns), and the stamps of latency.py.
 */
public final class Member {
    private static final Duration POLL = Duration.ofSeconds(1);

    public static void main(String[] arguments) {
        String what = arguments[0];
        Properties settings = new Properties();
        for (int at = 3; at < arguments.length; at++) {
            String[] pair = arguments[at].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        String bytes = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        settings.put("key.deserializer", bytes);
        settings.put("value.deserializer", bytes);
        settings.put("share.acknowledgement.mode", what.equals("mask") ? "explicit" : "implicit");
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(settings)) {
            consumer.subscribe(List.of(arguments[1]));
            if (what.equals("stamps")) {
                stamps(consumer);
            } else {
                settle(consumer, Long.parseLong(arguments[2]), what.equals("mask"));
            }
        }
    }

    private static void settle(KafkaShareConsumer<byte[], byte[]> consumer, long wanted, boolean isMasked) {
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long settled = 0;
        long counted = 0;
        long startedAt = 0;
        long cpuBefore = 0;
        while (settled < wanted) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(POLL);
            if (records.isEmpty()) {
                continue;
            }
            if (startedAt == 0) {
                // The clock starts with the first records: before, the group was made.
                startedAt = System.nanoTime();
                cpuBefore = system.getProcessCpuTime();
            } else {
                counted += records.count();
            }
            settled += records.count() - (isMasked ? decide(consumer, records) : 0);
        }
        consumer.commitSync().forEach((partition, failure) -> failure.ifPresent(error -> {
            throw error;
        }));
        double seconds = (System.nanoTime() - startedAt) / 1e9;
        double cpuSeconds = (system.getProcessCpuTime() - cpuBefore) / 1e9;
        System.out.println("{\"records\": " + counted + ", \"settled\": " + settled + ", \"seconds\": " + seconds
            + ", \"cpu_seconds\": " + cpuSeconds + "}");
    }

    /** Rejects a record in a hundred, releases one at its first delivery. Returns the number of released records. */
    private static int decide(KafkaShareConsumer<byte[], byte[]> consumer, ConsumerRecords<byte[], byte[]> records) {
        int released = 0;
        for (ConsumerRecord<byte[], byte[]> record : records) {
            long remainder = record.offset() % 100;
            if (remainder == 0) {
                consumer.acknowledge(record, AcknowledgeType.REJECT);
            } else if (remainder == 50 && record.deliveryCount().get() == 1) {
                consumer.acknowledge(record, AcknowledgeType.RELEASE);
                released++;
            } else {
                consumer.acknowledge(record, AcknowledgeType.ACCEPT);
            }
        }
        return released;
    }

    private static void stamps(KafkaShareConsumer<byte[], byte[]> consumer) {
        while (!System.out.checkError()) { // which is so once the reader of the lines is gone
            ConsumerRecords<byte[], byte[]> records = consumer.poll(POLL);
            StringBuilder line = new StringBuilder().append(System.nanoTime());
            for (ConsumerRecord<byte[], byte[]> record : records) {
                line.append(' ').append(ByteBuffer.wrap(record.value()).order(ByteOrder.LITTLE_ENDIAN).getLong());
            }
            if (!records.isEmpty()) {
                System.out.println(line);
            }
        }
    }
}
