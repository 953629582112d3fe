"""RabbitMQ behind the transports' seam: `transport` is the way in, the rest is its own."""
