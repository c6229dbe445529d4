CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE orders (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer int NOT NULL REFERENCES customers,
    cents int NOT NULL CHECK (cents > 0)
);
CREATE VIEW totals AS
SELECT name, coalesce(sum(cents), 0) AS cents FROM customers LEFT JOIN orders ON customer = customers.id GROUP BY name;
