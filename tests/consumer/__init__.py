"""What a consumer promises, sync and async alike, against a real Kafka."""
