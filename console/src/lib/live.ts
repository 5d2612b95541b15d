// The live stream: server-sent events over fetch, so that a silent stream is noticed and every failure is retried.

import { problem } from './api';

/** The node sends a beat each second: without one for this long the values shown are no longer live. */
export const SILENT_MS = 3_500;
/** After this silence another stream is opened. */
const DEAD_MS = 10_000;
const CHECK_MS = 250;
/** A first beat this long after the request may itself be old: it is believed only with those that follow in this time. */
const UNSURE_MS = 1_000;
const SURE_MS = 1_500;
const BACKOFF_MS_MIN = 500;
const BACKOFF_MS_MAX = 5_000;
/** How often a node is asked again that wants a login: one may happen in another window. */
const LOGIN_MS = 5_000;

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

export type LinkState = 'connecting' | 'live' | 'silent' | 'reconnecting' | 'login' | 'refused';

export interface Link {
  state: LinkState;
  /** Why it is not live. */
  reason: string;
  /** When the next attempt is made, in ms since 1970; 0 while one is under way. */
  retryAt: number;
}

export interface LiveHandlers {
  event(event: SseEvent): void;
  link(link: Link): void;
}

/** What a beat of the bus says: the node's time, and that of a clock that never jumps. */
interface Beat {
  time: string;
  mono_ms: number;
}

/**
 * One live stream that comes back by itself until it is stopped.
 *
 * Live is only a stream whose last beat is new: the node sends one each second from the thread that owns the values, so
 * that neither an open connection nor a thread that still writes to it can make old values look new.
 */
export class LiveStream {
  private abort: AbortController | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private ticker: ReturnType<typeof setInterval> | undefined;
  private attempt = 0;
  private target = '';
  private link: Link = { state: 'connecting', reason: '', retryAt: 0 };
  /** When this stream was opened, and when its last beat came, on the browser's steady clock; null for never. */
  private opened = 0;
  private heard: number | null = null;
  /** The quickest way of a beat of this stream so far: what takes longer is late by the difference. */
  private quickest = Infinity;
  /** What the first beat of this stream said of the node's steady clock. */
  private first: number | null = null;
  private late = 0;
  /** Since when nothing newer is known, over all streams; null before the first beat. */
  private known: number | null = null;

  constructor(private readonly handlers: LiveHandlers) {}

  /** Opens a stream, in place of the one that was open. */
  open(target: string): void {
    this.target = target;
    this.attempt = 0;
    this.retryNow();
  }

  retryNow(): void {
    if (this.target === '') return;
    this.stop();
    void this.run();
  }

  stop(): void {
    clearTimeout(this.timer);
    clearInterval(this.ticker);
    this.abort?.abort();
    this.abort = null;
  }

  /** How old what was heard last is, in ms; null where nothing ever was. */
  ageMs(): number | null {
    return this.known === null ? null : Math.max(0, performance.now() - this.known);
  }

  /** Looks whether the stream is still live. Timers of a page that nobody sees come late, so its return looks too. */
  check(): void {
    const abort = this.abort;
    if (abort === null) return;
    const quiet = performance.now() - (this.heard ?? this.opened);
    if (quiet >= DEAD_MS) return abort.abort('silence');
    if (this.heard === null) {
      // A stream opened in place of one that was live is so only as long as what that one said is new.
      if (this.link.state === 'live' && (this.ageMs() ?? 0) >= SILENT_MS) this.tell('silent', t('the node does not answer'));
      return;
    }
    if (quiet >= SILENT_MS) this.tell('silent', t('the node has said nothing for {seconds} s', { seconds: Math.round(quiet / 1000) }));
    else if (this.late >= SILENT_MS) this.tell('silent', t('what arrives is {seconds} s old', { seconds: Math.round(this.late / 1000) }));
    else this.tell('live', '');
  }

  private async run(): Promise<void> {
    const abort = new AbortController();
    this.abort = abort;
    [this.opened, this.heard, this.first, this.quickest, this.late] = [performance.now(), null, null, Infinity, 0];
    this.ticker = setInterval(() => this.check(), CHECK_MS);
    let [state, reason]: [LinkState, string] = [this.known === null ? 'connecting' : 'reconnecting', t('the node closed the stream')];
    try {
      const response = await fetch(this.target, {
        headers: { accept: 'text/event-stream' },
        cache: 'no-store',
        signal: abort.signal,
      });
      if (response.ok && response.body) {
        await this.read(response.body, abort);
      } else {
        reason = await problem(response);
        if (response.status === 401) [state, reason] = ['login', t('the node asks who you are')];
        if (response.status === 403) state = 'refused';
      }
    } catch (cause) {
      if (abort.signal.reason === 'silence') reason = t('the node has said nothing for {seconds} s', { seconds: DEAD_MS / 1000 });
      else if (cause instanceof TypeError) reason = t('the node cannot be reached');
      else if (cause instanceof Error) reason = cause.message;
    }
    if (this.abort === abort) this.retryLater(state, reason);
  }

  private async read(body: ReadableStream<Uint8Array>, abort: AbortController): Promise<void> {
    const parser = new SseParser();
    const decoder = new TextDecoder();
    const reader = body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done || this.abort !== abort) return;
      for (const event of parser.push(decoder.decode(value, { stream: true }))) {
        if (event.event === 'beat') this.beat(JSON.parse(event.data) as Beat);
        else this.handlers.event(event);
      }
    }
  }

  private beat(beat: Beat): void {
    const now = performance.now();
    const way = now - beat.mono_ms;
    this.quickest = Math.min(this.quickest, way);
    // The node sent it after it was asked; how long after nobody knows, until another beat comes quicker.
    this.first ??= beat.mono_ms;
    if (this.quickest + this.first - this.opened > UNSURE_MS && beat.mono_ms - this.first < SURE_MS) return;
    this.late = way - this.quickest;
    [this.heard, this.known] = [now, now - this.late];
    this.attempt = 0;
    // A beat that came late says what time it was when the node sent it.
    const time = new Date(Date.parse(beat.time) + this.late);
    this.handlers.event({ event: 'beat', data: time.toISOString() });
    this.check();
  }

  private tell(state: LinkState, reason: string, retryAt = 0): void {
    const { link } = this;
    if (link.state === state && link.reason === reason && link.retryAt === retryAt) return;
    this.link = { state, reason, retryAt };
    this.handlers.link(this.link);
  }

  private retryLater(state: LinkState, reason: string): void {
    clearInterval(this.ticker);
    this.abort = null;
    this.attempt++;
    const wait = state === 'login' || state === 'refused' ? LOGIN_MS : backoffMs(this.attempt, Math.random());
    this.tell(state, reason, Date.now() + wait);
    this.timer = setTimeout(() => void this.run(), wait);
  }
}
