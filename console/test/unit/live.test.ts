import { afterEach, expect, test, vi } from 'vitest';
import { backoffMs, type Link, LiveStream, type SseEvent, SseParser } from '../../src/lib/live';

const TEXT = ': hello\n\nevent: update\ndata: {"a":\ndata: 1}\n\ndata: plain\r\n\r\nevent: none\n\n';

test('a stream is split into events, however it is cut', () => {
  const expected = [{ event: 'update', data: '{"a":\n1}' }, { event: 'message', data: 'plain' }];
  for (let cut = 0; cut <= TEXT.length; cut++) {
    const parser = new SseParser();
    expect([...parser.push(TEXT.slice(0, cut)), ...parser.push(TEXT.slice(cut))], `cut at ${cut}`).toEqual(expected);
  }
});

test('waits double up to a limit, with jitter', () => {
  expect([1, 2, 3, 20].map((n) => backoffMs(n, 1))).toEqual([500, 1000, 2000, 5_000]);
  expect(backoffMs(1, 0)).toBe(250);
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function body(text: string, abort: AbortSignal, end: boolean, began?: (push: (text: string) => void) => void): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      const push = (more: string) => controller.enqueue(new TextEncoder().encode(more));
      push(text);
      began?.(push);
      if (end) controller.close();
      else abort.addEventListener('abort', () => controller.error(abort.reason));
    },
  });
}

const beat = (mono_ms: number) => `event: beat\ndata: {"time":"2026-11-20T09:36:00.000Z","mono_ms":${mono_ms}}\n\n`;

test('a stream that ends, fails or falls silent comes back', async () => {
  vi.useFakeTimers();
  const links: Link[] = [];
  const data: string[] = [];
  const answers = [
    (signal: AbortSignal) => new Response(body(`${beat(0)}data: 1\n\n`, signal, true)),
    () => Promise.reject(new TypeError('refused')),
    () => new Response('{"detail":"the node is stopping"}', { status: 503 }),
    (signal: AbortSignal) => new Response(body(`${beat(0)}data: 2\n\n`, signal, false)),
    (signal: AbortSignal) => new Response(body(`${beat(0)}data: 3\n\n`, signal, false)),
  ];
  vi.stubGlobal('fetch', (_: string, init: RequestInit) => Promise.resolve(answers.shift()!(init.signal!)));
  const stream = new LiveStream({ event: (e) => e.event === 'message' && data.push(e.data), link: (link) => links.push(link) });
  stream.open('/v1/live');
  await vi.advanceTimersByTimeAsync(6_000);
  expect(data).toEqual(['1', '2']);
  await vi.advanceTimersByTimeAsync(13_000);
  expect(data).toEqual(['1', '2', '3']);
  stream.stop();
  const told = links.map((link) => (link.state === 'silent' ? 'silent' : link.reason || link.state));
  expect(told.filter((word, i) => word !== told[i - 1])).toEqual([
    'live', 'the node closed the stream', 'the node cannot be reached', 'the node is stopping', 'live', 'silent',
    'the node has said nothing for 10 s', 'live', 'silent',
  ]);
});

/** A stream whose beats the test sends; gives how it is, as the screen would show it. */
function desk() {
  vi.useFakeTimers();
  let [push, link]: [(text: string) => void, Link] = [() => undefined, { state: 'connecting', reason: '', retryAt: 0 }];
  vi.stubGlobal('fetch', (_: string, init: RequestInit) =>
    Promise.resolve(new Response(body('', init.signal!, false, (to) => (push = to)))));
  const times: string[] = [];
  const event = (event: SseEvent) => event.event === 'beat' && times.push(event.data);
  const stream = new LiveStream({ event, link: (now) => (link = now) });
  stream.open('/v1/live');
  return { stream, push: (text: string) => push(text), state: () => link.state, times };
}

test('an open stream without a beat is not live', async () => {
  const { push, state, stream } = desk();
  await vi.advanceTimersByTimeAsync(3_000);
  push('event: update\ndata: {}\n\n');
  await vi.advanceTimersByTimeAsync(1_000);
  expect(state()).toBe('connecting');
  expect(stream.ageMs()).toBeNull();
});

test('a node that stands still is marked within 5 s of its last word, whatever else the connection says', async () => {
  const { push, state, stream } = desk();
  for (let i = 0; i < 10; i++) {
    push(beat(i * 1_000));
    await vi.advanceTimersByTimeAsync(1_000);
  }
  expect(state()).toBe('live');
  let ms = 0;
  for (; state() === 'live' && ms < 60_000; ms += 100) {
    push('event: update\ndata: {}\n\n: alive\n\n');
    await vi.advanceTimersByTimeAsync(100);
  }
  // The last beat was a second old when it stopped.
  expect(ms + 1_000).toBeLessThanOrEqual(5_000);
  expect(state()).toBe('silent');
  expect(stream.ageMs()).toBeCloseTo(ms + 1_000, -2);
  push(beat(20_000 + ms));
  await vi.advanceTimersByTimeAsync(10);
  expect(stream.ageMs()).toBeGreaterThanOrEqual(0);
});

test('a stream opened in place of a live one does not keep it live', async () => {
  const { push, state, stream } = desk();
  push(beat(0));
  await vi.advanceTimersByTimeAsync(500);
  expect(state()).toBe('live');
  // The view has changed, and the node stands still from here on.
  stream.open('/v1/live?filter=other');
  await vi.advanceTimersByTimeAsync(2_000);
  expect(state()).toBe('live');
  await vi.advanceTimersByTimeAsync(1_500);
  expect(state()).toBe('silent');
});

test('beats that come late tell how old the data is', async () => {
  const { push, state, stream, times } = desk();
  push(beat(0));
  for (let i = 1; i <= 20; i++) {
    // Each beat is a quarter of a second later than the one before: something on the way holds them up.
    await vi.advanceTimersByTimeAsync(1_250);
    push(beat(i * 1_000));
  }
  await vi.advanceTimersByTimeAsync(0);
  expect(state()).toBe('silent');
  expect(stream.ageMs()).toBeCloseTo(5_000, -2);
  // Ages are counted from the node's time now, not from when the beat was sent.
  expect([times.at(0), times.at(-1)]).toEqual(['2026-11-20T09:36:00.000Z', '2026-11-20T09:36:05.000Z']);
});

test('a first beat that is late itself makes nothing look newer than it is', async () => {
  const { push, state, stream, times } = desk();
  // The node has just started: its first beat is two seconds on the way, the second one comes at once.
  await vi.advanceTimersByTimeAsync(2_000);
  push(beat(0));
  await vi.advanceTimersByTimeAsync(10);
  expect([state(), stream.ageMs(), times]).toEqual(['connecting', null, []]);
  push(beat(2_000));
  await vi.advanceTimersByTimeAsync(0);
  expect([state(), times]).toEqual(['live', ['2026-11-20T09:36:00.000Z']]);
  expect(stream.ageMs()).toBeCloseTo(0, -2);
});

test('a stream that took long to open is live with its third beat', async () => {
  const { push, state } = desk();
  await vi.advanceTimersByTimeAsync(2_000);
  for (const ms of [0, 1_000]) {
    push(beat(ms));
    await vi.advanceTimersByTimeAsync(1_000);
    expect(state()).toBe('connecting');
  }
  push(beat(2_000));
  await vi.advanceTimersByTimeAsync(0);
  expect(state()).toBe('live');
});

test('an ended login is told as such, and asked again', async () => {
  vi.useFakeTimers();
  const links: Link[] = [];
  const answers = [
    () => new Response('{"detail":"a user and a password is needed"}', { status: 401 }),
    () => new Response('{"detail":"the user \\"anna\\" may not read \\"#\\""}', { status: 403 }),
    (signal: AbortSignal) => new Response(body(beat(0), signal, false)),
  ];
  vi.stubGlobal('fetch', (_: string, init: RequestInit) => Promise.resolve(answers.shift()!(init.signal!)));
  const stream = new LiveStream({ event: () => undefined, link: (link) => links.push(link) });
  stream.open('/v1/live');
  await vi.advanceTimersByTimeAsync(11_000);
  stream.stop();
  expect(links.map(({ state }) => state)).toEqual(['login', 'refused', 'live']);
  expect(links[1]!.reason).toBe('the user "anna" may not read "#"');
});
