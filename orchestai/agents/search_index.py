"""Passages that BM25 (Robertson et al. 1994, by bm25s) finds in a corpus on this machine, or a function of a user's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import bm25s
import numpy as np

from orchestai.errors import InfrastructureError, UserError
from orchestai.storage import artifacts
from orchestai.tasks.records import read_file

_WORD = r"(?u)\b\w+\b"
_ABOUT = "index.json"
_FORMAT = 1


@dataclass(frozen=True)
class Passage:
    """A piece of a corpus.

    Attributes:
        id: what it can be cited by.
    """

    id: str
    title: str
    text: str

    @property
    def whole(self) -> str:
        """What is searched."""
        return f"{self.title}\n{self.text}" if self.title else self.text


def read_corpus(path: Path) -> list[Passage]:
    """Passages of a .jsonl(.gz) file: `{"id": ..., "title": ..., "text": ...}`; id and title may be missing.

    Pyserini's `{"id": ..., "contents": "title\\ntext"}` is read too.
    """
    passages: dict[str, Passage] = {}
    for number, (where, record) in enumerate(read_file(path, "passage")):
        title, text = record.get("title", ""), record.get("text")
        if text is None and isinstance(record.get("contents"), str):
            title, _, text = record["contents"].partition("\n")
        if not isinstance(text, str) or not isinstance(title, str):
            raise UserError(f"{where}: a passage has a text and may have a title, both strings")
        name = str(record.get("id", number))
        if name in passages:
            raise UserError(f"{where}: the id {name!r} is taken by an earlier passage; give each its own")
        passages[name] = Passage(name, title.strip('"'), text)
    return list(passages.values())


class SearchIndex:
    """Passages, found by their words."""

    def __init__(self, passages: Sequence[Any], retriever: bm25s.BM25) -> None:
        self._passages = passages
        self._retriever = retriever

    @classmethod
    def build(cls, passages: Sequence[Passage]) -> SearchIndex:
        """Index passages; k1 = 1.5, b = 0.75, Lucene's variant."""
        tokens = _tokens([passage.whole for passage in passages])
        if not any(tokens):
            raise UserError("a corpus without words cannot be searched; is it the right file?")
        retriever = bm25s.BM25(k1=1.5, b=0.75, method="lucene")
        retriever.index(tokens, show_progress=False)
        return cls([vars(passage) for passage in passages], retriever)

    @classmethod
    def load(cls, folder: Path) -> SearchIndex:
        """An index that `save` wrote; its parts are read from the disk as they are needed."""
        try:
            about = json.loads((folder / _ABOUT).read_text())
            retriever = bm25s.BM25.load(str(folder), load_corpus=True, mmap=True, show_progress=False, verbosity=0)
            if about["format"] != _FORMAT or len(retriever.corpus) != about["passages"]:
                raise ValueError("it is of another format, or not whole")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{folder}: no search index ({error}); run: orchestai agents index CORPUS") from error
        return cls(retriever.corpus, retriever)

    def save(self, folder: Path) -> None:
        """Write the index, its passages included."""
        with artifacts.replacing_folder(folder) as unfinished:
            corpus = [self._passages[i] for i in range(len(self))]
            self._retriever.save(str(unfinished), corpus=corpus, show_progress=False)
            artifacts.write_json(unfinished / _ABOUT, {"format": _FORMAT, "passages": len(self)})

    def __len__(self) -> int:
        return len(self._passages)

    def passage(self, name: str) -> Passage | None:
        """The passage with an id."""
        place = self._places.get(name)
        return None if place is None else Passage(**self._passages[place])

    @cached_property
    def _places(self) -> dict[str, int]:
        return {self._passages[i]["id"]: i for i in range(len(self))}

    def search(self, query: str, k: int) -> list[Passage]:
        """At most `k` passages that share a word with the query, the best first, earlier ones before equals."""
        tokens = [token for token in _tokens([query])[0] if token in self._retriever.vocab_dict]
        if not tokens:
            return []
        scores = self._retriever.get_scores(tokens)
        best = np.argpartition(-scores, k)[:k] if k < len(scores) else np.arange(len(scores))
        ranked = best[np.lexsort((best, -scores[best]))]
        return [Passage(**self._passages[int(i)]) for i in ranked if scores[i] > 0]


class SearchFunction:
    """Passages that a function of the user's finds, such as one that asks a search engine.

    Args:
        function: from a query to its results, the best first: texts, or mappings with `text` and perhaps `id` and
            `title`. It is called in threads.
    """

    def __init__(self, function: Callable[[str], Iterable[Any]]) -> None:
        self._function = function
        self._found: dict[str, Passage] = {}

    def passage(self, name: str) -> Passage | None:
        """The passage with an id, if it was found before."""
        return self._found.get(name)

    def search(self, query: str, k: int) -> list[Passage]:
        """The first `k` results. One without an id is called by its text's digest, so that it is the same next time.

        Raises:
            InfrastructureError: the function raised, or gave something else than results.
        """
        results = []
        try:
            for result in islice(self._function(query), k):
                known = {"text": result} if isinstance(result, str) else dict(result)
                text = str(known["text"])
                name = str(known.get("id") or artifacts.fingerprint(text))
                results.append(Passage(name, str(known.get("title") or ""), text))
        except Exception as error:
            name = getattr(self._function, "__qualname__", type(self._function).__qualname__)
            raise InfrastructureError("tool", f"search_tool {name}: {type(error).__name__}: {error}") from error
        self._found |= {passage.id: passage for passage in results}
        return results


def open_index(path: Path) -> SearchIndex:
    """The index in a folder, or one made of a corpus file."""
    return SearchIndex.load(path) if path.is_dir() else SearchIndex.build(read_corpus(path))


def _tokens(texts: Sequence[str]) -> list[list[str]]:
    found: Any = bm25s.tokenize(list(texts), token_pattern=_WORD, stopwords="en", return_ids=False, show_progress=False)
    return [[token for token in tokens if token] for tokens in found]
