"""The Agents SDK of OpenAI, over responses and chat completions. `pip install openai-agents`.

URL and key are in OpenAI's variables:
OPENAI_BASE_URL=http://127.0.0.1:8080/v1 OPENAI_API_KEY=none python examples/clients/openai_agents.py
"""

from __future__ import annotations

import asyncio

from openai import AsyncOpenAI

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)

MODEL = "orchestai"


@function_tool
def weather(town: str) -> str:
    """The weather in a town."""
    return f"It rains in {town}."


async def main() -> None:
    set_tracing_disabled(True)
    client = AsyncOpenAI()
    for name, kind in (("chat", OpenAIChatCompletionsModel), ("responses", OpenAIResponsesModel)):
        model = kind(MODEL, client)
        plain = Agent(name="Plain", instructions="Be brief.", model=model)
        print(f"{name}:", (await Runner.run(plain, "Is it raining in Oslo?")).final_output)
        agent = Agent(name="With a tool", model=model, tools=[weather])
        print(f"{name} tools:", (await Runner.run(agent, "Is it raining in Oslo?")).final_output)
        streamed = Runner.run_streamed(agent, "Is it raining in Oslo?")
        async for _ in streamed.stream_events():
            pass
        print(f"{name} stream:", streamed.final_output)


if __name__ == "__main__":
    asyncio.run(main())
