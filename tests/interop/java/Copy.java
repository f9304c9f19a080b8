import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Copies a topic to another exactly once: each transaction has what one poll returned and its offsets, and every third is
 * aborted and read again. Ends when it has copied as many records as asked.
 * Arguments: bootstrap, group protocol, source, target, group, transactional id, records.
 */
public class Copy {
    public static void main(String[] arguments) throws Exception {
        int wanted = Integer.parseInt(arguments[6]);
        try (var consumer = consumer(arguments); var producer = producer(arguments)) {
            producer.initTransactions();
            consumer.subscribe(List.of(arguments[2]));
            int copied = 0;
            for (int number = 1; copied < wanted; ) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> before = new HashMap<>();
                Map<TopicPartition, OffsetAndMetadata> after = new HashMap<>();
                for (ConsumerRecord<String, String> record : records) {
                    var partition = new TopicPartition(record.topic(), record.partition());
                    before.putIfAbsent(partition, new OffsetAndMetadata(record.offset()));
                    after.put(partition, new OffsetAndMetadata(record.offset() + 1));
                    producer.send(new ProducerRecord<>(arguments[3], record.key(), record.value()));
                }
                producer.sendOffsetsToTransaction(after, consumer.groupMetadata());
                boolean abort = number++ % 3 == 0;
                if (abort) {
                    producer.abortTransaction();
                    before.forEach(consumer::seek);
                } else {
                    producer.commitTransaction();
                    copied += records.count();
                }
                System.out.println("{\"event\": \"" + (abort ? "aborted" : "committed") + "\", \"records\": " + records.count() + "}");
            }
        }
    }

    private static KafkaConsumer<String, String> consumer(String[] arguments) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.protocol", arguments[1]);
        settings.put("group.id", arguments[4]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", false);
        settings.put("isolation.level", "read_committed");
        settings.put("max.poll.records", 20);
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private static KafkaProducer<String, String> producer(String[] arguments) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("transactional.id", arguments[5]);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }
}
