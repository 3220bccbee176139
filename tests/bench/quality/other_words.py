"""Other words for the questions and memories of a data set, as language models gave them, from files beside it.

A file is a JSON object: the id of a question, or of the first turn of a memory, and its words with commas between.
Small talk has no ids; its sentences stand for them. docs/project/evaluate-recall.md says how such files are made
honestly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.quality.evaluation import Question, Unit
from bench.quality.rankers import Judged, Maker, Ranker, Ranking

from memory_server.kernel import json_text
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.text import words_between_commas
from nlp import MOST_TEXT_CHARS, MOST_TEXTS

Words = Mapping[str, tuple[str, ...]]
"""By the id of a question, or of the first turn of a memory."""


@dataclass(frozen=True, slots=True)
class GivenWords:
    queries: Words = field(default_factory=dict)
    memories: Words = field(default_factory=dict)

    @property
    def kinds(self) -> Mapping[str, GivenWords]:
        """The words of queries alone, those of memories alone, and both, as far as there are some."""
        kinds: dict[str, GivenWords] = {}
        if self.queries:
            kinds["words of queries"] = replace(self, memories={})
        if self.memories:
            kinds["words of memories"] = replace(self, queries={})
        if self.queries and self.memories:
            kinds["words of both"] = self
        return kinds

    def of_question(self, question: Question) -> Question:
        return replace(question, other_words=self.queries.get(question.id, ()))

    def of_unit(self, unit: Unit) -> Unit:
        return replace(unit, other_words=self.memories.get(unit.id, ()))


def read_words(paths: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The words of these files together. Raises InvalidInput: one cannot be read, or is not of the form."""
    words: dict[str, tuple[str, ...]] = {}
    for name in paths:
        try:
            fields = json_text.load_object(Path(name).read_bytes())
        except OSError as error:
            raise InvalidInput(f"{name} cannot be read: {error.strerror}.") from error
        except json_text.NotARecord as error:
            raise InvalidInput(
                f'{name} is not of the form {{"id": "word, word"}}: {error}.'
            ) from error
        for key, value in fields.items():
            if not isinstance(value, str):
                raise InvalidInput(
                    f"{name}: the words of `{key}` are not a text with commas between them."
                )
            words[key] = tuple(
                text[:MOST_TEXT_CHARS] for text in words_between_commas(value)[:MOST_TEXTS]
            )
    return words


def with_other_words(
    rankers: Mapping[str, Maker], names: Sequence[str], words_by_kind: GivenWords
) -> dict[str, Maker]:
    """The rankers, and those of these names once more with each kind of other words."""
    worded_rankers = dict(rankers)
    for name in names:
        for kind, words in words_by_kind.kinds.items():
            worded_rankers[f"{name}, {kind}"] = _worded(rankers[name], words)
    return worded_rankers


def _worded(make: Maker, words: GivenWords) -> Maker:
    def make_worded(units: Sequence[Unit]) -> Ranker:
        ranker = make([words.of_unit(unit) for unit in units])
        give = ranker.give

        def judged(question: Question) -> Judged:
            return ranker.judge(words.of_question(question))

        def given_by(question: Question) -> Ranking:
            assert give is not None
            return give(words.of_question(question))

        if give is None:
            return Ranker(judged)
        return Ranker(judged, given_by)

    return make_worded
