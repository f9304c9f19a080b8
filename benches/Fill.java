import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Properties;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Fills a topic with N generated events through Java's own producer, so that batches are what services really write.
 *
 * <p>The same seed gives the same keys, values and timestamps for every codec: the peers' reads can be compared.
 * Arguments: bootstrap topic records codec batch.size linger.ms first-timestamp-ms
 */
public final class Fill {
    private static final String[] EVENTS = {"view", "click", "basket", "order", "refund", "search"};
    private static final String[] COUNTRIES = {"cz", "de", "at", "pl", "sk", "fr", "nl", "se"};
    private static final int USERS = 2_000_000;
    private static final int RECORDS_PER_MS = 10;

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        long records = Long.parseLong(arguments[2]);
        long firstTimestampMs = Long.parseLong(arguments[6]);
        Properties properties = new Properties();
        properties.putAll(Map.of(
            "bootstrap.servers", arguments[0],
            "compression.type", arguments[3],
            "batch.size", arguments[4],
            "linger.ms", arguments[5],
            "buffer.memory", "67108864"));
        SplittableRandom random = new SplittableRandom(42);
        AtomicReference<Exception> failed = new AtomicReference<>();
        long started = System.nanoTime();
        try (var producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            StringBuilder text = new StringBuilder(128);
            for (long i = 0; i < records && failed.get() == null; i++) {
                long timestampMs = firstTimestampMs + i / RECORDS_PER_MS;
                int user = random.nextInt(USERS);
                byte[] key = ascii(digits(text, user, 8));
                byte[] value = ascii(event(text, random, user, timestampMs));
                producer.send(new ProducerRecord<>(topic, null, timestampMs, key, value), (metadata, error) -> {
                    if (error != null) {
                        failed.set(error);
                    }
                });
            }
        }
        if (failed.get() != null) {
            throw failed.get();
        }
        System.out.printf("{\"records\": %d, \"seconds\": %.3f}%n", records, (System.nanoTime() - started) / 1e9);
    }

    /** About 99 bytes of JSON, as varied as events of a shop are. */
    private static StringBuilder event(StringBuilder text, SplittableRandom random, int user, long timestampMs) {
        text.setLength(0);
        text.append("{\"user\":").append(user);
        text.append(",\"event\":\"").append(EVENTS[random.nextInt(EVENTS.length)]);
        text.append("\",\"cents\":").append(random.nextInt(100_000));
        text.append(",\"item\":").append(random.nextInt(50_000));
        text.append(",\"from\":\"").append(COUNTRIES[random.nextInt(COUNTRIES.length)]);
        text.append("\",\"at\":").append(timestampMs);
        return text.append(",\"ok\":").append(random.nextInt(50) != 0).append("}");
    }

    private static StringBuilder digits(StringBuilder text, int number, int width) {
        text.setLength(0);
        text.append(number);
        while (text.length() < width) {
            text.insert(0, '0');
        }
        return text;
    }

    private static byte[] ascii(StringBuilder text) {
        return text.toString().getBytes(StandardCharsets.ISO_8859_1);
    }
}
