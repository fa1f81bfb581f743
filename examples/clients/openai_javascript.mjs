// The OpenAI client for JavaScript: chat, stream, tools, responses. `npm install openai`; URL and key as OpenAI's variables.
// OPENAI_BASE_URL=http://127.0.0.1:8080/v1 OPENAI_API_KEY=none node examples/clients/openai_javascript.mjs
import OpenAI from "openai";

const client = new OpenAI();
const model = "orchestai";
const question = { role: "user", content: "Is it raining in Oslo?" };
const weather = {
  type: "function",
  function: {
    name: "weather",
    description: "The weather in a town.",
    parameters: { type: "object", properties: { town: { type: "string" } }, required: ["town"] },
  },
};

const terms = { contract: { max_cost_usd: 0.05, deadline_s: 60 } };
const reply = await client.chat.completions.create({ model, messages: [question], orchestai: terms });
console.log("chat:", reply.choices[0].message.content);
console.log("spent:", reply.orchestai.spent_usd, "USD");

let text = "";
for await (const chunk of await client.chat.completions.create({ model, messages: [question], stream: true })) {
  text += chunk.choices[0]?.delta?.content ?? "";
}
console.log("stream:", text);

const messages = [question];
let { message } = (await client.chat.completions.create({ model, messages, tools: [weather] })).choices[0];
if (message.tool_calls) {
  messages.push(message);
  for (const call of message.tool_calls) {
    const { town } = JSON.parse(call.function.arguments);
    messages.push({ role: "tool", tool_call_id: call.id, content: `It rains in ${town}.` });
  }
  ({ message } = (await client.chat.completions.create({ model, messages, tools: [weather] })).choices[0]);
}
console.log("tools:", message.content);

console.log("responses:", (await client.responses.create({ model, input: "Is it raining in Oslo?" })).output_text);
let told = "";
for await (const event of await client.responses.create({ model, input: "Is it raining in Oslo?", stream: true })) {
  if (event.type === "response.output_text.delta") told += event.delta;
}
console.log("responses stream:", told);
