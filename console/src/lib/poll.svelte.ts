// What a view asks the node for again and again while it is shown.

import { ApiError } from './api';

const POLL_MS = 2_000;

export class Poll<T> {
  value = $state.raw<T | null>(null);
  error = $state.raw('');
  private timer: ReturnType<typeof setTimeout> | undefined;
  private turn = 0;

  constructor(private readonly ask: () => Promise<T>) {}

  /** Asks now and every two seconds; the result stops it. */
  start(): () => void {
    void this.look(++this.turn);
    return () => {
      this.turn++;
      clearTimeout(this.timer);
    };
  }

  private async look(turn: number): Promise<void> {
    try {
      const value = document.hidden ? null : await this.ask();
      if (turn !== this.turn) return;
      if (value !== null) [this.value, this.error] = [value, ''];
    } catch (cause) {
      if (turn !== this.turn) return;
      this.error = cause instanceof ApiError ? cause.message : String(cause);
    }
    this.timer = setTimeout(() => void this.look(turn), POLL_MS);
  }
}
