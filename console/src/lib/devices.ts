// How devices are ordered, summed up and named.

import type { Device, DeviceState, TopicUpdate } from './api';

/** What a state means, for the tooltip and the panel. */
export const STATE_HELP: Record<DeviceState, string> = {
  online: t('answers as it should'),
  connecting: t('the connection is being made'),
  slow: t('answers, but later than its polls are due'),
  away: t('cannot be reached; its points are bad'),
  garbage: t('sends bytes that are not its protocol'),
  restarting: t('said that it restarted; its points are being read again'),
};

export type Severity = 'good' | 'warn' | 'bad';

export function severity(state: DeviceState): Severity {
  if (state === 'online') return 'good';
  return state === 'away' || state === 'garbage' ? 'bad' : 'warn';
}

const RANK: Record<Severity, number> = { bad: 0, warn: 1, good: 2 };
const natural = new Intl.Collator('en', { numeric: true });

/** The devices that a text selects, worst first, of one state those with the most points, then by name. */
export function arrange(devices: readonly Device[], text: string): Device[] {
  const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  return devices
    .filter((device) => {
      const low = `${device.topic} ${device.address} ${device.state} ${device.protocol}`.toLowerCase();
      return words.every((word) => low.includes(word));
    })
    .sort((a, b) => RANK[severity(a.state)] - RANK[severity(b.state)] || pointsOfBad(b) - pointsOfBad(a) || natural.compare(a.topic, b.topic));
}

/** Devices that are online stay in the order of their names. */
function pointsOfBad(device: Device): number {
  return severity(device.state) === 'good' ? 0 : pointCount(device);
}

export interface Sums {
  polls: number | null;
  rtt_ms: number | null;
  errors: number | null;
}

/** The figures of the list. Polls that were not answered are among those that failed. */
export function sums(stats: Device['stats']): Sums {
  const count = (name: string) => (typeof stats?.[name] === 'number' ? stats[name] : null);
  const [failures, garbage] = [count('poll_failures'), count('garbage')];
  const known = failures !== null || garbage !== null;
  return { polls: count('polls'), rtt_ms: count('rtt_ms'), errors: known ? (failures ?? 0) + (garbage ?? 0) : null };
}

/** Why a device is in its state, in its own words where it has any. */
export function whyText(device: Device): string {
  const why = device.stats?.why;
  return typeof why === 'string' && why !== '' ? why : (STATE_HELP[device.state] ?? '');
}

export function pointCount(device: Device): number {
  return typeof device.points === 'number' ? device.points : device.points.length;
}

/** The devices with the states that topics of the node tell: they change at once, their figures with the next look at the list. */
export function withStates(devices: Device[], updates: readonly TopicUpdate[]): Device[] {
  const states = new Map<string, DeviceState>();
  for (const { topic, value } of updates) {
    const device = /^\$SYS\/devices\/(.+)\/state$/.exec(topic)?.[1];
    const state = typeof value === 'object' && value !== null && 'v' in value ? value.v : value;
    if (device !== undefined && typeof state === 'string') states.set(device, state as DeviceState);
  }
  if (states.size === 0) return devices;
  return devices.map((device) => ({ ...device, state: states.get(device.topic) ?? device.state }));
}
