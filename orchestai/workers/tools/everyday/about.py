"""What the rules for questions about the program mean."""

from __future__ import annotations

from importlib.metadata import version

from lark import v_args

from orchestai.workers.tools.everyday.reading import Reading

_VERSION = version("orchestai")


@v_args(inline=True)
class About(Reading):
    def about(self, answer: str) -> str:
        return answer

    def capabilities(self) -> str:
        beginning = self._in(
            "I plan what you ask for, and give each step to a worker. The workers here:",
            "Ich plane, worum Sie bitten, und gebe jeden Schritt einem Worker. Die Worker hier:",
        )
        return f"{beginning}\n{self._cards()}\n{self.adding()}"

    def workers(self) -> str:
        count = len(self._pool)
        return f"{count} {self._in('workers', 'Worker')}:\n{self._cards()}\n{self.adding()}"

    def identity(self) -> str:
        return self._in(
            f"I am OrchestAI {_VERSION}, a program that plans how workers (tools and language models) answer "
            "together. I am no person.",
            f"Ich bin OrchestAI {_VERSION}, ein Programm, das plant, wie Worker (Werkzeuge und Sprachmodelle) "
            "gemeinsam antworten. Ich bin kein Mensch.",
        )

    def version(self) -> str:
        return f"OrchestAI {_VERSION}"

    def adding(self) -> str:
        if any(card.kind == "model" for card in self._pool):
            return self._in(
                "To add another language model: orchestai init --server URL",
                "Ein weiteres Sprachmodell kommt so dazu: orchestai init --server URL",
            )
        return self._in(
            "There is no language model yet, which translating, writing and explaining need. To add one: "
            "orchestai init --server URL",
            "Es gibt noch kein Sprachmodell; Übersetzen, Schreiben und Erklären brauchen eines. So kommt es dazu: "
            "orchestai init --server URL",
        )

    def _cards(self) -> str:
        return "\n".join(f"- {card.name}: {card.text}" for card in self._pool)
