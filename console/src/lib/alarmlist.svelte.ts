// The alarms of the node that are not normal, as its topics below `$alarms/` say them.

import { type Alarm, type AlarmCounts, type AlarmResult, AT_ONCE_MAX, isNew, keyOf, summarize } from './alarms';
import { api, get, post, type TopicUpdate } from './api';
import { Poll } from './poll.svelte';

const PREFIX = '$alarms/';
/** The time of a frame: what takes longer is the work of showing a list. */
const FRAME_MS = 17;
const PAUSE_MS_MAX = 100;
/** After a stream was opened, so that it has told what it knows. */
const SETTLE_MS = 1_500;

interface Page {
  alarms: Alarm[];
  next: string | null;
}

export class AlarmList {
  private readonly known = new Map<string, Alarm>();
  /** Grows when alarms changed: at most once per animation frame, and so seldom that most time is left to take changes. */
  private version = $state.raw(0);
  /** The newest critical alarm, in words. */
  said = $state.raw('');
  readonly summary = $derived(summarize(this.all.values()));
  private readonly counts = new Poll(() => api.alarmCounts());
  private framePending = false;
  /** The list is not shown again before. */
  private resume = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** What was heard while the list is read. */
  private heard: Set<string> | null = null;

  /** `began`: the time of the node; only what comes up later is said. */
  constructor(private readonly began: string, first: AlarmCounts) {
    this.counts.value = first;
    this.counts.start();
  }

  /** By their keys; what reads them is called again when they have changed. */
  get all(): ReadonlyMap<string, Alarm> {
    void this.version;
    return this.known;
  }

  get flood(): boolean {
    return this.counts.value?.flood ?? false;
  }

  /** Takes what the live stream says. */
  take(updates: readonly TopicUpdate[], removed: readonly string[]): void {
    for (const { topic, value } of updates) if (topic.startsWith(PREFIX)) this.put(value as Alarm);
    for (const topic of removed) {
      if (!topic.startsWith(PREFIX)) continue;
      const key = topic.slice(PREFIX.length).replace(/\/([^/]*)$/, '|$1');
      this.heard?.add(key);
      if (this.known.delete(key)) this.wantFrame();
    }
  }

  private put(alarm: Alarm): void {
    const key = keyOf(alarm);
    if (alarm.priority === 'critical' && isNew(alarm) && alarm.since > this.began && this.known.get(key)?.seq !== alarm.seq) this.said = t('Critical alarm: {topic} {text}', { topic: alarm.topic, text: alarm.text });
    this.heard?.add(key);
    this.known.set(key, alarm);
    this.wantFrame();
  }

  private wantFrame(): void {
    if (this.framePending) return;
    this.framePending = true;
    const show = () => requestAnimationFrame((began) => {
      this.framePending = false;
      this.version++;
      requestAnimationFrame((now) => (this.resume = now + Math.min(2 * (now - began - FRAME_MS), PAUSE_MS_MAX)));
    });
    const pause = this.resume - performance.now();
    if (pause > 0) setTimeout(show, pause);
    else show();
  }

  /** Reads the list once more, soon: what became normal while no stream was open is told by none. */
  readSoon(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.read().catch(() => (this.heard = null)), SETTLE_MS);
  }

  private async read(): Promise<void> {
    if (this.known.size === 0) return;
    const heard = (this.heard = new Set<string>());
    const there = new Set<string>();
    let after: string | null = null;
    do {
      const page: Page = await get<Page>('/v1/alarms', { order: 'time', after, limit: AT_ONCE_MAX });
      for (const alarm of page.alarms) there.add(keyOf(alarm));
      after = page.next;
    } while (after !== null);
    if (heard !== this.heard) return;
    this.heard = null;
    for (const key of this.known.keys()) if (!there.has(key) && !heard.has(key)) this.known.delete(key);
    this.wantFrame();
  }
}

/** Asks for a change of alarms; the node answers for each. */
export async function act(action: string, alarms: readonly Alarm[], more: object): Promise<AlarmResult[]> {
  const named = alarms.map(({ topic, kind, seq }) => ({ topic, kind, seq }));
  return ((await (await post(`/v1/alarms/${action}`, { alarms: named, ...more })).json()) as { results: AlarmResult[] }).results;
}
