"""Fills the table of quotes: python feed.py "$(gauss db url postgres)" """

from __future__ import annotations

import sys

import psycopg

TABLE = """
CREATE TABLE IF NOT EXISTS quotes (
    id bigint PRIMARY KEY,
    symbol text NOT NULL,
    bid numeric(18,8) NOT NULL,
    ask numeric(18,8),
    tags text[],
    quoted_at timestamptz(3) NOT NULL
)
"""
ROWS = """
INSERT INTO quotes VALUES
    (1, 'BTC', 67123.45678901, 67123.5, ARRAY['spot', 'usd'], '2024-03-01 09:30:00.001+00'),
    (2, 'ETH', 3391.2, NULL, '{}', '2024-03-01 11:30:00.25+02'),
    (3, 'BTC', 9999999999.99999999, 0.00000001, ARRAY['naïve, "quoted"', ''], '1999-12-31 23:59:59.999+00'),
    (4, 'DOGE', -0.00000001, 0, ARRAY['meme'], '2024-03-01 09:30:00.002+00')
ON CONFLICT DO NOTHING
"""

if __name__ == "__main__":
    with psycopg.connect(sys.argv[1]) as connection:
        connection.execute(TABLE)
        connection.execute(ROWS)
