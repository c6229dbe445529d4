"""`python accounts.py URL`: makes the table `accounts`, or changes it: an insert, an update and a delete."""

import sys

import psycopg

with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    found = connection.execute("SELECT to_regclass('accounts')").fetchone()
    if found == (None,):
        connection.execute("CREATE TABLE accounts (id int PRIMARY KEY, owner text NOT NULL, balance numeric(12, 2))")
        connection.execute("INSERT INTO accounts VALUES (1, 'Ada', 100), (2, 'Carl', 250.50), (3, 'Emmy', 0)")
        print("made accounts with 3 rows")
    else:
        with connection.transaction():
            connection.execute("UPDATE accounts SET balance = balance - 25 WHERE id = 2")
            connection.execute("DELETE FROM accounts WHERE id = 3")
            connection.execute("INSERT INTO accounts VALUES (4, 'Sofia', 25) ON CONFLICT DO NOTHING")
        print("changed accounts: one updated, one deleted, one inserted")
