"""Damages a YAML text, with changes that hypothesis draws."""

import re
from collections.abc import Callable, Sequence

from hypothesis import strategies as st

CHARACTERS = [*":-,[]{}#&*!|>'\"%@`?<=~. \n\t\\_0a", "\r", "\0", "\x07", "\x1b", "\x7f", "\x85", "\xa0", "é", "ß"]
CHARACTERS += ["\u200b", "\u2028", "\u2029", "\u202e", "\ud800", "\ufeff", "\uffff", "中", "٣", "🙂", "\U0010ffff"]
VERSIONS = ["'>=2.10'", "'<2.10'", "'>=2.9,<2.13'", "'>=2.13,<2.10'", "soon", "''", "~", "[]", "{}", "null", "yes"]
WRAPPERS = ["[$]", "[$, $]", "{$: $}", "{as: $}", "{as: $, note: $}", "{others: $}", "{torch: $}", "'$'", '"$"', "? $"]
WRAPPERS += ["&a $", "[&a $, *a]", "*$", "!$ x", "!!str $", "!!python/name:os.$ ''", "<<: $", "|\n$", "--- $", "$ # $"]
WORD = re.compile(r"[\w.]+")
NODE = re.compile(r"\[[^][]*\]|\{[^{}]*\}|'[^']*'|[\w.]+")

Mutation = Callable[[st.DrawFn, str, Sequence[str]], str]


def replace_characters(draw: st.DrawFn, text: str, _: Sequence[str]) -> str:
    """Replace a few characters, or none, by nothing or by characters with a meaning in YAML."""
    at, removed = draw(st.integers(0, len(text))), draw(st.sampled_from((0, 1, 1, 2, 8, 64)))
    new: str = draw(st.sampled_from(["", *CHARACTERS])) * draw(st.sampled_from((1, 1, 1, 2, 40)))
    return text[:at] + new + text[at + removed :]


def swap_characters(draw: st.DrawFn, text: str, _: Sequence[str]) -> str:
    at = draw(st.integers(0, len(text)))
    return text[:at] + text[at : at + 2][::-1] + text[at + 2 :]


def move_line(draw: st.DrawFn, text: str, _: Sequence[str]) -> str:
    """Delete a line, repeat it, or move it."""
    lines = text.splitlines(keepends=True) or [""]
    line = lines.pop(draw(st.integers(0, len(lines) - 1)))
    at = draw(st.integers(0, len(lines)))
    lines[at:at] = [line] * draw(st.integers(0, 2))
    return "".join(lines)


def indent_line(draw: st.DrawFn, text: str, _: Sequence[str]) -> str:
    lines = text.splitlines(keepends=True) or [""]
    at = draw(st.integers(0, len(lines) - 1))
    lines[at] = " " * draw(st.integers(0, 8)) + lines[at].lstrip(" ")
    return "".join(lines)


def replace_word(draw: st.DrawFn, text: str, words: Sequence[str]) -> str:
    return _replaced(draw, WORD, text, draw(st.sampled_from(words)))


def wrap_node(draw: st.DrawFn, text: str, _: Sequence[str]) -> str:
    return _replaced(draw, NODE, text, draw(st.sampled_from(WRAPPERS)))


def truncate(draw: st.DrawFn, text: str, _: Sequence[str]) -> str:
    return text[: draw(st.integers(0, len(text)))]


def _replaced(draw: st.DrawFn, pattern: re.Pattern[str], text: str, new: str) -> str:
    """Replace a match of the pattern by a text in which $ is the match."""
    match = pattern.search(text, draw(st.integers(0, len(text))))
    if match is None:
        return text
    return text[: match.start()] + new.replace("$", str(match[0])) + text[match.end() :]


MUTATIONS: list[Mutation] = [truncate, replace_characters, swap_characters, move_line]
MUTATIONS += [indent_line, replace_word, wrap_node]


@st.composite
def damaged(draw: st.DrawFn, text: str, words: Sequence[str]) -> bytes:
    """Draw a text with a few mutations; it may no longer be UTF-8. The words have a meaning in it."""
    known = [*WORD.findall(text), *words, *VERSIONS]
    for mutation in draw(st.lists(st.sampled_from(MUTATIONS), min_size=1, max_size=3)):
        text = mutation(draw, text, known)
    return text.encode(errors="surrogatepass")
