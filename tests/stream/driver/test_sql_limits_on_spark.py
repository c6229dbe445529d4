"""What queries of the sql processor may read and call."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gauss.contracts.transform import Schemas
from gauss.model.errors import ConfigError
from gauss.plugins.processors.sql.spec import SPEC as SQL
from gauss.plugins.processors.sql.transform import Sql

pytestmark = pytest.mark.spark

FORBIDDEN = [
    ("SELECT * FROM csv.`/etc/passwd`", "csv.`/etc/passwd`"),
    ("SELECT * FROM text.`file:///etc/passwd`", "the table or file text"),
    ("SELECT a FROM input WHERE a IN (SELECT value FROM text.`/etc/passwd`)", "the table or file text"),
    ("SELECT (SELECT max(value) FROM text.`/etc/passwd`) AS x FROM input", "the table or file text"),
    ("SELECT a FROM input WHERE EXISTS (SELECT 1 FROM json.`/etc/passwd`)", "the table or file json"),
    ("SELECT * FROM input, LATERAL (SELECT * FROM text.`/etc/passwd`)", "the table or file text"),
    ("SELECT a FROM input JOIN secrets USING (a)", "secrets"),
    ("SELECT a FROM input UNION ALL TABLE secrets", "secrets"),
    ("WITH input AS (SELECT * FROM other) SELECT a FROM input", "other"),
    ("WITH x AS (SELECT * FROM y), y AS (SELECT 1 AS a) SELECT a FROM x", "y"),
    ("WITH x AS (SELECT * FROM x) SELECT a FROM x", "x"),
    ("SELECT * FROM spark_catalog.default.input", "spark_catalog"),
    ("SELECT * FROM global_temp.input", "global_temp"),
    ("SELECT * FROM IDENTIFIER('text.`/etc/passwd`')", "the table or file text"),
    ("SELECT * FROM IDENTIFIER('text.' || '`/etc/passwd`')", "IDENTIFIER"),
    ("SELECT * FROM input VERSION AS OF 1", "AS OF"),
    ("SELECT reflect('java.lang.System', 'getenv', 'HOME') AS h FROM input", "reflect"),
    ("SELECT `reflect`('java.lang.System', 'getenv', 'HOME') AS h FROM input", "reflect"),
    ("SELECT java_method('java.lang.System', 'exit', 1) AS h FROM input", "java_method"),
    ("SELECT try_reflect('java.lang.System', 'getenv', 'HOME') AS h FROM input", "try_reflect"),
    ("SELECT transform(array(1), x -> reflect('java.util.UUID', 'randomUUID')) AS h FROM input", "reflect"),
    ("SELECT a FROM input ORDER BY reflect('java.util.UUID', 'randomUUID')", "reflect"),
    ("SELECT sum(a) OVER (ORDER BY reflect('java.util.UUID', 'randomUUID')) AS s FROM input", "reflect"),
    ("SELECT max(a) FILTER (WHERE reflect('java.util.UUID', 'randomUUID') = 'x') AS s FROM input", "reflect"),
    ("SELECT system.builtin.reflect('java.util.UUID', 'randomUUID') AS s FROM input", "reflect"),
    ("SELECT IDENTIFIER('ref' || 'lect')('java.util.UUID', 'randomUUID') AS s FROM input", "IDENTIFIER"),
    ("SELECT from_protobuf(a, 'M', '/etc/passwd') AS m FROM input", "from_protobuf"),
    ("SELECT from_avro(a, '{}', map('avroSchemaUrl', 'file:///etc/passwd')) AS m FROM input", "from_avro"),
    ("SELECT from_xml(a, 'a INT', map('rowValidationXSDPath', '/etc/passwd')) AS m FROM input", "from_xml"),
    ("SELECT * FROM python_worker_logs()", "python_worker_logs"),
    ("SELECT * FROM read_files('/etc/passwd')", "read_files"),
    ("SELECT TRANSFORM (a) USING 'cat /etc/passwd' AS (x) FROM input", "TRANSFORM"),
    ("FROM input SELECT TRANSFORM (a) USING 'sh'", "TRANSFORM"),
    ("SET", "Set"),
    ("SET spark.sql.ansi.enabled = true", "Set"),
    ("SHOW TABLES", "Show"),
    ("SHOW FUNCTIONS", "Show"),
    ("DESCRIBE FUNCTION upper", "Describe"),
    ("EXPLAIN SELECT 1", "Explain"),
    ("CREATE TABLE t (a INT) USING csv LOCATION '/tmp'", "Create"),
    ("CREATE TEMPORARY VIEW v USING csv OPTIONS (path '/etc/passwd')", "Create"),
    ("CREATE TEMPORARY FUNCTION f AS 'x' USING JAR '/tmp/x.jar'", "Create"),
    ("INSERT OVERWRITE DIRECTORY '/tmp/x' USING csv SELECT 1", "Insert"),
    ("DROP VIEW input", "Drop"),
    ("LOAD DATA INPATH '/etc/passwd' INTO TABLE t", "Load"),
    ("ADD JAR '/tmp/x.jar'", "AddJar"),
    ("LIST JARS", "List"),
    ("CACHE TABLE input", "Cache"),
    ("EXECUTE IMMEDIATE 'SELECT 1'", "Execute"),
    ("BEGIN SELECT 1; END", "script"),
    ("DECLARE x INT = 1", "Create"),
]

ALLOWED = [
    "SELECT a, b FROM input WHERE a > 1",
    "TABLE input",
    "SELECT i.* FROM input AS i",
    "WITH x AS (SELECT a FROM input), y AS (SELECT a FROM x) SELECT a FROM y",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT a, n FROM input, r",
    "SELECT a, count(*) AS n FROM input GROUP BY a HAVING count(*) > 1 ORDER BY a LIMIT 3 OFFSET 1",
    "SELECT a, sum(a) OVER w AS s FROM input WINDOW w AS (PARTITION BY b ORDER BY a)",
    "SELECT x.a, y.b FROM input x LEFT JOIN input y ON x.a = y.a",
    "SELECT a FROM input WHERE a IN (SELECT max(a) FROM input) AND EXISTS (SELECT 1 FROM input)",
    "SELECT a, e FROM input LATERAL VIEW explode(array(a, a + 1)) t AS e",
    "SELECT a, e FROM input, LATERAL explode(array(a, a + 1)) AS t(e)",
    "SELECT a, c.x FROM input, LATERAL (SELECT b AS x) AS c",
    "SELECT * FROM input PIVOT (sum(a) FOR b IN ('x', 'y'))",
    "SELECT * FROM (SELECT a, a AS c FROM input) UNPIVOT (v FOR k IN (a, c))",
    "SELECT a, v FROM input CROSS JOIN (VALUES (1), (2)) AS t(v)",
    "SELECT a FROM input UNION SELECT 1 EXCEPT SELECT 2 INTERSECT SELECT 3",
    "SELECT /*+ REPARTITION(1) */ DISTINCT a FROM input TABLESAMPLE (50 PERCENT)",
    "SELECT a, id FROM input, range(2)",
    "FROM input |> WHERE a > 1 |> SELECT a, upper(b) AS u",
    "SELECT transform(array(a), x -> x + 1) AS t, named_struct('a', a).a AS s, current_database() AS d FROM input",
    "SELECT a FROM input GROUP BY GROUPING SETS ((a), ()) DISTRIBUTE BY a SORT BY a",
    "SELECT from_json(b, 'x INT').x AS x, try_cast(b AS INT) AS n, CASE WHEN a = 1 THEN 'one' END AS c FROM input",
]


def sql(query: str) -> Sql:
    return Sql(SQL.validate({"input": {"format": "json"}, "query": query}))  # type: ignore[arg-type]


def records(spark: Any) -> Any:
    return spark.createDataFrame([(1, "x", 1, b"")], "a int, b string, _ts_ms bigint, _data binary")


@pytest.mark.parametrize(("query", "named"), FORBIDDEN)
def test_a_query_that_reaches_beyond_its_records_is_refused_and_the_piece_is_named(
    spark: Any, query: str, named: str
) -> None:
    for attempt in (lambda: sql(query).apply(records(spark)), lambda: sql(query).bind(Schemas())):
        with pytest.raises(ConfigError, match="which sql may not use") as caught:
            attempt()
        assert named.lower() in caught.value.message.lower() and caught.value.hint


@pytest.mark.parametrize("query", ALLOWED)
def test_a_query_over_its_records_runs(spark: Any, query: str) -> None:
    sql(query).apply(records(spark)).collect()


def test_a_variable_of_the_environment_or_of_spark_is_not_filled_in(spark: Any) -> None:
    query = "SELECT '${env:PATH}' AS p, '${spark.app.id}' AS i, '${system:user.home}' AS h FROM input"
    [row] = sql(query).apply(records(spark)).collect()
    assert (row.p, row.i, row.h) == ("${env:PATH}", "${spark.app.id}", "${system:user.home}")
    assert os.environ["PATH"] not in str(row)


def test_a_refused_statement_was_not_carried_out(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        sql(f"INSERT OVERWRITE DIRECTORY '{tmp_path}/out' USING csv SELECT a FROM input").apply(records(spark))
    assert not (tmp_path / "out").exists()
