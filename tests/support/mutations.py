"""Random edits of a YAML text, drawn by Hypothesis."""

import re
from collections.abc import Sequence

from hypothesis import strategies as st

CHARACTERS = [*":-,[]{}#&*!|>'\"%@`?<=~. \n\t\\_0a", "\r", "\0", "\x07", "\x1b", "\x7f", "\x85", "\xa0", "é", "ß"]
CHARACTERS += ["\u200b", "\u2028", "\u2029", "\u202e", "\ud800", "\ufeff", "\uffff", "中", "٣", "🙂", "\U0010ffff"]
VERSIONS = ["'>=2.10'", "'<2.10'", "'>=2.9,<2.13'", "'>=2.13,<2.10'", "soon", "''", "~", "[]", "{}", "null", "yes"]
WRAPPERS = ["[$]", "[$, $]", "{$: $}", "{as: $}", "{as: $, note: $}", "{others: $}", "{torch: $}", "'$'", '"$"', "? $"]
WRAPPERS += ["&a $", "[&a $, *a]", "*$", "!$ x", "!!str $", "!!python/name:os.$ ''", "<<: $", "|\n$", "--- $", "$ # $"]
WORD = re.compile(r"[\w.]+")
# Each edit has a pattern, and the replacements of a match. In a replacement, $ is the match.
EDITS: list[tuple[re.Pattern[str], list[str]]] = [
    (re.compile(""), [*CHARACTERS, *(character * 40 for character in CHARACTERS)]),  # An empty match inserts text.
    (re.compile("(?s)."), ["", *CHARACTERS]),
    (re.compile("(?s).{8}"), [""]),
    (re.compile("(?s).{64}"), [""]),
    (re.compile("(?s).*"), [""]),
    (re.compile("(?m)^.*\n"), ["", "$$", "$$$", *(" " * width + "$" for width in range(1, 9))]),
    (re.compile("(?m)^ +"), ["", *(" " * width for width in range(9))]),
    (re.compile(r"\[[^][]*\]|\{[^{}]*\}|'[^']*'|[\w.]+"), WRAPPERS),
]


@st.composite
def damaged(draw: st.DrawFn, text: str, words: Sequence[str]) -> bytes:
    """Draw a text with a few edits, possibly invalid UTF-8. ``words`` are further replacements for a word."""
    edits = [*EDITS, (WORD, [*WORD.findall(text), *words, *VERSIONS])]
    for pattern, replacements in draw(st.lists(st.sampled_from(edits), min_size=1, max_size=3)):
        match = pattern.search(text, draw(st.integers(0, len(text))))
        if match is not None:
            new = draw(st.sampled_from(replacements)).replace("$", match[0])
            text = text[: match.start()] + new + text[match.end() :]
    return text.encode(errors="surrogatepass")
