"""A producer that knows nothing of Gauss: quotes at a steady rate, one in twenty twice.

python quotes.py BROKER [COUNT] [RATE]
"""

from __future__ import annotations

import json
import random
import sys
import time

from confluent_kafka import Producer

SYMBOLS = {"BTCUSD": 67_000.0, "ETHUSD": 3_500.0, "SOLUSD": 180.0, "EURUSD": 1.08, "XAUUSD": 2_700.0, "AAPL": 230.0}
TOPIC = "quotes.raw"
EVERY = 20


def main(broker: str, count: int = 5_000, rate: int = 1_000) -> None:
    producer = Producer({"bootstrap.servers": broker, "enable.idempotence": True, "log_level": 3})
    prices = dict(SYMBOLS)
    started = time.monotonic()
    for number in range(1, count + 1):
        symbol = random.choice(list(prices))
        prices[symbol] *= 1 + random.gauss(0, 0.0002)
        quote = {
            "id": number,
            "symbol": symbol,
            "bid": round(prices[symbol], 5),
            "ask": round(prices[symbol] * 1.0005, 5),
            "ts": time.time_ns() // 1_000_000,
        }
        for _ in range(2 if number % EVERY == 0 else 1):
            producer.produce(TOPIC, json.dumps(quote), symbol)
        producer.poll(max(0.0, started + number / rate - time.monotonic()))
    left = producer.flush(30)
    print(
        f"{count} quotes sent, {count // EVERY} of them twice" if not left else f"{left} quotes were not acknowledged"
    )
    sys.exit(1 if left else 0)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
