import java.io.PrintWriter;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.*;
import org.apache.kafka.coordinator.group.modern.*;

/** Groups that members join and leave, and what Kafka's server-side assignors make of them. */
public class AssignorWriter {
    static final Random RANDOM = new Random(848);

    public static void main(String[] args) throws Exception {
        try (PrintWriter out = new PrintWriter(args[0] + "/assignors.jsonl", "UTF-8")) {
            for (int group = 0; group < 60; group++) {
                boolean homogeneous = group % 2 == 0;
                ConsumerGroupPartitionAssignor assignor = group % 3 == 0 ? new RangeAssignor() : new UniformAssignor();
                // Which topic comes first would depend on hashes of ids, which tests cannot choose.
                int topics = homogeneous && group % 3 != 0 ? 1 : 1 + RANDOM.nextInt(4);
                live(out, assignor, homogeneous, topics);
            }
        }
    }

    static void live(PrintWriter out, ConsumerGroupPartitionAssignor assignor, boolean homogeneous, int topics) {
        TreeMap<Uuid, Integer> counts = new TreeMap<>();
        for (int topic = 0; topic < topics; topic++) counts.put(new Uuid(topic + 1, topic * 77L), 1 + RANDOM.nextInt(9));
        TreeMap<String, Set<Uuid>> members = new TreeMap<>();
        Map<String, Map<Uuid, Set<Integer>>> targets = new HashMap<>();
        for (int step = 0; step < 8; step++) {
            if (members.size() > 1 && RANDOM.nextInt(3) == 0) {
                String gone = new ArrayList<>(members.keySet()).get(RANDOM.nextInt(members.size()));
                members.remove(gone);
                targets.remove(gone);
            } else {
                Set<Uuid> subscribed = new TreeSet<>();
                for (Uuid topic : counts.keySet()) if (homogeneous || RANDOM.nextBoolean()) subscribed.add(topic);
                members.put("member-" + RANDOM.nextInt(1000), subscribed);
            }
            if (RANDOM.nextInt(4) == 0) counts.compute(counts.firstKey(), (id, count) -> count + 1 + RANDOM.nextInt(3));
            targets = assign(out, assignor, homogeneous, counts, members, targets);
        }
    }

    static Map<String, Map<Uuid, Set<Integer>>> assign(PrintWriter out, ConsumerGroupPartitionAssignor assignor,
            boolean homogeneous, TreeMap<Uuid, Integer> counts, TreeMap<String, Set<Uuid>> members,
            Map<String, Map<Uuid, Set<Integer>>> targets) {
        Map<String, MemberSubscriptionAndAssignmentImpl> specs = new HashMap<>();
        Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        members.forEach((id, subscribed) -> {
            Map<Uuid, Set<Integer>> target = targets.getOrDefault(id, Map.of());
            target.forEach((topic, partitions) -> partitions.forEach(partition ->
                inverted.computeIfAbsent(topic, unused -> new HashMap<>()).put(partition, id)));
            specs.put(id, new MemberSubscriptionAndAssignmentImpl(Optional.empty(), instance(id), subscribed,
                new Assignment(Collections.unmodifiableMap(target))));
        });
        SubscriptionType type = homogeneous ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        GroupAssignment made = assignor.assign(new GroupSpecImpl(specs, type, inverted), new SubscribedTopicDescriber() {
            public int numPartitions(Uuid topic) {
                return counts.getOrDefault(topic, -1);
            }

            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        });
        Map<String, Map<Uuid, Set<Integer>>> next = new HashMap<>();
        StringJoiner lines = new StringJoiner(",");
        members.forEach((id, subscribed) -> {
            Map<Uuid, Set<Integer>> target = made.members().containsKey(id) ? made.members().get(id).partitions() : Map.of();
            Map<Uuid, Set<Integer>> copy = new TreeMap<>();
            target.forEach((topic, partitions) -> copy.put(topic, new TreeSet<>(partitions)));
            next.put(id, copy);
            StringJoiner names = new StringJoiner(",");
            subscribed.forEach(topic -> names.add("\"" + topic + "\""));
            lines.add(String.format("{\"id\":\"%s\",\"instance\":%s,\"topics\":[%s],\"before\":%s,\"target\":%s}", id,
                instance(id).map(name -> "\"" + name + "\"").orElse("null"), names,
                json(targets.getOrDefault(id, Map.of())), json(copy)));
        });
        StringJoiner topics = new StringJoiner(",");
        counts.forEach((topic, count) -> topics.add("\"" + topic + "\":" + count));
        out.printf("{\"assignor\":\"%s\",\"homogeneous\":%s,\"topics\":{%s},\"members\":[%s]}%n", assignor.name(),
            homogeneous, topics, lines);
        return next;
    }

    /** Every fourth member is static, its name sorted otherwise than its id. */
    static Optional<String> instance(String id) {
        int number = Integer.parseInt(id.substring(7));
        return number % 4 == 0 ? Optional.of("instance-" + (999 - number)) : Optional.empty();
    }

    static String json(Map<Uuid, Set<Integer>> partitions) {
        StringJoiner topics = new StringJoiner(",", "{", "}");
        new TreeMap<>(partitions).forEach((topic, numbers) -> topics.add("\"" + topic + "\":" + numbers));
        return topics.toString();
    }
}
