"""ASCII codes of the bytes that walks compare with."""

from __future__ import annotations

TAB, NEWLINE, CARRIAGE_RETURN, SPACE = b"\t\n\r "
QUOTE, BACKSLASH, COMMA, COLON = b'"\\,:'
MINUS, POINT = b"-."
DIGIT_0, DIGIT_9 = b"09"
OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET = b"{}[]"
LOWER_E, LOWER_F, LOWER_N = b"efn"
UPPER_T, UPPER_Z = b"TZ"

TO_LOWER = 32
"""The bit that makes a letter lower case."""
FIRST_NON_ASCII = 128
