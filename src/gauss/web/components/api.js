// The HTTP API with the cookie of the session: pages read and act by nothing else.
export class ApiError extends Error {
  constructor(status, error) {
    super(error.message);
    Object.assign(this, { status, code: error.code, hint: error.hint });
  }
}

// JSON without loss: whole numbers that JavaScript would round, such as int64, are BigInt.
const whole = (_key, value, text) => (typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(text?.source) ? BigInt(text.source) : value);
const exactly = (_key, value) => (typeof value === "bigint" ? JSON.rawJSON(String(value)) : value);
export const parse = (text) => (/\d{16}/.test(text) ? JSON.parse(text, whole) : JSON.parse(text));
export const stringify = (value, indent) => JSON.stringify(value, exactly, indent);

export const path = (...parts) => "/api/" + parts.map(encodeURIComponent).join("/");

export function withQuery(url, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `${url}?${new URLSearchParams(given)}` : url;
}

// What a page does when it is left must reach the server although the page has ended.
let leaving = false;
addEventListener("pagehide", () => (leaving = true), { capture: true });
addEventListener("pageshow", () => (leaving = false));

async function ask(method, url, body, signal) {
  const options = { method, signal, keepalive: leaving, headers: { Accept: "application/json" } };
  if (body !== undefined) {
    const raw = body instanceof Uint8Array || typeof body === "string";
    options.body = raw ? body : stringify(body);
    options.headers["Content-Type"] = raw ? "application/octet-stream" : "application/json";
  }
  let reply;
  try {
    reply = await fetch(url, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { code: "gone", message: "the server does not answer", hint: "is gauss still running there?" });
  }
  if (reply.status === 401) dispatchEvent(new Event("signed-out"));
  if (reply.ok) return reply;
  const found = await reply.json().catch(() => ({}));
  throw new ApiError(reply.status, found.error ?? { code: "http", message: `status ${reply.status}`, hint: "" });
}

const answer = async (asked) => parse(await (await asked).text());
export const get = (url, query, signal) => answer(ask("GET", withQuery(url, query), undefined, signal));
export const post = (url, body, query) => answer(ask("POST", withQuery(url, query), body));
export const put = (url, body) => answer(ask("PUT", url, body));
export const patch = (url, body) => answer(ask("PATCH", url, body));
export const remove = async (url) => {
  const reply = await ask("DELETE", url);
  return reply.status === 204 ? null : parse(await reply.text());
};

// The lines of an answer as they come. Rejects if it ends with an error.
export async function stream(url, query, signal, take) {
  const reply = await ask("GET", withQuery(url, query), undefined, signal);
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ; ) {
    const { value, done } = await reader.read().catch((error) => {
      if (error.name === "AbortError") throw error;
      throw new ApiError(0, { code: "gone", message: "the connection was lost", hint: "is gauss still running there?" });
    });
    if (done) return;
    const found = (rest + value).split("\n");
    rest = found.pop();
    for (const line of found.filter(Boolean)) {
      const given = parse(line);
      if (given.error && !given.type) throw new ApiError(503, given.error);
      take(given);
    }
  }
}

export async function lines(url, query, signal) {
  const reply = await ask("GET", withQuery(url, query), undefined, signal);
  const text = await reply.text();
  return { headers: reply.headers, rows: text.split("\n").filter(Boolean).map(parse) };
}
