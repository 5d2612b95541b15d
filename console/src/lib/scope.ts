// Which topics and groups the live stream asks for: all of a small node, only what is looked at of a large one.

/** Up to this many topics the console follows the whole node. */
export const FOLLOW_ALL_TOPICS_MAX = 20_000;
/** The most filters of one stream; what is on screen is far below. */
const FILTERS_MAX = 250;
/** The most branches of which a stream asks for the groups below: the node's own limit. */
const GROUPS_MAX = 256;

/** What of the node is on screen. */
export interface Sight {
  /** Topics and filters in panels, and a filter typed. */
  selected: readonly string[];
  /** Topics of the rows in view. */
  leaves: readonly string[];
  /** Branches that hold a row in view; `''` is above the first level. */
  parents: readonly string[];
  /** Open branches in view of which nothing is known yet. */
  blank: readonly string[];
}

export interface Scope {
  filters: string[];
  groups: string[];
}

/** Whether a node is followed whole. */
export function followsAll(topics: number): boolean {
  return topics <= FOLLOW_ALL_TOPICS_MAX;
}

/** What to ask for; `system` says whether the topics of the node itself may be read. */
export function scope(topics: number, system: boolean, sight: Sight): Scope {
  if (followsAll(topics)) return { filters: system ? ['#', '$SYS/#'] : ['#'], groups: ['#'] };
  const filters = ['+', ...sight.selected, ...sight.leaves, ...sight.blank.map((path) => `${path}/+`)];
  const readable = filters.filter((filter) => system || !filter.startsWith('$'));
  const groups = ['', ...sight.parents, ...sight.blank].filter((path) => !path.startsWith('$'));
  return { filters: [...new Set(readable)].slice(0, FILTERS_MAX), groups: [...new Set(groups)].slice(0, GROUPS_MAX) };
}

/** The address of the live stream. */
export function liveUrl({ filters, groups }: Scope): string {
  const part = (name: string) => (text: string) => `${name}=${encodeURIComponent(text)}`;
  return `/v1/live?${[...filters.map(part('filter')), ...groups.map(part('group'))].join('&')}`;
}
