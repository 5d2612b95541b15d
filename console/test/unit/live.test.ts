import { afterEach, expect, test, vi } from 'vitest';
import { backoffMs, type Link, LiveStream, SseParser } from '../../src/lib/live';

const TEXT = ': hello\n\nevent: update\ndata: {"a":\ndata: 1}\n\ndata: plain\r\n\r\nevent: none\n\n';

test('a stream is split into events, however it is cut', () => {
  const expected = [{ event: 'update', data: '{"a":\n1}' }, { event: 'message', data: 'plain' }];
  for (let cut = 0; cut <= TEXT.length; cut++) {
    const parser = new SseParser();
    expect([...parser.push(TEXT.slice(0, cut)), ...parser.push(TEXT.slice(cut))], `cut at ${cut}`).toEqual(expected);
  }
});

test('waits double up to a limit, with jitter', () => {
  expect([1, 2, 3, 20].map((n) => backoffMs(n, 1))).toEqual([500, 1000, 2000, 15_000]);
  expect(backoffMs(1, 0)).toBe(250);
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function body(text: string, abort: AbortSignal, end: boolean): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(text));
      if (end) controller.close();
      else abort.addEventListener('abort', () => controller.error(abort.reason));
    },
  });
}

test('a stream that ends, fails or falls silent comes back', async () => {
  vi.useFakeTimers();
  const links: Link[] = [];
  const data: string[] = [];
  const answers = [
    (signal: AbortSignal) => new Response(body('data: 1\n\n', signal, true)),
    () => Promise.reject(new TypeError('refused')),
    () => new Response('', { status: 503 }),
    (signal: AbortSignal) => new Response(body('data: 2\n\n', signal, false)),
    (signal: AbortSignal) => new Response(body('data: 3\n\n', signal, false)),
  ];
  vi.stubGlobal('fetch', (_: string, init: RequestInit) => Promise.resolve(answers.shift()!(init.signal!)));
  const stream = new LiveStream({ event: (e) => data.push(e.data), link: (link) => links.push(link) });
  stream.open('/v1/live');
  await vi.advanceTimersByTimeAsync(10_000);
  expect(data).toEqual(['1', '2']);
  await vi.advanceTimersByTimeAsync(40_000);
  expect(data).toEqual(['1', '2', '3']);
  stream.stop();
  expect(links.map((link) => link.reason || link.state)).toEqual([
    'live', 'the node closed the stream', 'the node cannot be reached', 'the node answered HTTP 503', 'live',
    'nothing was heard for 35 s', 'live',
  ]);
});
