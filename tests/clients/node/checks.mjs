// What every client's script shares: the server, the question, and how a check is told.

export const { BASE, KEY, MODEL } = process.env;
export const QUESTION = "What is 2+2?";
export const ANSWER = "The answer to this classic math problem is 4.";

/** A function whose arguments can be checked, as a JSON schema. */
export const WEATHER = {
  type: "object",
  properties: { city: { enum: ["Oslo", "Rome"] }, days: { type: "integer", minimum: 1, maximum: 7 } },
  required: ["city", "days"],
  additionalProperties: false,
};

export function assert(holds, ...shown) {
  if (!holds) throw new Error(shown.map((value) => JSON.stringify(value)).join(" "));
}

export function isWeather({ city, days }) {
  assert(["Oslo", "Rome"].includes(city) && days >= 1 && days <= 7, city, days);
}

/** Runs the checks one after the other and tells each that held. */
export async function check(checks) {
  for (const [name, run] of Object.entries(checks)) {
    await run();
    console.log(`checked ${name}`);
  }
}

/** The error that a call must end with. */
export async function errorOf(call) {
  try {
    await call();
  } catch (error) {
    return error;
  }
  throw new Error("it did not fail");
}
