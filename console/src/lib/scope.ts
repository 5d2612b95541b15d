// Which topics the live stream asks for: all of a small node, only what is looked at of a large one.

/** Up to this many topics the console follows the whole node. */
export const FOLLOW_ALL_TOPICS_MAX = 20_000;
/** The most filters of one stream: the innermost open branches beyond it stay as they were read. */
const FILTERS_MAX = 64;

/**
 * The filters for the live stream. `open` holds the open branches, `selected` the topics
 * in panels and the filter typed. The top level is always on screen.
 */
export function liveFilters(topics: number, open: Iterable<string>, selected: readonly string[]): string[] {
  if (topics <= FOLLOW_ALL_TOPICS_MAX) return ['#', '$SYS/#'];
  const branches = [...open].map((path) => `${path}/+`);
  return ['+', ...selected, ...branches].slice(0, FILTERS_MAX);
}

/** The address of the live stream for some filters. */
export function liveUrl(filters: readonly string[]): string {
  return `/v1/live?${filters.map((filter) => `filter=${encodeURIComponent(filter)}`).join('&')}`;
}
