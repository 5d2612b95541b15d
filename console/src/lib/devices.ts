// How devices are ordered, summed up and named.

import type { Device, DeviceState } from './api';

export const STATE_WORDS: Record<DeviceState, string> = {
  online: 'online',
  connecting: 'connecting',
  slow: 'slow',
  away: 'away',
  garbage: 'garbage',
  restarting: 'restarting',
};

/** What a state means, for the tooltip and the panel. */
export const STATE_HELP: Record<DeviceState, string> = {
  online: 'answers as it should',
  connecting: 'the connection is being made',
  slow: 'answers, but later than its polls are due',
  away: 'cannot be reached; its points are bad',
  garbage: 'sends octets that are not its protocol',
  restarting: 'said that it restarted; its points are being read again',
};

export type Severity = 'good' | 'warn' | 'bad';

export function severity(state: DeviceState): Severity {
  if (state === 'online') return 'good';
  return state === 'away' || state === 'garbage' ? 'bad' : 'warn';
}

const RANK: Record<Severity, number> = { bad: 0, warn: 1, good: 2 };
const natural = new Intl.Collator('en', { numeric: true });

/** The devices that a text selects, worst first, then by name. */
export function arrange(devices: readonly Device[], text: string): Device[] {
  const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  return devices
    .filter((device) => {
      const low = `${device.topic} ${device.address} ${device.state} ${device.protocol}`.toLowerCase();
      return words.every((word) => low.includes(word));
    })
    .sort((a, b) => RANK[severity(a.state)] - RANK[severity(b.state)] || natural.compare(a.topic, b.topic));
}

export interface Sums {
  polls: number | null;
  rtt_ms: number | null;
  errors: number | null;
}

const ERRORS = /error|timeout|fail|refused|garbage|bad_|lost|retr/;

/** The figures of the list, found by the words in the names of a device's counters. */
export function sums(stats: Device['stats']): Sums {
  const entries = Object.entries(stats ?? {}).filter((entry): entry is [string, number] => typeof entry[1] === 'number');
  const first = (pattern: RegExp) => entries.find(([key]) => pattern.test(key))?.[1] ?? null;
  const errors = entries.filter(([key]) => ERRORS.test(key));
  return {
    polls: first(/^polls(_ok|_done|_total)?$/) ?? first(/poll(?!.*(error|timeout|fail))/),
    rtt_ms: first(/rtt.*_ms$|^rtt/) ?? first(/round_trip/),
    errors: errors.length > 0 ? errors.reduce((sum, [, n]) => sum + n, 0) : null,
  };
}

export function pointCount(device: Device): number {
  return typeof device.points === 'number' ? device.points : device.points.length;
}
