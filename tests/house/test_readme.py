"""The README's own lines, run as they stand against a real Kafka."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster

README = Path(__file__).resolve().parents[2] / "README.md"
RECORDS = 7


def examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)


def run(example: str, kafka: KafkaCluster, topic: str) -> str:
    source = example.replace("localhost:9092", kafka.bootstrap).replace('"orders"', repr(topic))
    wide = {**os.environ, "POLARS_TABLE_WIDTH": "200"}
    ran = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, env=wide)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_first_example_prints_a_batch_and_a_frame(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    kafka.helper.produce(name, [{"value": f"order-{number}"} for number in range(RECORDS)])
    printed = run(examples()[0], kafka, name)
    assert f"<monedula.Batch of {RECORDS} rows: {name}-0 0..{RECORDS}>" in printed
    assert "order-0" in printed


def test_the_second_example_sends(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    run(f"import monedula\nimport polars\n{examples()[1]}", kafka, name)
    assert kafka.helper.offsets(name)[0][1] == 3


def test_the_third_example_reads_the_whole_topic(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(partitions=2)
    kafka.helper.produce(name, [{"value": "an order", "partition": number % 2} for number in range(RECORDS)])
    printed = run(f"import monedula\nimport pyarrow\n{examples()[2]}\nprint(table.num_rows)", kafka, name)
    assert printed.strip() == str(RECORDS)


def test_the_example_for_pytest_passes(tmp_path: Path) -> None:
    (source,) = (example for example in examples() if "def test_" in example)
    (tmp_path / "test_orders.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert "1 passed" in ran.stdout, ran.stdout
