// The official ollama client for JavaScript: chat, generate, formats, embeddings, models.

import { Ollama } from "ollama";
import { ANSWER, BASE, KEY, MODEL, QUESTION, WEATHER, assert, check, errorOf, isWeather } from "./checks.mjs";

const client = new Ollama({ host: BASE, headers: { authorization: `Bearer ${KEY}` } });
const options = { temperature: 0, num_predict: 60 };
const asked = { model: MODEL, messages: [{ role: "user", content: QUESTION }], options };

await check({
  async chat() {
    const answer = await client.chat(asked);
    assert(answer.message.content === ANSWER && answer.done_reason === "stop" && answer.eval_count > 0, answer);
  },
  async streams() {
    const deltas = [];
    for await (const part of await client.chat({ ...asked, stream: true })) deltas.push(part.message.content);
    assert(deltas.join("") === ANSWER, deltas);
  },
  async generate() {
    const answer = await client.generate({ model: MODEL, prompt: "The capital of France is", raw: true, options: { ...options, num_predict: 6 } });
    assert(answer.response.startsWith(" Paris"), answer);
  },
  async formats() {
    isWeather(JSON.parse((await client.chat({ ...asked, format: WEATHER })).message.content));
  },
  async embeddings() {
    const answer = await client.embed({ model: MODEL, input: ["north", "south"] });
    assert(answer.embeddings.length === 2 && answer.embeddings[0].length === 576, answer.embeddings.length);
  },
  async models() {
    const { models } = await client.list();
    assert(models.some((model) => model.name === MODEL), models);
    assert((await client.show({ model: MODEL })).model_info, MODEL);
    assert((await client.ps()).models.some((model) => model.name === MODEL), MODEL);
  },
  async errors() {
    const unknown = await errorOf(() => client.chat({ ...asked, model: "nobody" }));
    assert(unknown.status_code === 404 && unknown.message.includes("nobody"), unknown.message);
  },
});
