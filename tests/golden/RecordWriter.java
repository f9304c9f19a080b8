import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.internals.ByteBufferOutputStream;

/** Writes record batches as Apache Kafka's own classes make them, and what those classes read back from them. */
public final class RecordWriter {
    private static final HexFormat HEX = HexFormat.of();
    private static final Header[] NONE = {};
    private final List<String> lines = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        RecordWriter writer = new RecordWriter();
        writer.codecs();
        writer.shapes();
        writer.transactions();
        writer.oldFormats();
        Files.write(Path.of(arguments[0], "record_batches.jsonl"), writer.lines);
    }

    private void codecs() {
        Object[][] codecs = {
            {"none", Compression.NONE},
            {"gzip", Compression.gzip().build()},
            {"gzip level 9", Compression.gzip().level(9).build()},
            {"snappy", Compression.snappy().build()},
            {"lz4", Compression.lz4().build()},
            {"lz4 level 12 (HC)", Compression.lz4().level(12).build()},
            {"zstd", Compression.zstd().build()},
            {"zstd level 19", Compression.zstd().level(19).build()},
        };
        for (Object[] codec : codecs) {
            MemoryRecordsBuilder few = builder((Compression) codec[1], TimestampType.CREATE_TIME, 1000, -1, false);
            for (int i = 0; i < 3; i++) {
                few.append(1_700_000_000_000L + i, bytes("key-" + i), bytes("value-" + i), NONE);
            }
            write("few, " + codec[0], few);
            if (codec[1] != Compression.NONE) {
                // Several blocks of every codec's framing.
                MemoryRecordsBuilder many = builder((Compression) codec[1], TimestampType.CREATE_TIME, 0, -1, false);
                for (int i = 0; i < 400; i++) {
                    many.append(i * 100L, bytes("" + i), bytes("jackdaw".repeat(40 + i % 40)), NONE);
                }
                write("many, " + codec[0], many);
            }
        }
    }

    private void shapes() {
        MemoryRecordsBuilder nulls = builder(Compression.NONE, TimestampType.CREATE_TIME, 5, -1, false);
        nulls.append(7, (byte[]) null, null, NONE);
        nulls.append(6, new byte[0], new byte[0], NONE);
        nulls.append(-1, bytes("k"), null, NONE);
        write("nulls, empty fields, timestamps that fall", nulls);

        MemoryRecordsBuilder headers = builder(Compression.NONE, TimestampType.CREATE_TIME, 5, -1, false);
        Header[] some = {
            new RecordHeader("a", bytes("1")),
            new RecordHeader("a", bytes("2")),
            new RecordHeader("čapka", null),
            new RecordHeader("", new byte[0]),
        };
        headers.append(7, bytes("k"), bytes("v"), some);
        headers.append(8, bytes("k"), bytes("x".repeat(300)), NONE);
        write("headers", headers);

        MemoryRecordsBuilder gaps = builder(Compression.NONE, TimestampType.CREATE_TIME, 100, -1, false);
        gaps.appendWithOffset(103, 7, bytes("k"), bytes("v"), NONE);
        gaps.appendWithOffset(300, 1_000_000_000_000L, bytes("k"), bytes("v"), NONE);
        gaps.overrideLastOffset(5000);
        write("compacted", gaps);

        write("log append time", appendTime(Compression.NONE));
        write("log append time, zstd", appendTime(Compression.zstd().build()));

        ByteBuffer empty = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        DefaultRecordBatch.writeEmptyHeader(empty, RecordBatch.MAGIC_VALUE_V2, 9, (short) 2, 11, 40, 49, 3,
            TimestampType.CREATE_TIME, 77, true, false);
        empty.flip();
        write("emptied by compaction", MemoryRecords.readableRecords(empty));
    }

    private static MemoryRecordsBuilder appendTime(Compression compression) {
        MemoryRecordsBuilder builder = builder(compression, TimestampType.LOG_APPEND_TIME, 5, -1, false);
        builder.append(7, bytes("k"), bytes("v"), NONE);
        builder.append(8, bytes("k"), bytes("v"), NONE);
        return builder;
    }

    private void transactions() {
        MemoryRecordsBuilder data = builder(Compression.NONE, TimestampType.CREATE_TIME, 10, 4711, true);
        data.append(7, bytes("k"), bytes("v"), NONE);
        write("transactional", data);
        for (ControlRecordType type : new ControlRecordType[] {ControlRecordType.COMMIT, ControlRecordType.ABORT}) {
            write("marker " + type, MemoryRecords.withEndTransactionMarker(
                11, 99, 3, 4711, (short) 6, new EndTransactionMarker(type, 21)));
        }
    }

    private void oldFormats() {
        for (byte magic : new byte[] {RecordBatch.MAGIC_VALUE_V0, RecordBatch.MAGIC_VALUE_V1}) {
            MemoryRecordsBuilder builder = new MemoryRecordsBuilder(new ByteBufferOutputStream(512), magic, Compression.NONE,
                magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME, 17, 0, -1, (short) -1, -1, false,
                false, -1, 4096);
            builder.append(magic == 0 ? -1 : 7, bytes("k"), bytes("v"));
            write("format " + magic, builder);
            write("format " + magic + ", gzip", oldSet(magic, Compression.gzip().build(), false));
            write("format " + magic + ", snappy", oldSet(magic, Compression.snappy().build(), false));
            write("format " + magic + ", lz4", oldSet(magic, Compression.lz4().build(), false));
        }
        write("format 1, log append time", oldSet(RecordBatch.MAGIC_VALUE_V1, Compression.lz4().build(), true));
    }

    /** A compressed message, as compaction leaves it: offsets have gaps. */
    private static MemoryRecordsBuilder oldSet(byte magic, Compression compression, boolean appendTime) {
        TimestampType type = magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE
            : appendTime ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(new ByteBufferOutputStream(512), magic, compression, type, 17,
            123_456_789L, -1, (short) -1, -1, false, false, -1, 4096);
        builder.appendWithOffset(18, magic == 0 ? -1 : 7, bytes("k"), bytes("jackdaw".repeat(50)));
        builder.appendWithOffset(21, magic == 0 ? -1 : 6, null, bytes("v"));
        builder.appendWithOffset(300, magic == 0 ? -1 : 1_700_000_000_000L, bytes(""), null);
        return builder;
    }

    private static MemoryRecordsBuilder builder(
            Compression compression, TimestampType timestampType, long baseOffset, long producerId, boolean transactional) {
        boolean idempotent = producerId >= 0;
        return new MemoryRecordsBuilder(new ByteBufferOutputStream(512), RecordBatch.MAGIC_VALUE_V2, compression, timestampType,
            baseOffset, 123_456_789L, producerId, (short) (idempotent ? 6 : -1), idempotent ? 42 : -1, transactional, false, 3,
            1 << 20);
    }

    private void write(String name, MemoryRecordsBuilder builder) {
        write(name, builder.build());
    }

    private void write(String name, MemoryRecords records) {
        MutableRecordBatch batch = records.batches().iterator().next();
        ByteBuffer buffer = records.buffer().duplicate();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        StringBuilder read = new StringBuilder();
        // The test knows the many: written out they would be megabytes.
        for (Record record : name.startsWith("many") ? List.<Record>of() : batch) {
            read.append(read.isEmpty() ? "" : ",").append(record(record));
        }
        lines.add(String.format("{\"case\":\"%s\",\"magic\":%d,\"base_offset\":%d,\"last_offset\":%d,\"leader_epoch\":%d,"
            + "\"codec\":\"%s\",\"append_time\":%b,\"max_timestamp\":%d,\"producer_id\":%d,\"producer_epoch\":%d,"
            + "\"base_sequence\":%d,\"transactional\":%b,\"control\":%b,\"records\":[%s],\"bytes\":\"%s\"}",
            name, batch.magic(), batch.baseOffset(), batch.lastOffset(), batch.partitionLeaderEpoch(),
            batch.compressionType().name, batch.timestampType() == TimestampType.LOG_APPEND_TIME, batch.maxTimestamp(),
            batch.producerId(), batch.producerEpoch(), batch.baseSequence(), batch.isTransactional(),
            batch.isControlBatch(), read, HEX.formatHex(bytes)));
    }

    private static String record(Record record) {
        StringBuilder headers = new StringBuilder();
        for (Header header : record.headers()) {
            headers.append(headers.isEmpty() ? "" : ",").append(String.format("[%s,%s]",
                hex(bytes(header.key())), hex(header.value())));
        }
        return String.format("{\"offset\":%d,\"timestamp\":%d,\"key\":%s,\"value\":%s,\"headers\":[%s]}",
            record.offset(), record.timestamp(), hex(array(record.key())), hex(array(record.value())), headers);
    }

    private static byte[] array(ByteBuffer buffer) {
        if (buffer == null) {
            return null;
        }
        byte[] array = new byte[buffer.remaining()];
        buffer.duplicate().get(array);
        return array;
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? "null" : "\"" + HEX.formatHex(bytes) + "\"";
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
