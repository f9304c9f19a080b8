import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Consumes a topic in a share group, and says each record that it gets. A record's value says what becomes of it: one
 * that begins with "release" is released when it comes first, "reject" is rejected, "renew" is renewed when it comes
 * first and accepted when it comes again, "hold" is renewed for ever by the first that has it, and any other is
 * accepted.
 * Arguments: bootstrap, group, topic, the acknowledgement mode, the acquire mode, records to accept or reject.
 */
public class Share {
    public static void main(String[] arguments) throws Exception {
        boolean explicit = arguments[3].equals("explicit");
        int wanted = Integer.parseInt(arguments[5]);
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("share.acknowledgement.mode", arguments[3]);
        settings.put("share.acquire.mode", arguments[4]);
        settings.put("max.poll.records", 5);
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        int done = 0;
        Map<Long, Boolean> renewed = new HashMap<>();
        try (var consumer = new KafkaShareConsumer<String, String>(settings)) {
            consumer.setAcknowledgementCommitCallback((offsets, failure) -> {
                if (failure != null) {
                    System.out.println("{\"event\": \"failed\", \"failure\": \"" + failure.getClass().getSimpleName() + "\"}");
                }
            });
            consumer.subscribe(List.of(arguments[2]));
            while (done < wanted) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                for (ConsumerRecord<String, String> record : records) {
                    AcknowledgeType type = decide(record, renewed);
                    if (type != AcknowledgeType.RELEASE && type != AcknowledgeType.RENEW || !explicit) {
                        done++;
                    }
                    System.out.println("{\"event\": \"record\", \"value\": \"" + record.value() + "\", \"partition\": "
                        + record.partition() + ", \"offset\": " + record.offset() + ", \"deliveries\": "
                        + record.deliveryCount().get() + ", \"type\": \"" + type.name() + "\"}");
                    if (explicit) {
                        consumer.acknowledge(record, type);
                    }
                }
                if (!records.isEmpty()) {
                    consumer.commitSync().forEach((partition, failure) -> failure.ifPresent(one ->
                        System.out.println("{\"event\": \"failed\", \"failure\": \"" + one.getClass().getSimpleName() + "\"}")));
                    System.out.println("{\"event\": \"committed\", \"lock_ms\": "
                        + consumer.acquisitionLockTimeoutMs().orElse(-1) + "}");
                }
            }
        }
        System.out.println("{\"event\": \"closed\"}");
    }

    private static AcknowledgeType decide(ConsumerRecord<String, String> record, Map<Long, Boolean> renewed) {
        if (record.value().startsWith("reject")) {
            return AcknowledgeType.REJECT;
        }
        if (record.value().startsWith("release") && record.deliveryCount().get() == 1) {
            return AcknowledgeType.RELEASE;
        }
        if (record.value().startsWith("renew") && renewed.put(record.offset(), true) == null) {
            return AcknowledgeType.RENEW;
        }
        if (record.value().startsWith("hold") && record.deliveryCount().get() == 1) {
            return AcknowledgeType.RENEW;
        }
        return AcknowledgeType.ACCEPT;
    }
}
