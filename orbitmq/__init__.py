"""OrbitMQ: a durable message broker for one machine, built for Python."""

__version__ = "0.1.0"
