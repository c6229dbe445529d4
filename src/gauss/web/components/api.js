// The HTTP API with the cookie of the session: pages read and act by nothing else.
export class ApiError extends Error {
  constructor(status, error) {
    super(error.message);
    Object.assign(this, { status, code: error.code, hint: error.hint });
  }
}

export const path = (...parts) => "/api/" + parts.map(encodeURIComponent).join("/");

export function withQuery(url, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `${url}?${new URLSearchParams(given)}` : url;
}

async function ask(method, url, body, signal) {
  const options = { method, signal, headers: { Accept: "application/json" } };
  if (body !== undefined) {
    const raw = body instanceof Uint8Array || typeof body === "string";
    options.body = raw ? body : JSON.stringify(body);
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

export const get = async (url, query, signal) => (await ask("GET", withQuery(url, query), undefined, signal)).json();
export const post = async (url, body, query) => (await ask("POST", withQuery(url, query), body)).json();
export const put = async (url, body) => (await ask("PUT", url, body)).json();
export const patch = async (url, body) => (await ask("PATCH", url, body)).json();
export const remove = async (url) => {
  const reply = await ask("DELETE", url);
  return reply.status === 204 ? null : reply.json();
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
      const given = JSON.parse(line);
      if (given.error && !given.type) throw new ApiError(503, given.error);
      take(given);
    }
  }
}

export async function lines(url, query, signal) {
  const reply = await ask("GET", withQuery(url, query), undefined, signal);
  const text = await reply.text();
  return { headers: reply.headers, rows: text.split("\n").filter(Boolean).map((line) => JSON.parse(line)) };
}
