"""The OpenAI client for Python: chat, stream, tools, responses. `pip install openai`.

URL and key are in OpenAI's variables:
OPENAI_BASE_URL=http://127.0.0.1:8080/v1 OPENAI_API_KEY=none python examples/clients/openai_python.py
"""

from __future__ import annotations

import json

from openai import OpenAI

MODEL = "orchestai"
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a town.",
        "parameters": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
    },
}


def main() -> None:
    client = OpenAI()
    question = {"role": "user", "content": "Is it raining in Oslo?"}

    terms = {"orchestai": {"contract": {"max_cost_usd": 0.05, "deadline_s": 60}}}
    reply = client.chat.completions.create(model=MODEL, messages=[question], extra_body=terms)
    print("chat:", reply.choices[0].message.content)
    print("spent:", reply.model_extra["orchestai"]["spent_usd"], "USD")

    usage = {"include_usage": True}
    stream = client.chat.completions.create(model=MODEL, messages=[question], stream=True, stream_options=usage)
    text = "".join(choice.delta.content or "" for chunk in stream for choice in chunk.choices)
    print("stream:", text)

    messages = [question]
    called = client.chat.completions.create(model=MODEL, messages=messages, tools=[WEATHER]).choices[0].message
    if called.tool_calls:
        messages.append(called)
        for call in called.tool_calls:
            town = json.loads(call.function.arguments).get("town", "")
            messages.append({"role": "tool", "tool_call_id": call.id, "content": f"It rains in {town}."})
        called = client.chat.completions.create(model=MODEL, messages=messages, tools=[WEATHER]).choices[0].message
    print("tools:", called.content)

    print("responses:", client.responses.create(model=MODEL, input="Is it raining in Oslo?").output_text)
    with client.responses.stream(model=MODEL, input="Is it raining in Oslo?") as events:
        print("responses stream:", events.get_final_response().output_text)


if __name__ == "__main__":
    main()
