"""Short answers to questions: exact match and F1 as the official scripts of each data set define them.

- SQuAD (Rajpurkar et al. 2016, `evaluate-v1.1.py`), the default;
- HotpotQA (Yang et al. 2018, `hotpot_evaluate_v1.py`): as SQuAD, but `yes`, `no` and `noanswer` have no F1 with any
  other answer;
- TriviaQA (Joshi et al. 2017, `triviaqa_evaluation.py`): punctuation and underscores become blanks;
- NQ-open (Lee et al. 2019, `orqa/utils/eval_utils.py`): as SQuAD, with accents apart from their letters.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from orchestai.outcome import Outcome, Scored, Unscorable
from orchestai.sandbox import Sandbox
from orchestai.tasks.task import Task
from orchestai.text.spoken import enclosed, spoken

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_TRIVIAQA_PUNCTUATION = string.punctuation + "‘’´`"
_OFFICIAL = ("squad", "hotpotqa", "triviaqa", "nq_open")
_NUMBER = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?")
_WHOLE = ("yes", "no", "noanswer")
_WORD = re.compile(r"[^\W_]+")
_TAG = re.compile("<answer>"), re.compile("</answer>")


def normalize_answer(text: str, suite: str = "squad") -> str:
    """Lower case, without punctuation, articles and superfluous blanks.

    Args:
        suite: `hotpotqa`, `triviaqa` and `nq_open` have rules of their own; all others follow SQuAD.
    """
    if suite == "triviaqa":
        blanks = {ord(character): " " for character in _TRIVIAQA_PUNCTUATION}
        text = text.lower().translate(blanks)
    else:
        if suite == "nq_open":
            text = unicodedata.normalize("NFD", text)
        text = text.lower().translate({ord(character): None for character in string.punctuation})
    return " ".join(_ARTICLES.sub(" ", text).split())


def exact_match(prediction: str, answers: Sequence[str], suite: str = "squad") -> float:
    """1 if the prediction is one of the answers but for what `normalize_answer` takes away, else 0.

    Numbers are compared as such, but in suites whose official script takes their points and signs away.
    Of an answer of which that leaves nothing ("The The", "!!!"), nothing is taken away.
    """
    if suite not in _OFFICIAL and any(_NUMBER.fullmatch(answer.strip()) for answer in answers):
        return float(_as_number(prediction) in map(_as_number, answers))
    found = normalize_answer(prediction, suite)
    if not found:
        return float(bool(prediction.strip()) and prediction.strip() in (answer.strip() for answer in answers))
    return float(any(found == normalize_answer(answer, suite) for answer in answers))


def _as_number(text: str) -> Fraction | str:
    """The number that a text is, or the normalized text."""
    plain = text.strip().replace(",", "").replace("−", "-").rstrip(".")
    return Fraction(plain) if _NUMBER.fullmatch(plain) else normalize_answer(text)


def f1(prediction: str, answers: Sequence[str], suite: str = "squad") -> float:
    """Harmonic mean of precision and recall of the words, for the answer with the highest."""
    return max((_f1(prediction, answer, suite) for answer in answers), default=0.0)


def _f1(prediction: str, answer: str, suite: str) -> float:
    said, right = normalize_answer(prediction, suite), normalize_answer(answer, suite)
    if suite == "hotpotqa" and said != right and (said in _WHOLE or right in _WHOLE):
        return 0.0
    words, wanted = said.split(), right.split()
    same = (Counter(words) & Counter(wanted)).total()
    if not same:
        return 0.0
    precision, recall = same / len(words), same / len(wanted)
    return 2 * precision * recall / (precision + recall)


def tagged_answer(text: str) -> str | None:
    """What the last `<answer>...</answer>` says; None where there is none."""
    found = list(enclosed(spoken(text), *_TAG))
    return found[-1].strip() if found else None


def holds_answer(text: str, task: Task) -> bool:
    """Whether a text has the words of a right answer in a row. `yes` and `no` are in every text and say nothing."""
    words = f" {normalize_answer(text, task.suite)} "
    answers = {normalize_answer(answer, task.suite) for answer in task.answers} - {"yes", "no", ""}
    return any(f" {answer} " in words for answer in answers)


def finds_answer(text: str, task: Task, known: Iterable[str]) -> bool:
    """Whether a text holds a right answer that is news: neither the instruction nor any of the `known` texts has one.

    What a role wrote into a call itself, or had read before, it did not find by the call.
    """
    return holds_answer(text, task) and not any(holds_answer(each, task) for each in (task.instruction, *known))


def brevity(text: str, words: int) -> float:
    """1 for a text of at most so many words; for a longer one their share of it, so that copying does not pay.

    Words are told apart by whatever is neither letter nor digit, so that no text is short for want of blanks.
    """
    return min(1.0, words / max(len(_WORD.findall(text)), 1))


def search_reward_fn(task: Task, answer: str, sandbox: Sandbox) -> Outcome:
    """Exact match of the tagged answer (of the whole text where nothing is tagged) by the rules of the task's suite."""
    return _judged(exact_match, task, answer)


def f1_reward_fn(task: Task, answer: str, sandbox: Sandbox) -> Outcome:
    """`search_reward_fn` with F1 instead of exact match."""
    return _judged(f1, task, answer)


def _judged(measure: Callable[[str, Sequence[str], str], float], task: Task, answer: str) -> Outcome:
    if not task.answers:
        return Unscorable("task", f"nobody knows the answer to task {task.task_id}")
    tagged = tagged_answer(answer)
    return Scored(measure(answer if tagged is None else tagged, task.answers, task.suite))
