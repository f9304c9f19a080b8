"""What tests of Spark share: sessions, topics, frames, and the classes of its JVM."""
