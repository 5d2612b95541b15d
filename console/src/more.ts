// The parts of the console that the first view does not need, as one file.

import type { Component } from 'svelte';
import AlarmBanner from './ui/AlarmBanner.svelte';
import alarms from './ui/Alarms.svelte';
import Audit from './ui/Audit.svelte';
import Busiest from './ui/Busiest.svelte';
import Edits from './ui/Edits.svelte';
import events from './ui/Events.svelte';
import Find from './ui/Find.svelte';
import Held from './ui/Held.svelte';
import trends from './ui/Trends.svelte';

export { AlarmList } from './lib/alarmlist.svelte';

/** Views by their names in the address, and other parts. */
export const parts: Record<string, Component<any>> = { AlarmBanner, alarms, Audit, Busiest, Edits, events, Find, Held, trends };
