"""`python people.py URL`: makes the table `people` and adds three rows to it."""

import sys

import psycopg

with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS people"
        " (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, born date, tags text[])"
    )
    connection.execute(
        "INSERT INTO people (name, born, tags) VALUES"
        " ('Ada', '1815-12-10', '{math,engine}'), ('Carl', '1777-04-30', '{math}'), ('Emmy', '1882-03-23', NULL)"
    )
    for (count,) in connection.execute("SELECT count(*) FROM people"):
        print(f"{count} people")
