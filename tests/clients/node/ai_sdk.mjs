// Vercel's AI SDK over @ai-sdk/openai-compatible: what many web pages and coding agents are built with.

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Output, embedMany, generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { ANSWER, BASE, KEY, MODEL, QUESTION, WEATHER, assert, check, errorOf, isWeather } from "./checks.mjs";

const provider = createOpenAICompatible({ name: "onebit", baseURL: `${BASE}/v1`, apiKey: KEY, supportsStructuredOutputs: true, includeUsage: true });
const asked = { model: provider(MODEL), prompt: QUESTION, temperature: 0, maxOutputTokens: 60, maxRetries: 0 };
const weather = tool({ inputSchema: jsonSchema(WEATHER), execute: async ({ city }) => `sunny in ${city}` });

await check({
  async chat() {
    const { text, finishReason, usage } = await generateText(asked);
    assert(text === ANSWER && finishReason === "stop" && usage.outputTokens > 0, text, finishReason, usage);
  },
  async streams() {
    const { textStream, usage } = streamText(asked);
    const deltas = [];
    for await (const delta of textStream) deltas.push(delta);
    assert(deltas.join("") === ANSWER && deltas.length > 3 && (await usage).outputTokens > 0, deltas);
  },
  async functions() {
    // The second step answers with the function's result before it; a small model is not asked to choose.
    const toolChoice = { type: "tool", toolName: "weather" };
    const { toolCalls, toolResults } = await generateText({ ...asked, tools: { weather }, toolChoice });
    isWeather(toolCalls[0].input);
    assert(toolResults[0].output.startsWith("sunny in"), toolResults);
    const streamed = streamText({ ...asked, tools: { weather }, toolChoice, stopWhen: stepCountIs(1) });
    isWeather((await streamed.toolCalls)[0].input);
    const response = await streamed.response;
    const again = await generateText({ ...asked, prompt: undefined, tools: { weather }, toolChoice: "none", messages: [{ role: "user", content: QUESTION }, ...response.messages] });
    assert(again.text.length > 0, again.text);
  },
  async formats() {
    const { output } = await generateText({ ...asked, output: Output.object({ schema: jsonSchema(WEATHER) }) });
    isWeather(output);
  },
  async completions() {
    const { text } = await generateText({ ...asked, model: provider.completionModel(MODEL), prompt: "The capital of France is", maxOutputTokens: 6 });
    assert(text.length > 0, text);
  },
  async embeddings() {
    const { embeddings } = await embedMany({ model: provider.embeddingModel(MODEL), values: ["north", "south"] });
    assert(embeddings.length === 2 && embeddings[0].length === 576, embeddings.length);
  },
  async errors() {
    const unknown = await errorOf(() => generateText({ ...asked, model: provider("nobody") }));
    assert(unknown.statusCode === 404 && unknown.message.includes("nobody"), unknown.message);
  },
});
