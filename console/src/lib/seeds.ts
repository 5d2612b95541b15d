// The past that sparklines begin with: asked for once, a few topics at a time.

import { api } from './api';

const SEED_MS = 90_000;
const SEED_ROWS_MAX = 500;
/** Topics that wait for their past; more are asked for when they are next shown. */
const SEEDS_MAX = 200;
const SEEDS_AT_ONCE_MAX = 3;

export class Seeds {
  private readonly known = new Set<string>();
  private readonly waiting: string[] = [];
  private running = 0;

  /** `now`: the time of the node; `take` is given the recorded values of a topic. */
  constructor(
    private readonly now: () => number,
    private readonly take: (topic: string, values: unknown[]) => void,
  ) {}

  want(topic: string): void {
    if (this.known.has(topic) || this.waiting.length >= SEEDS_MAX) return;
    this.known.add(topic);
    this.waiting.push(topic);
    if (this.running < SEEDS_AT_ONCE_MAX) void this.ask();
  }

  private async ask(): Promise<void> {
    this.running++;
    // The newest wish first: it is the row that is looked at.
    for (let topic = this.waiting.pop(); topic !== undefined; topic = this.waiting.pop()) {
      const [from, to] = [this.now() - SEED_MS, this.now()].map((ms) => new Date(ms).toISOString());
      const rows = await api.history({ topic, from: from!, to: to!, limit: SEED_ROWS_MAX }).catch(() => []);
      this.take(topic, rows.map((row) => row.v));
    }
    this.running--;
  }
}
