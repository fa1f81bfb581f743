"""What a model said aloud: its reply without the thoughts that it wrote before or between."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator


def as_utf8(text: str) -> str:
    """The text with a question mark for whatever no file in UTF-8 can hold, such as half a surrogate pair."""
    return text.encode("utf-8", "replace").decode()


def enclosed(text: str, opening: re.Pattern[str], closing: re.Pattern[str], *, to_end: bool = False) -> Iterator[str]:
    """What stands between each `opening` and the `closing` next after it, in order; nothing is within two of them.

    `opening(.*?)closing` as one expression looks for the end again from every beginning: on a text of beginnings alone,
    its time grows with the square of the length.

    Args:
        to_end: what is never closed reaches to the end of the text; else it is left out.
    """
    position = 0
    while (begin := opening.search(text, position)) is not None:
        end = closing.search(text, begin.end())
        if end is None:
            if to_end:
                yield text[begin.end() :]
            return
        yield text[begin.end() : end.start()]
        position = end.end()


_THINK = r"(?:ant|\w+:|longcat_)?(?:think(?:ing)?(?:_\w+)?|thoughts?|reason(?:ing)?)"
_ASIDE = r"(?:reflection|scratch_?pad|\w*monologue|inner_thoughts?)"
_FINAL = r"<\|channel\|>final[^<\n]{0,80}(?:<\|constrain\|>[^<\n]{0,20})?<\|message\|>"
_MARKS = (
    (rf"<\s*{_THINK}\b[^<>\n]{{0,80}}>", rf"<\s*/\s*{_THINK}\s*>"),
    (rf"<\s*{_ASIDE}\b[^<>\n]{{0,80}}>", rf"<\s*/\s*{_ASIDE}\s*>"),
    (r"<details type=[\"']reasoning[\"'][^<>\n]{0,60}>", r"</details>"),
    (r"\[THINK(?:ING)?\]", r"\[/THINK(?:ING)?\]"),
    (r"◁\s*think\s*▷", r"◁\s*/\s*think\s*▷"),
    (r"<\|(?:begin_of_thought|inner_prefix)\|>", r"<\|(?:end_of_thought|inner_suffix)\|>"),
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),
    (r"<\|think(?:ing|_start)?\|>", r"<\|(?:/think(?:ing)?|think_end)\|>|<\|end\|><\|begin\|>assistant<\|content\|>"),
    (r"<(?:unused|ctrl)94>", r"<(?:unused|ctrl)95>"),
    (r"<\|channel>thought", r"<channel\|>"),
    (r"(?:(?:<\|start\|>)?assistant)?<\|channel\|>(?:analysis|commentary)", _FINAL),
    (r"(?-i:analysis(?=[A-Z]))", r"(?-i:assistantfinal)"),  # gpt-oss without its special tokens
)
"""How families of models open and close their thoughts."""
_IN_WORDS = (
    (r"\**here(?:['’]s| is) my thought process:\**", r"\**here(?:['’]s| is) my response:\**(?=[^*])"),
    (r"here (?:are|is) my reasoning(?: steps)?:", r"\[BEGIN FINAL RESPONSE\]"),
    (r"## Thinking[ \t]*\n", r"## Final Response[ \t]*\n"),
    (r"thinking\.\.\.[ \t]*\n", r"\.\.\.done thinking\."),
)
"""The same in words that anybody may write: they open thoughts where these are closed later on."""
_MAY_BE = (
    *(
        "assistant",
        "analysis",
        "## thinking\n",
        "thinking...\n",
        "here is my reasoning:",
        "here are my reasoning steps:",
    ),
    *("here is my thought process:", "here's my thought process:", "here’s my thought process:"),
)
_PAIRS = (*_MARKS, *_IN_WORDS)
_OPENS = re.compile("|".join(f"(?P<m{i}>{opening})" for i, (opening, _) in enumerate(_PAIRS)), re.IGNORECASE)
_CLOSES = {
    f"m{i}": re.compile(f"(?P<ends>{closing})" + f"|{opening}" * ("/" in closing), re.IGNORECASE)
    for i, (opening, closing) in enumerate(_PAIRS)
}
"""What ends thoughts, or, of tags, opens others within them."""
_ANY_END = re.compile(
    "|".join(closing for _, closing in (*_MARKS, _IN_WORDS[1]) if "details" not in closing), re.IGNORECASE
)
_QUOTES = tuple("`'\"‘’“”")
_WRAP = (
    r"(?:<\|(?:(?:begin|end)_of_(?:solution|box)|(?:START|END)_RESPONSE|return)\|>|\[(?:BEGIN|END) FINAL RESPONSE\])"
)
_WRAPS = re.compile(f"(?<![{''.join(_QUOTES)}]){_WRAP}|{_WRAP}(?![{''.join(_QUOTES)}])")
_ENDS = re.compile(
    r"(?:<\|(?:end\w*|im_end|eo[a-z]{1,2}(?:_id)?|END_OF_TURN_TOKEN|role_end)\|>|<end_of_turn>|\[\|endofturn\|\]"
    r"|<(?:seed:)?eos>|<turn\|>|<｜end▁of▁sentence｜>)\s*(?=\Z|<[|｜e])|(?:</s>\s*)+\Z"
)
_ANSWER = re.compile(
    rf"(?:<\|start\|>assistant)?{_FINAL}|<\|im_start\|>assistant\n|<\|start_header_id\|>assistant<\|end_header_id\|>"
)
_MAY_END = re.compile(r"[`'\"]?(?:(?:<[^<>\s]{0,24}>?|\[[\w |]{0,20}\]?)\s*)+[`'\"]?\Z|[`'\"]\Z")
"""The end of a reply, or of what came of one, that may be special tokens, or the beginning of one."""
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
_UNSURE = re.compile(r"`{1,2}|~{1,2}|(?:assistant)?[<\[◁][^\n]{0,100}")
"""The beginning of a line that may yet open a thought or a block of code."""
_LONGEST_MARK = 100


def spoken(text: str) -> str:
    """The text without thoughts: what stands between their marks, before an end without a beginning (which a chat
    template may have written), or after a beginning without an end (no tokens were left).

    A beginning opens a line; marks that are quoted, or in a block of code, are words like others.
    """
    if not any(mark.search(text) for mark in (_OPENS, _ANY_END, _WRAPS, _ENDS, _ANSWER)):
        return text
    told: list[str] = []
    listener = SpokenListener(told.append)
    listener(_after_lone_end(text))
    listener.finish()
    return "".join(told).strip()


def _after_lone_end(text: str) -> str:
    """What follows the end of a thought whose beginning is not in the text, if there is such an end."""
    end, begin = _ANY_END.search(text), _OPENS.search(text)
    if end is None or (begin is not None and begin.start() < end.start()):
        return text
    before, after = text[: end.start()][-1:], text[end.end() :][:1]
    if before in _QUOTES or after in _QUOTES or (before, after) == (" ", " "):
        return text
    alone = not text[text.rfind("\n", 0, end.start()) + 1 : end.start()].strip()
    fences = [len(_FENCE.findall(text, *part)) % 2 == 1 for part in ((0, end.start()), (end.end(),))]
    return text if fences[0] and (fences[1] or not alone) else text[end.end() :]


class SpokenListener:
    """Tells `hear` what is spoken of a reply that comes piece by piece; a piece waits while it may open a thought.

    Args:
        begun: whether thoughts without a beginning may come first: all waits for their end, or that of the reply.

    Attributes:
        thinks: whether a lone end of thoughts came.
    """

    def __init__(self, hear: Callable[[str], None], *, begun: bool = False) -> None:
        self._hear = hear
        self._held, self._seen, self._begun, self.thinks = "", "", begun, False
        self._ends: re.Pattern[str] | None = None
        self._depth, self._unsure = 0, ""  # what is told after all, if no end comes any more
        self._new_line, self._in_code, self._thought, self._struck = True, False, False, False

    def __call__(self, piece: str) -> None:
        self._held += piece
        self._seen = (self._seen + piece)[-2 * _LONGEST_MARK :]
        self.thinks = self.thinks or (self._ends is None and _ANY_END.search(self._seen) is not None)
        if self._begun:
            after = _after_lone_end(self._held)
            if after == self._held and _OPENS.match(self._held.lstrip()) is None:
                return
            self._begun, self._held = False, after
        while self._held and self._step():
            pass

    def finish(self) -> None:
        """Tell what waits."""
        self._begun = False
        while self._held and self._step():
            pass
        left = self._held if self._ends is None else self._unsure + self._held * bool(self._unsure)
        left = _ENDS.sub(lambda end: end[0] if end[0][1] == "/" and (self._struck or "<s>" in left) else "", left)
        if left := left if self._in_code else _WRAPS.sub("", left):
            self._hear(left)
        self._held = ""

    def _step(self) -> bool:
        """Take the next part of what is held; False where more has to come before."""
        held = self._held
        if self._ends is not None:
            mark = self._ends.search(held)
            quoted = mark is not None and held[: mark.start()][-1:] in _QUOTES and mark["ends"] is not None
            if mark is not None and quoted and mark.end() == len(held):
                return False
            quoted = quoted and mark is not None and held[mark.end()] in _QUOTES
            until = mark.end() if mark else max(0, len(held) - _LONGEST_MARK)
            self._held, self._unsure = held[until:], self._unsure + held[:until] * bool(self._unsure)
            if mark is None:
                return False
            if mark["ends"] is None:
                self._depth += held[: mark.start()][-1:] not in _QUOTES
                return True
            if quoted:
                return True
            self._depth, self._unsure = self._depth - 1, "\n"
            if not self._depth:
                self._ends, self._unsure, self._new_line, self._thought = None, "", True, True
            return True
        if self._new_line:
            begun = held.lstrip(" \t\r\n\ufeff\u200b")
            passed = _ANSWER.match(begun) or (_ANY_END.match(begun) if self._thought else None)  # of a thought within
            if passed is not None:
                self._held = begun[passed.end() :]
                return True
            opened = None if self._in_code else _OPENS.match(begun)
            if opened is not None:
                self._held, self._ends, self._depth = begun[opened.end() :], _CLOSES[opened.lastgroup or ""], 1
                self._unsure = opened[0] * (int((opened.lastgroup or "m0")[1:]) >= len(_MARKS))
                return True
            if any(mark.startswith(begun.lstrip("*").casefold()) for mark in _MAY_BE) or _UNSURE.fullmatch(begun):
                return False
            self._in_code ^= begun.startswith(("```", "~~~"))
            self._new_line = self._thought = False
        may_end = _MAY_END.search(held, max(0, len(held) - _LONGEST_MARK))
        told, kept = (held[: may_end.start()], may_end[0]) if may_end else (held, "")
        if not told:
            return False
        line, newline, rest = told.partition("\n")
        self._held = rest + kept
        self._new_line, self._struck = bool(newline), self._struck or "<s>" in line
        if line := (line if self._in_code else _WRAPS.sub("", line)) + newline:
            self._hear(line)
        return True


_REFUSAL = re.compile(
    r"\W*(?:(?:i['’]?m (?:very |so )?|i am )?sorry\b|i apologi[sz]e\b|unfortunately\b|as an ai\b[^.,]{0,60})?"
    r"[\s,.;:—-]*(?:but )?i(?:(?: can ?not|['’ ]?(?:m|am) (?:not able|unable) to| can['’]t| won['’]t| must decline to) "
    r"(?:help|assist|provide|answer|comply|fulfil|complete|generate|create|write|engage|do (?:that|this))"
    r"| (?:do not|don['’]t) know[^.!?]{0,60}\W*\Z)",
    re.IGNORECASE,
)


def is_refusal(text: str) -> bool:
    """Whether a reply begins by saying that its model will not, or cannot, do what it was asked."""
    return _REFUSAL.match(text[:300]) is not None
