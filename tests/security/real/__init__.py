"""TLS, SASL and ACLs against a real Apache Kafka."""
