"""The local engine: a process for each role on one Linux machine, joined by anonymous shared memory and sockets."""
