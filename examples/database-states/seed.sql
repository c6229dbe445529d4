INSERT INTO customers VALUES (1, 'Ada'), (2, 'Grace'), (3, 'Edsger');
INSERT INTO orders (customer, cents) SELECT 1 + n % 2, 100 * n FROM generate_series(1, 10) n;
