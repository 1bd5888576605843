"""Metrics of the bus, one set a process."""

from prometheus_client import Counter, Gauge

connected = Gauge("tidelog_bus_connected", "1 while the connection to NATS is up")
reconnects = Counter("tidelog_bus_reconnects_total", "Connections made again after a loss")
errors = Counter("tidelog_bus_errors_total", "Errors that the NATS client reported")
dropped_answers = Counter(
    "tidelog_bus_dropped_answers_total",
    "Answers not sent: too much was queued, or no connection, or they were to go to no inbox",
)
dropped_requests = Counter(
    "tidelog_bus_dropped_requests_total",
    "Requests not handled: the subject's handler was too slow, or the reply subject is no UTF-8",
    ["subject"],
)
sink_errors = Counter(
    "tidelog_bus_sink_errors_total",
    "Messages dropped as what takes them raised: a bug of ours",
)
handler_errors = Counter("tidelog_bus_handler_errors_total", "Handlers that raised", ["subject"])
reader_restarts = Counter(
    "tidelog_bus_reader_restarts_total", "Stream consumers made anew", ["stream", "reason"]
)
