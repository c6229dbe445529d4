"""Applies one revision, in the Python that has alembic; or prints versions, and the folders that they were found in.
Needs nothing of Gauss."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import sys


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--versions", action="store_true")
    parser.add_argument("--config", default="alembic.ini")
    parser.add_argument("--name", default="alembic")
    parser.add_argument("-x", action="append")
    parser.add_argument("revision", nargs="?", default="head")
    options = parser.parse_args()
    if options.versions:
        print(*versions(), "", *filter(os.path.isdir, sys.path[1:]), sep="\n")
        return
    del sys.path[0]  # this folder, whose alembic.py is another one
    from alembic import command
    from alembic.config import Config

    config = Config(options.config, ini_section=options.name, cmd_opts=options)
    url = address(config.get_main_option("sqlalchemy.url") or "")
    config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    os.environ["DATABASE_URL"] = url  # for an env.py that has its address from there
    command.upgrade(config, options.revision)


def address(given: str) -> str:
    """The address of the step's server, with the driver that the project names; the password is in PGPASSFILE."""
    from sqlalchemy.engine import URL

    driver = given.partition("://")[0]
    if not driver.startswith("postgresql+"):
        driver = "postgresql" if importlib.util.find_spec("psycopg2") else "postgresql+psycopg"
    query = {"host": os.environ["PGHOST"], "port": os.environ["PGPORT"]}
    return URL.create(
        driver, username=os.environ["PGUSER"], database=os.environ["PGDATABASE"], query=query
    ).render_as_string()


def versions() -> list[str]:
    """Of Python and of the packages that turn revisions into SQL."""
    found = [f"python {sys.version.split()[0]}"]
    for name in ("alembic", "sqlalchemy", "psycopg", "psycopg2", "psycopg2-binary", "asyncpg"):
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    main()
