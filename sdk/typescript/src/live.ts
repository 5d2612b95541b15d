/** Live values over server-sent events: the connection comes back by itself, and no removal is missed. */

import { type Connection, eventsOf, quoted } from "./connection.js";
import { Refused, Unreachable } from "./errors.js";
import { removed, type Value, type ValueJson, valueOf } from "./values.js";

export type State = "connecting" | "live" | "away";

export interface SubscribeOptions {
  /** Called with each change of the state: while it is `away`, what was received is not current. */
  onState?: (state: State) => void;
  /** Ends the subscription. */
  signal?: AbortSignal;
}

/** The node sends something each second. */
const SILENCE_MS = 5000;
const [PAUSE_MIN_MS, PAUSE_MAX_MS] = [250, 5000];
/** After so many beats of a connection, the node has sent all last values. */
const BEATS = 2;

interface Update {
  updates?: ValueJson[];
  removed?: string[];
}

/** Last values of topics, then each change: `for await (const value of subscription)`. */
export class Subscription implements AsyncIterable<Value> {
  state: State = "connecting";
  /** Versions of what was received: the node sends all last values again when the connection is back. */
  private readonly known = new Map<string, number | null>();

  constructor(
    private readonly connection: Connection,
    private readonly filters: string[],
    private readonly options: SubscribeOptions,
  ) {
    if (filters.length === 0) {
      throw new TypeError("subscribe to one filter at least");
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Value> {
    for await (const batch of this.batches()) {
      yield* batch;
    }
  }

  /** Lists of values, as they came together. Ends with its signal; throws `Denied` and `Refused`. */
  async *batches(): AsyncGenerator<Value[]> {
    const { signal } = this.options;
    for (let pause = PAUSE_MIN_MS; ; pause = Math.min(pause * 2, PAUSE_MAX_MS)) {
      try {
        for await (const batch of this.connected()) {
          pause = PAUSE_MIN_MS / 2;
          yield batch;
        }
      } catch (error) {
        if (signal?.aborted ?? false) {
          return;
        }
        if (!(error instanceof Unreachable) || error.detail === "the client was closed") {
          throw error;
        }
      }
      this.enter("away");
      // Clients that lost the same node do not come back at once.
      await sleep(pause * (0.5 + Math.random()), signal);
    }
  }

  private async *connected(): AsyncGenerator<Value[]> {
    const missing = new Set(this.known.keys());
    let beats = 0;
    const lines = this.connection.lines("/v1/live", { filter: this.filters }, SILENCE_MS, this.options.signal);
    for await (const [name, told] of eventsOf(lines)) {
      if (name === "beat") {
        beats += 1;
        if (beats === BEATS) {
          const gone = await this.gone(missing);
          missing.clear();
          if (gone.length > 0) {
            yield gone;
          }
        }
        this.enter("live");
      } else if (name === "update") {
        const batch = this.take(told as Update, missing);
        if (batch.length > 0) {
          yield batch;
        }
      }
    }
    throw new Unreachable("the node closed the connection");
  }

  private take(told: Update, missing: Set<string>): Value[] {
    const batch: Value[] = [];
    for (const value of (told.updates ?? []).map(valueOf)) {
      missing.delete(value.topic);
      if (value.version === null || this.known.get(value.topic) !== value.version) {
        batch.push(value);
      }
      this.known.set(value.topic, value.version);
    }
    const gone = (told.removed ?? []).filter((topic) => this.known.delete(topic));
    return [...batch, ...gone.map(removed)];
  }

  /** Those of the topics that were removed while the connection was away. */
  private async gone(missing: Set<string>): Promise<Value[]> {
    const gone: Value[] = [];
    for (const topic of [...missing].sort()) {
      try {
        await this.connection.get(`/v1/topics/${quoted(topic)}`);
      } catch (error) {
        if (!(error instanceof Refused && error.status === 404)) {
          throw error;
        }
        this.known.delete(topic);
        gone.push(removed(topic));
      }
    }
    return gone;
  }

  private enter(state: State): void {
    if (state !== this.state) {
      this.state = state;
      this.options.onState?.(state);
    }
  }
}

function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
