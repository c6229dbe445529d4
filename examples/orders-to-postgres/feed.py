"""Sends the orders to the pipeline: python feed.py [PORT]"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 9311
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(Path(__file__).with_name("orders.jsonl").read_bytes())
