/** Requests of a node over HTTP, and their errors. */

import { ofStatus, TielineError, Unknown, Unreachable } from "./errors.js";

export interface ConnectOptions {
  token?: string;
  user?: string;
  password?: string;
  /** Seconds for an answer, by default 30. */
  timeoutSeconds?: number;
}

/** What a request says besides its path. */
export interface Asked {
  params?: Record<string, Param | Param[]>;
  body?: unknown;
  content?: Uint8Array<ArrayBuffer> | string;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
  timeoutSeconds?: number | undefined;
  /** Statuses that are no success, and no errors. */
  accept?: (status: number) => boolean;
}

type Param = string | number | boolean | null | undefined;

/** A node and who asks it. */
export class Connection {
  readonly url: string;
  private readonly headers: Record<string, string> = {};
  private readonly closing = new AbortController();

  constructor(url: string, private readonly options: ConnectOptions) {
    this.url = (url.includes("://") ? url : `http://${url}`).replace(/\/+$/, "");
    const { user, password, token } = options;
    if ((user === undefined) !== (password === undefined)) {
      throw new TypeError("user and password go together");
    }
    if (token !== undefined) {
      this.headers["Authorization"] = `Bearer ${token}`;
    } else if (user !== undefined) {
      const bytes = new TextEncoder().encode(`${user}:${password}`);
      this.headers["Authorization"] = `Basic ${btoa(String.fromCharCode(...bytes))}`;
    }
  }

  /** Ends what is under way. */
  close(): void {
    this.closing.abort(new Unreachable("the client was closed"));
  }

  /** The JSON of an answer. */
  async get<T>(path: string, params: Asked["params"] = {}, signal?: AbortSignal): Promise<T> {
    return (await this.send("GET", path, { params, signal })).json() as Promise<T>;
  }

  /** The JSON of the answer to a request that changes something. */
  async change<T>(path: string, body?: Record<string, unknown>): Promise<T> {
    return (await this.send("POST", path, { body })).json() as Promise<T>;
  }

  /** The address of a request. */
  address(path: string, params: Asked["params"] = {}): string {
    return this.url + path + queryOf(params);
  }

  /** One request; an answer that is no success, nor accepted, is an error. */
  async send(method: string, path: string, asked: Asked = {}): Promise<Response> {
    const seconds = asked.timeoutSeconds ?? this.options.timeoutSeconds ?? 30;
    const answer = await this.fetch(method, path, asked, AbortSignal.timeout(seconds * 1000));
    if (!answer.ok && !(asked.accept?.(answer.status) ?? false)) {
      throw await errorOf(answer);
    }
    return answer;
  }

  /** The lines of an answer that goes on; so many milliseconds without anything end it. */
  async *lines(path: string, params: Asked["params"], silenceMs: number, signal?: AbortSignal): AsyncGenerator<string> {
    const decoder = new TextDecoder();
    let rest = "";
    for await (const piece of this.pieces(path, params, silenceMs, signal)) {
      const lines = (rest + decoder.decode(piece, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      yield* lines.map((line) => line.replace(/\r$/, ""));
    }
  }

  /** An answer piece by piece; so many milliseconds without anything end it. */
  async *pieces(path: string, params: Asked["params"], silenceMs: number, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
    const silent = new AbortController();
    const fail = () => silent.abort(new Unreachable(`${this.url} is silent`));
    let timer = setTimeout(fail, silenceMs);
    try {
      const answer = await this.fetch("GET", path, { ...(params ? { params } : {}), signal }, silent.signal);
      if (!answer.ok) {
        throw await errorOf(answer);
      }
      const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
      try {
        for (let read = await reader.read(); !read.done; read = await reader.read()) {
          clearTimeout(timer);
          yield read.value;
          timer = setTimeout(fail, silenceMs);
        }
      } finally {
        // A caller that has enough ends the request.
        await reader.cancel().catch(() => undefined);
      }
    } catch (error) {
      throw this.lost("GET", error, signal);
    } finally {
      clearTimeout(timer);
    }
  }

  private async fetch(method: string, path: string, asked: Asked, limit: AbortSignal): Promise<Response> {
    const { params = {}, body, content, signal } = asked;
    const kind = body === undefined ? {} : { "Content-Type": "application/json" };
    const sent = body === undefined ? content : JSON.stringify(body);
    try {
      return await fetch(this.address(path, params), {
        method,
        headers: { ...this.headers, ...kind, ...asked.headers },
        signal: AbortSignal.any([limit, this.closing.signal, ...(signal ? [signal] : [])]),
        ...(sent === undefined ? {} : { body: sent }),
      });
    } catch (error) {
      throw this.lost(method, error, signal);
    }
  }

  /** What became of a request without an answer. */
  private lost(method: string, error: unknown, signal?: AbortSignal): unknown {
    if (error instanceof TielineError || (signal?.aborted ?? false)) {
      return error;
    }
    const words = `${this.url}: ${wordsOf(error)}`;
    return method === "GET" || isBefore(error)
      ? new Unreachable(words)
      : new Unknown(`the request may have been carried out: ${words}`);
  }
}

/** Server-sent events with their JSON. */
export async function* eventsOf(lines: AsyncIterable<string>): AsyncGenerator<[name: string, told: unknown]> {
  let [name, data] = ["message", ""];
  for await (const line of lines) {
    if (line.startsWith("event:")) {
      name = line.slice(6).trim();
    } else if (line.startsWith("data:")) {
      data += line.slice(5).trim();
    } else if (line === "" && data !== "") {
      yield [name, JSON.parse(data)];
      [name, data] = ["message", ""];
    }
  }
}

/** A topic as a part of a path. */
export function quoted(topic: string): string {
  return topic.split("/").map(encodeURIComponent).join("/");
}

/** Parameters that say something; a list is given several times. */
function queryOf(params: Record<string, Param | Param[]>): string {
  const pairs = Object.entries(params).flatMap(([name, value]) => [value].flat().map((one) => [name, one] as const));
  const given = pairs.filter(([, value]) => value !== undefined && value !== null);
  return given.length === 0 ? "" : `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`;
}

async function errorOf(answer: Response): Promise<TielineError> {
  const text = await answer.text();
  try {
    return ofStatus(answer.status, String((JSON.parse(text) as { detail: unknown }).detail));
  } catch {
    return ofStatus(answer.status, text);
  }
}

/** Whether nothing of the request was sent. A browser does not say so: there it may have been. */
function isBefore(error: unknown): boolean {
  const code = (error as { cause?: { code?: string } }).cause?.code ?? "";
  return ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"].includes(code);
}

function wordsOf(error: unknown): string {
  const { message, cause } = error as { message?: string; cause?: { message?: string } };
  return cause?.message ?? message ?? String(error);
}
