"""What the rules for questions about the program mean."""

from __future__ import annotations

from importlib.metadata import version

from lark import v_args

from orchestai.workers.base import WorkerError
from orchestai.workers.tools.everyday.reading import Reading


@v_args(inline=True)
class About(Reading):
    def capabilities(self) -> str:
        said = "I plan what you ask for, and give each step to a worker."
        said = self._in(said, "Ich plane, worum Sie bitten, und gebe jeden Schritt einem Worker.")
        return f"{said} {self.workers()}"

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
        missing = "There is no language model yet, which translating, writing and explaining need. To add one"
        fehlt = "Zum Übersetzen, Schreiben und Erklären fehlt noch ein Sprachmodell. So fügen Sie eines hinzu"
        return self._in(missing, fehlt) + _HOW

    def both(self, one: str, other: str) -> str:
        return f"{one}\n{other}"

    def greeting(self) -> str:
        hello, further = self._in("Hello!", "Hallo!"), self._in("Ask what I can do.", "Fragen Sie, was ich kann.")
        return f"{hello} {self.identity()} {further}"

    def thanks(self) -> str:
        return self._in("You are welcome.", "Gern geschehen.")

    def costs(self) -> str:
        if self._given:
            raise WorkerError("what the words ask the price of is the result of an earlier step")
        return self._in(
            "The tools here are free, and so are embedded models. A server's models cost what it charges; each run "
            "says what it took, and --max_cost_usd limits it.",
            "Die Werkzeuge hier und eingebettete Modelle kosten nichts. Die Modelle eines Servers kosten, was er "
            "verlangt; jeder Lauf sagt, was er gekostet hat, und --max_cost_usd begrenzt es.",
        )

    def privacy(self) -> str:
        return self._in(
            "Tools and embedded models run on this machine, without the internet; only a server that you add is sent "
            "what its models are asked. Runs are logged in the folder execution_logs.",
            "Werkzeuge und eingebettete Modelle laufen auf diesem Rechner, ohne Internet; nur ein Server, den Sie "
            "hinzufügen, bekommt, was seine Modelle gefragt werden. Protokolle stehen im Ordner execution_logs.",
        )

    def needs(self) -> str:
        return self._in(
            f"The tools here need no key, no server and no graphics card. {self.adding()}",
            f"Die Werkzeuge hier brauchen keinen Schlüssel, keinen Server und keine Grafikkarte. {self.adding()}",
        )

    def languages(self) -> str:
        return self._in(
            f"The tools here understand English and German. {self.adding()}",
            f"Die Werkzeuge hier verstehen Deutsch und Englisch. {self.adding()}",
        )

    def _cards(self) -> str:
        return "\n".join(f"- {card.name}: {card.text}" for card in self._pool)


_HOW = ": orchestai init --server URL"
