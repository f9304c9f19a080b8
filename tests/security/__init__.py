"""TLS, SASL, ACLs and secrets, with any broker; `real` has what needs a real Kafka."""
