"""The `gauss` command: a lazy table of subcommands, so that `gauss check` never pays for what `gauss run` imports.

Convention: the command `NAME` lives in the module `gauss.cli.NAME` (`-` becomes `_`), which has either
- `app`: a `typer.Typer` with subcommands (`gauss readers ls|seek|drop`), or
- `command`: a plain function with Typer annotations (`gauss check FILE`).
The module is imported only when its command (or its help) is asked for. Output goes through `gauss.cli.output`,
failures are raised as `GaussError`; an exit code other than those of an error is `raise typer.Exit(code)`.
"""
