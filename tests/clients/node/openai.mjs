// The official openai client for JavaScript: chat, completions, responses, embeddings, functions, formats.

import OpenAI from "openai";
import { ANSWER, BASE, KEY, MODEL, QUESTION, WEATHER, assert, check, errorOf, isWeather } from "./checks.mjs";

const client = new OpenAI({ baseURL: `${BASE}/v1`, apiKey: KEY, maxRetries: 0 });
const messages = [{ role: "user", content: QUESTION }];
const chat = (more) => client.chat.completions.create({ model: MODEL, messages, temperature: 0, max_tokens: 40, ...more });

await check({
  async chat() {
    const answer = await chat();
    assert(answer.choices[0].message.content === ANSWER && answer.choices[0].finish_reason === "stop", answer);
  },
  async streams() {
    const runner = client.chat.completions.stream({ model: MODEL, messages, temperature: 0, max_tokens: 40, stream_options: { include_usage: true } });
    const deltas = [];
    runner.on("content", (delta) => deltas.push(delta));
    const [text, usage] = [await runner.finalContent(), await runner.totalUsage()];
    assert(text === ANSWER && deltas.join("") === ANSWER && usage.completion_tokens > 0, text, deltas, usage);
  },
  async functions() {
    const tools = [{ type: "function", function: { name: "weather", parameters: WEATHER } }];
    const more = { tools, tool_choice: { type: "function", function: { name: "weather" } } };
    const [call] = (await chat(more)).choices[0].message.tool_calls;
    isWeather(JSON.parse(call.function.arguments));
    const runner = client.chat.completions.stream({ model: MODEL, messages, temperature: 0, max_tokens: 60, ...more });
    const [streamed] = (await runner.finalMessage()).tool_calls;
    assert(streamed.function.name === "weather", streamed);
    isWeather(JSON.parse(streamed.function.arguments));
  },
  async formats() {
    const format = { type: "json_schema", json_schema: { name: "weather", strict: true, schema: WEATHER } };
    const answer = await client.chat.completions.parse({ model: MODEL, messages, temperature: 0, max_tokens: 60, response_format: format });
    isWeather(answer.choices[0].message.parsed);
  },
  async "log-probabilities"() {
    const answer = await chat({ max_tokens: 3, logprobs: true, top_logprobs: 2 });
    assert(answer.choices[0].logprobs.content.length === 3, answer);
  },
  async completions() {
    const answer = await client.completions.create({ model: MODEL, prompt: "The capital of France is", temperature: 0, max_tokens: 6 });
    assert(answer.choices[0].text.startsWith(" Paris"), answer);
  },
  async responses() {
    const first = await client.responses.create({ model: MODEL, input: QUESTION, temperature: 0, max_output_tokens: 40 });
    assert(first.output_text === ANSWER && first.status === "completed", first);
    assert((await client.responses.retrieve(first.id)).id === first.id, first);
    const stream = await client.responses.create({ model: MODEL, input: "Why?", previous_response_id: first.id, max_output_tokens: 8, stream: true });
    const types = [];
    for await (const event of stream) types.push(event.type);
    assert(types[0] === "response.created" && ["response.completed", "response.incomplete"].includes(types.at(-1)), types);
    await client.responses.delete(first.id);
    assert((await errorOf(() => client.responses.retrieve(first.id))).status === 404);
  },
  async embeddings() {
    const answer = await client.embeddings.create({ model: MODEL, input: ["north", "south"] });
    assert(answer.data.length === 2 && answer.data[0].embedding.length === 576, answer.data.length);
  },
  async models() {
    const names = [];
    for await (const model of client.models.list()) names.push(model.id);
    assert(names.includes(MODEL) && (await client.models.retrieve(MODEL)).id === MODEL, names);
  },
  async errors() {
    const unknown = await errorOf(() => chat({ model: "nobody" }));
    assert(unknown instanceof OpenAI.NotFoundError && unknown.message.includes("nobody"), unknown);
    const long = await errorOf(() => chat({ messages: [{ role: "user", content: "word ".repeat(20000) }] }));
    assert(long instanceof OpenAI.BadRequestError && long.code === "context_length_exceeded", long);
    const stranger = new OpenAI({ baseURL: `${BASE}/v1`, apiKey: "wrong", maxRetries: 0 });
    assert((await errorOf(() => stranger.models.list())) instanceof OpenAI.AuthenticationError);
  },
});
