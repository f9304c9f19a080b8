"""The embedded broker beside a real Kafka: start-up, throughput, memory of idle group members."""
