"""Grammar of programs and expressions, and the names of its tokens in messages."""

from __future__ import annotations

GRAMMAR = r"""
program: stage ("|" stage)*
?stage: object | NOT -> negated_value | alternative
object: "{" entry ("," entry)* "}"
entry: (NAME | STRING) (":" alternative)?

?pipe: alternative ("|" (call | NOT))*
?alternative: either (ALT alternative)?
?either: both (OR both)*
?both: negated (AND negated)*
?negated: NOT negated -> unary
        | comparison
?comparison: sum ((EQ | ORDER) sum)?
?sum: product ((PLUS | MINUS) product)*
?product: factor ((TIMES | OVER | MODULO) factor)*
?factor: MINUS factor -> unary
       | atom
?atom: NUMBER -> number
     | STRING -> string
     | TRUE -> true
     | FALSE -> false
     | NULL -> null
     | path
     | call
     | conditional
     | "(" pipe ")"
conditional: IF pipe THEN pipe (ELIF pipe THEN pipe)* ELSE pipe END
path: (FIELD | DOT bracket) step* | DOT
?step: FIELD | DOT bracket -> dotted | bracket
bracket: "[" STRING "]"
call: NAME ("(" (argument (("," | ";") argument)*)? ")")?
?argument: NAME ":" pipe -> labelled
         | pipe

OR.2: /or(?![A-Za-z0-9_])/
AND.2: /and(?![A-Za-z0-9_])/
NOT.2: /not(?![A-Za-z0-9_])/
TRUE.2: /true(?![A-Za-z0-9_])/
FALSE.2: /false(?![A-Za-z0-9_])/
NULL.2: /null(?![A-Za-z0-9_])/
IF.2: /if(?![A-Za-z0-9_])/
THEN.2: /then(?![A-Za-z0-9_])/
ELIF.2: /elif(?![A-Za-z0-9_])/
ELSE.2: /else(?![A-Za-z0-9_])/
END.2: /end(?![A-Za-z0-9_])/
ALT: "//"
EQ: "==" | "!="
ORDER: "<=" | ">=" | "<" | ">"
PLUS: "+"
MINUS: "-"
TIMES: "*"
OVER: "/"
MODULO: "%"
FIELD: /\.[A-Za-z_][A-Za-z0-9_]*/
DOT: "."
NAME: /[A-Za-z_][A-Za-z0-9_]*/
NUMBER: /(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/
STRING: /"([^"\\\x00-\x1f]|\\["\\\/bfnrt]|\\u[0-9a-fA-F]{4})*"/
%ignore /[ \t\r\n]+/
"""

MEANING = {
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a string",
    "FIELD": "a field such as .bid",
    "DOT": "a field such as .bid",
    "LPAR": '"("',
    "RPAR": '")"',
    "LSQB": '"["',
    "RSQB": '"]"',
    "LBRACE": '"{"',
    "RBRACE": '"}"',
    "COLON": '":"',
    "COMMA": '","',
    "SEMICOLON": '";"',
    "$END": "the end",
    "VBAR": '"|"',
    "IF": "if",
    "THEN": "then",
    "ELIF": "elif",
    "ELSE": "else",
    "END": "end",
}

_GENERATORS = """
combinations each empty env error first foreach getpath halt input inputs keys leaf_paths limit map map_values
nth now paths range recurse repeat scan select splits to_entries tostream until while walk with_entries
"""
GENERATORS = frozenset(_GENERATORS.split())
"""Functions of jq that return no or several values, or need more than the current row."""
