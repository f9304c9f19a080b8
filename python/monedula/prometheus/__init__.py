"""Metrics for Prometheus: `watch(consumer, producer)`. Needs the extra `prometheus` (prometheus_client).

    import monedula.prometheus
    from prometheus_client import start_http_server

    monedula.prometheus.watch(consumer, producer)
    start_http_server(8000)

`dashboard()` is a dashboard for Grafana, `alert_rules()` are rules for Prometheus;
`python -m monedula.prometheus dashboard` and `python -m monedula.prometheus alerts` print them.
"""

from importlib.resources import files

from monedula.prometheus.collector import Collector, Detail, unwatch, watch

__all__ = ["Collector", "Detail", "alert_rules", "dashboard", "unwatch", "watch"]


def dashboard() -> str:
    """A dashboard for Grafana, as JSON to be imported there."""
    return (files(__name__) / "dashboard.json").read_text(encoding="utf-8")


def alert_rules() -> str:
    """A file of alerting rules for Prometheus, as YAML."""
    return (files(__name__) / "alerts.yml").read_text(encoding="utf-8")
