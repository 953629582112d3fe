"""Private PostgreSQL and RabbitMQ for the tests: own ports, own folders, stopped by their own pids.

found.py      where the servers' programs are on this machine
child.py      a server as a child process that cannot outlive the tests
postgres.py   PostgresServer: a cluster; a fresh database per test
rabbitmq.py   RabbitMQServer: a node with its own epmd; a fresh virtual host per test
mail.py       MailServer: Postfix and Dovecot on loopback, for root
fixtures.py   the pytest fixtures over both
"""
