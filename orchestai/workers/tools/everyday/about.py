"""What the rules for questions about the program mean."""

from __future__ import annotations

from importlib.metadata import version

from lark import v_args

from orchestai.workers.tools.everyday.reading import Reading


@v_args(inline=True)
class About(Reading):
    def capabilities(self) -> str:
        beginning = self._in(
            "I plan what you ask for, and give each step to a worker. The workers here:",
            "Ich plane, worum Sie bitten, und gebe jeden Schritt einem Worker. Die Worker hier:",
        )
        return f"{beginning}\n{self._cards()}\n{self.adding()}"

    def workers(self) -> str:
        return f"{len(self._pool)} {self._in('workers', 'Worker')}:\n{self._cards()}\n{self.adding()}"

    def identity(self) -> str:
        return self._in(
            f"I am {self.version()}, a program that plans how workers (tools and language models) answer together.",
            f"Ich bin {self.version()}, ein Programm, das plant, wie Werkzeuge und Sprachmodelle zusammenarbeiten.",
        )

    def version(self) -> str:
        return f"OrchestAI {version('orchestai')}"

    def adding(self) -> str:
        if any(card.kind == "model" for card in self._pool):
            return self._in("To add a language model", "Ein weiteres Sprachmodell fügen Sie so hinzu") + _HOW
        return (
            self._in(
                "There is no language model yet, which translating, writing and explaining need. To add one",
                "Zum Übersetzen, Schreiben und Erklären fehlt noch ein Sprachmodell. So fügen Sie eines hinzu",
            )
            + _HOW
        )

    def _cards(self) -> str:
        return "\n".join(f"- {card.name}: {card.text}" for card in self._pool)


_HOW = ": orchestai init --server URL"
