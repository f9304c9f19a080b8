"""Share groups (KIP-932) through the public interface; `--on both` for a real Kafka as well."""
