import java.nio.ByteBuffer;
import java.util.*;
import java.util.function.BiPredicate;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.*;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.*;

/** The groups of rust/engine/examples/assign_throughput.rs, for the assignors of Kafka's own consumer. */
public class AssignThroughput {
    static final int TOPICS = 500;
    static final int PARTITIONS = 10;
    static final int MEMBERS = 1000;
    static final int REPEATS = 5;
    /** A step that takes longer is not repeated. */
    static final double SLOW_MS = 2000;

    public static void main(String[] args) {
        Map<String, BiPredicate<Integer, Integer>> groups = new LinkedHashMap<>();
        groups.put("same topics", (member, topic) -> true);
        groups.put("different, 2 of 5 topics", (member, topic) -> (member * 7 + topic * 13 + member / 5 * topic) % 5 < 2);
        groups.put("different, 3 of 100 topics", (member, topic) -> (member * 31 + topic * 37 + member / 9 * topic) % 100 < 3);
        for (String assignor : args.length > 0 ? args : new String[] {"range", "roundrobin", "sticky", "cooperative-sticky"})
            groups.forEach((what, subscribes) -> new Group(assignor, what, subscribes).live());
    }

    static ConsumerPartitionAssignor assignor(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
    }

    static class Group {
        final String assignor;
        final String what;
        final BiPredicate<Integer, Integer> subscribes;
        final Cluster cluster;
        final TreeMap<Integer, List<TopicPartition>> members = new TreeMap<>();
        int generation = -1;

        Group(String assignor, String what, BiPredicate<Integer, Integer> subscribes) {
            this.assignor = assignor;
            this.what = what;
            this.subscribes = subscribes;
            Node node = new Node(1, "host", 9092);
            Node[] replicas = {node};
            List<PartitionInfo> partitions = new ArrayList<>();
            for (int topic = 0; topic < TOPICS; topic++)
                for (int i = 0; i < PARTITIONS; i++) partitions.add(new PartitionInfo(name(topic), i, node, replicas, replicas));
            cluster = new Cluster("cluster", List.of(node), partitions, Set.of(), Set.of());
            for (int member = 0; member < MEMBERS; member++) members.put(member, List.of());
        }

        void live() {
            step("first");
            step("again");
            members.put(MEMBERS, List.of());
            step("+1");
            step("settled");
            members.remove(MEMBERS / 2);
            step("-1");
            step("settled");
            members.keySet().removeIf(member -> member % 10 == 0);
            step("-10 %");
            step("settled");
            members.replaceAll((member, owned) -> {
                List<TopicPartition> all = new ArrayList<>();
                for (int topic = 0; topic < TOPICS; topic++)
                    for (int i = 0; i < PARTITIONS && member == 1 && subscribes.test(member, topic); i++)
                        all.add(new TopicPartition(name(topic), i));
                return all;
            });
            step("from one to all");
        }

        void step(String step) {
            Map<String, ByteBuffer> metadata = new LinkedHashMap<>();
            members.forEach((member, last) -> metadata.put(id(member), subscription(member, last)));
            double took = Double.MAX_VALUE;
            Map<String, Assignment> made = Map.of();
            Map<String, ByteBuffer> bytes = new HashMap<>();
            for (int repeat = 0; repeat < REPEATS && (repeat == 0 || took < SLOW_MS); repeat++) {
                long start = System.nanoTime();
                Map<String, Subscription> subscriptions = new HashMap<>();
                metadata.forEach((id, told) ->
                    subscriptions.put(id, ConsumerProtocol.deserializeSubscription(told.duplicate())));
                made = assignor(assignor).assign(cluster, new GroupSubscription(subscriptions)).groupAssignment();
                made.forEach((id, assignment) -> bytes.put(id, ConsumerProtocol.serializeAssignment(assignment)));
                took = Math.min(took, (System.nanoTime() - start) / 1e6);
            }
            generation++;
            report(step, took, made);
        }

        ByteBuffer subscription(int member, List<TopicPartition> last) {
            List<String> topics = new ArrayList<>();
            for (int topic = 0; topic < TOPICS; topic++) if (subscribes.test(member, topic)) topics.add(name(topic));
            ConsumerPartitionAssignor mine = assignor(assignor);
            int known = last.isEmpty() ? -1 : generation;
            if (known >= 0) remember(mine, last, known);
            List<TopicPartition> owned = assignor.equals("cooperative-sticky") ? last : List.of();
            return ConsumerProtocol.serializeSubscription(
                new Subscription(topics, mine.subscriptionUserData(Set.of()), owned, known, Optional.empty()));
        }

        @SuppressWarnings("removal")
        static void remember(ConsumerPartitionAssignor assignor, List<TopicPartition> last, int generation) {
            assignor.onAssignment(new Assignment(last), new ConsumerGroupMetadata("group", generation, "member", Optional.empty()));
        }

        void report(String step, double took, Map<String, Assignment> made) {
            Map<TopicPartition, Integer> before = new HashMap<>();
            members.forEach((member, owned) -> owned.forEach(partition -> before.put(partition, member)));
            int kept = 0;
            int moved = 0;
            int assigned = 0;
            long squares = 0;
            for (int member : new ArrayList<>(members.keySet())) {
                List<TopicPartition> owned = made.get(id(member)).partitions();
                for (TopicPartition partition : owned) {
                    Integer last = before.get(partition);
                    if (last != null && last == member) kept++;
                    else if (last != null) moved++;
                }
                assigned += owned.size();
                squares += (long) owned.size() * owned.size();
                members.put(member, owned);
            }
            System.out.printf(Locale.ROOT, "%s | %s | %s | %.1f ms | assigned %d | left their owner %d | moved %d | sum of squares %d%n",
                assignor, what, step, took, assigned, before.size() - kept, moved, squares);
        }
    }

    static String name(int topic) {
        return String.format("topic-%03d", topic);
    }

    static String id(int member) {
        return String.format("member-%04d", member);
    }
}
