"""langchain-openai with LangGraph. `pip install langchain-openai langgraph`; URL and key as OpenAI's variables.

OPENAI_BASE_URL=http://127.0.0.1:8080/v1 OPENAI_API_KEY=none python examples/clients/langgraph_agent.py
"""

from __future__ import annotations

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

MODEL = "orchestai"


@tool
def weather(town: str) -> str:
    """The weather in a town."""
    return f"It rains in {town}."


def main() -> None:
    question = "Is it raining in Oslo?"
    for name, model in (
        ("chat", ChatOpenAI(model=MODEL)),
        ("responses", ChatOpenAI(model=MODEL, use_responses_api=True)),
    ):
        print(f"{name}:", model.invoke(question).text)
        print(f"{name} stream:", "".join(chunk.text for chunk in model.stream(question)))
        with_tools = model.bind_tools([weather])
        graph = StateGraph(MessagesState)
        graph.add_node("model", lambda state, asked=with_tools: {"messages": [asked.invoke(state["messages"])]})
        graph.add_node("tools", ToolNode([weather]))
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", tools_condition)
        graph.add_edge("tools", "model")
        said = graph.compile().invoke({"messages": [("user", question)]})
        print(f"{name} tools:", said["messages"][-1].text)


if __name__ == "__main__":
    main()
