// The official anthropic client for JavaScript: messages, streams, functions, counting, models.

import Anthropic from "@anthropic-ai/sdk";
import { ANSWER, BASE, KEY, MODEL, QUESTION, WEATHER, assert, check, errorOf, isWeather } from "./checks.mjs";

const client = new Anthropic({ baseURL: BASE, apiKey: KEY, maxRetries: 0 });
const asked = { model: MODEL, max_tokens: 60, temperature: 0, messages: [{ role: "user", content: QUESTION }] };
const tools = [{ name: "weather", input_schema: WEATHER }];
const tool_choice = { type: "tool", name: "weather" };

await check({
  async chat() {
    const answer = await client.messages.create(asked);
    assert(answer.content[0].text === ANSWER && answer.stop_reason === "end_turn" && answer.usage.output_tokens > 0, answer);
  },
  async streams() {
    const deltas = [];
    const message = await client.messages.stream(asked).on("text", (delta) => deltas.push(delta)).finalMessage();
    assert(deltas.join("") === ANSWER && message.content[0].text === ANSWER, deltas, message);
  },
  async functions() {
    const answer = await client.messages.create({ ...asked, tools, tool_choice });
    const call = answer.content.find((block) => block.type === "tool_use");
    isWeather(call.input);
    assert(answer.stop_reason === "tool_use", answer);
    const streamed = await client.messages.stream({ ...asked, tools, tool_choice }).finalMessage();
    isWeather(streamed.content.find((block) => block.type === "tool_use").input);
    const result = { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "sunny" }] };
    const again = await client.messages.create({ ...asked, tools, messages: [...asked.messages, { role: "assistant", content: answer.content }, result] });
    assert(again.content.length > 0, again);
  },
  async counting() {
    const { input_tokens } = await client.messages.countTokens({ model: MODEL, messages: asked.messages });
    const answer = await client.messages.create({ ...asked, max_tokens: 1 });
    // What was found computed is counted apart.
    const { input_tokens: computed, cache_read_input_tokens: found } = answer.usage;
    assert(input_tokens === computed + found, input_tokens, answer.usage);
  },
  async models() {
    const names = [];
    for await (const model of client.models.list()) names.push(model.id);
    assert(names.includes(MODEL) && (await client.models.retrieve(MODEL)).type === "model", names);
  },
  async errors() {
    const unknown = await errorOf(() => client.messages.create({ ...asked, model: "nobody" }));
    assert(unknown instanceof Anthropic.NotFoundError && unknown.error.error.type === "not_found_error", unknown.message);
    const long = await errorOf(() => client.messages.create({ ...asked, messages: [{ role: "user", content: "word ".repeat(20000) }] }));
    assert(long instanceof Anthropic.BadRequestError && long.message.includes("prompt is too long"), long.message);
    const stranger = new Anthropic({ baseURL: BASE, apiKey: "wrong", maxRetries: 0 });
    assert((await errorOf(() => stranger.messages.create(asked))) instanceof Anthropic.AuthenticationError);
  },
});
