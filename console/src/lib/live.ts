// The live stream: server-sent events over fetch, so that a silent stream is noticed and every failure is retried.

/** The node sends a comment every 15 s; after this silence the stream is taken for dead. */
const SILENCE_MS_MAX = 35_000;
const BACKOFF_MS_MIN = 500;
const BACKOFF_MS_MAX = 15_000;

export interface SseEvent {
  event: string;
  data: string;
}

/** Splits a stream of text into events (WHATWG HTML section 9.2.6). Comments give none. */
export class SseParser {
  private rest = '';
  private event = '';
  private data: string[] = [];

  push(text: string): SseEvent[] {
    const events: SseEvent[] = [];
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line === '') {
        if (this.data.length > 0) events.push({ event: this.event || 'message', data: this.data.join('\n') });
        this.event = '';
        this.data = [];
      } else {
        this.field(line);
      }
    }
    return events;
  }

  private field(line: string): void {
    const colon = line.indexOf(':');
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (name === 'event') this.event = value;
    if (name === 'data') this.data.push(value);
  }
}

/** How long to wait before an attempt, 1 being the first retry: doubling, with jitter so that many do not come at once. */
export function backoffMs(attempt: number, random: number): number {
  const full = Math.min(BACKOFF_MS_MAX, BACKOFF_MS_MIN * 2 ** Math.min(attempt - 1, 10));
  return full * (0.5 + random / 2);
}

export interface Link {
  state: 'connecting' | 'live' | 'reconnecting';
  /** What ended the last stream. */
  reason: string;
  /** When the next attempt is made, in ms since 1970. */
  retryAt: number;
}

export interface LiveHandlers {
  event(event: SseEvent): void;
  link(link: Link): void;
}

/** One live stream that comes back by itself until it is stopped. */
export class LiveStream {
  private abort: AbortController | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private watchdog: ReturnType<typeof setTimeout> | undefined;
  private attempt = 0;
  private everLive = false;
  private target = '';

  constructor(private readonly handlers: LiveHandlers) {}

  /** Opens a stream, in place of the one that was open. */
  open(target: string): void {
    this.target = target;
    this.attempt = 0;
    this.retryNow();
  }

  retryNow(): void {
    this.stop();
    void this.run();
  }

  stop(): void {
    clearTimeout(this.timer);
    clearTimeout(this.watchdog);
    this.abort?.abort();
    this.abort = null;
  }

  private async run(): Promise<void> {
    const abort = new AbortController();
    this.abort = abort;
    let reason = 'the node closed the stream';
    try {
      this.watch(abort);
      const response = await fetch(this.target, {
        headers: { accept: 'text/event-stream' },
        cache: 'no-store',
        signal: abort.signal,
      });
      if (!response.ok || !response.body) throw new Error(`the node answered HTTP ${response.status}`);
      this.attempt = 0;
      this.everLive = true;
      this.handlers.link({ state: 'live', reason: '', retryAt: 0 });
      await this.read(response.body, abort);
    } catch (cause) {
      if (abort.signal.reason === 'silence') reason = `nothing was heard for ${SILENCE_MS_MAX / 1000} s`;
      else if (cause instanceof TypeError) reason = 'the node cannot be reached';
      else if (cause instanceof Error) reason = cause.message;
    }
    if (this.abort === abort) this.retryLater(reason);
  }

  private async read(body: ReadableStream<Uint8Array>, abort: AbortController): Promise<void> {
    const parser = new SseParser();
    const decoder = new TextDecoder();
    const reader = body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done || this.abort !== abort) return;
      this.watch(abort);
      for (const event of parser.push(decoder.decode(value, { stream: true }))) this.handlers.event(event);
    }
  }

  private watch(abort: AbortController): void {
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => abort.abort('silence'), SILENCE_MS_MAX);
  }

  private retryLater(reason: string): void {
    clearTimeout(this.watchdog);
    this.attempt++;
    const wait = backoffMs(this.attempt, Math.random());
    const state = this.everLive ? 'reconnecting' : 'connecting';
    this.handlers.link({ state, reason, retryAt: Date.now() + wait });
    this.timer = setTimeout(() => void this.run(), wait);
  }
}
