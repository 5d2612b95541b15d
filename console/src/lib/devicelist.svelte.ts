// The devices of the node: the worst of them, or all where their list is looked at.

import { api, ApiError, type Device, type TopicUpdate } from './api';
import { withStates } from './devices';

const PAUSE_MS = 2_000;
const PAUSE_MS_MAX = 6_000;
/** Devices that are read where no list of them is looked at. */
const WORST_MAX = 50;

export class DeviceList {
  /** Null where nothing was read yet. */
  all = $state.raw<Device[] | null>(null);
  error = $state.raw('');
  /** Devices of the node; more than are here where only the worst were read. */
  total = $state.raw(0);
  private at = $state.raw(-Infinity);
  private pause = PAUSE_MS;
  private turn = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly isWhole: () => boolean) {}

  /** How much later than it should be the list was read last, in ms. */
  ageMs(): number {
    return performance.now() - this.at - this.pause;
  }

  /** Takes the states that topics of the node tell. */
  take(updates: readonly TopicUpdate[]): void {
    if (this.all !== null) this.all = withStates(this.all, updates);
  }

  /** Asks for all devices at once; until the answer the worst are shown. */
  readAll(): void {
    if (this.all !== null && this.total <= this.all.length) return;
    clearTimeout(this.timer);
    void this.poll();
  }

  async poll(): Promise<void> {
    const [turn, began] = [++this.turn, performance.now()];
    try {
      if (!document.hidden) await this.read();
      this.error = '';
    } catch (cause) {
      this.error = cause instanceof ApiError ? cause.message : String(cause);
    }
    // A long list is asked for less often.
    this.pause = Math.min(PAUSE_MS_MAX, Math.max(PAUSE_MS, 20 * (performance.now() - began)));
    if (turn === this.turn) this.timer = setTimeout(() => void this.poll(), this.pause);
  }

  private async read(): Promise<void> {
    const whole = this.isWhole();
    const page = await api.devices(whole ? undefined : WORST_MAX);
    this.at = performance.now();
    // An answer that says less than what is looked at came late.
    if (!whole && this.isWhole()) return;
    [this.all, this.total] = [page.devices, page.total ?? page.devices.length];
  }
}
