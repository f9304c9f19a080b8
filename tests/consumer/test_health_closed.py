"""Health of clients that were closed."""

import monedula
import pytest
from monedula.testing import Broker


@pytest.mark.parametrize("client", [monedula.Consumer, monedula.Producer])
def test_a_closed_client_is_not_ok(client: type[monedula.Consumer] | type[monedula.Producer]) -> None:
    with Broker(topics=["orders"]) as broker:
        opened = client({"bootstrap.servers": broker.bootstrap_servers})
        assert opened.health()["ok"]
        opened.close()
        assert not opened.health()["ok"]
