"""The server's metrics, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60)
_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class ServerMetrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "t2t_requests", "Answers to /translate, by HTTP status.", ["code"], registry=registry
        )
        self.seconds = Histogram(
            "t2t_request_seconds",
            "Time from headers to answer.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.queue_length = Gauge(
            "t2t_queue_length", "Requests that wait for the model.", registry=registry
        )
        self.batch_texts = Histogram(
            "t2t_batch_texts",
            "Texts that were translated together.",
            buckets=_TEXTS,
            registry=registry,
        )
        self.source_tokens = Counter(
            "t2t_source_tokens", "Subwords read, EOS included.", registry=registry
        )
        self.target_tokens = Counter(
            "t2t_target_tokens", "Subwords of the best outputs.", registry=registry
        )

    def text(self) -> bytes:
        """Returns all metrics in Prometheus's text format."""
        return generate_latest(self._registry)
