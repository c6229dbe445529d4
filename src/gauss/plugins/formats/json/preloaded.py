"""Importing this loads the JSON walk from the cache of machine code, so that forked processes find it ready.

Nothing is compiled here: that takes seconds, and the first process with much JSON does it in the background.
"""

from __future__ import annotations

from gauss.plugins.formats.json.walk_decoder import load_cached

load_cached()
