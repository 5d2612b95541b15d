// Where the user is, kept in the address so that every view can be linked, reloaded and left with Back.

export type View = 'topics' | 'devices' | 'reservations' | 'sessions' | 'sites' | 'status';

export interface Route {
  view: View;
  /** The topic in the point panel. */
  point: string | null;
  /** The device in the device panel. */
  device: string | null;
  /** The reservation or the override in its panel. */
  task: string | null;
  pattern: string | null;
}

const VIEWS: readonly View[] = ['topics', 'devices', 'reservations', 'sessions', 'sites', 'status'];

/** Reads `#/devices?device=…&point=…`; whatever is unknown is the topics view. */
export function parseRoute(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  const params = new URLSearchParams(query);
  const view = VIEWS.find((known) => known === path) ?? 'topics';
  return { view, point: params.get('point'), device: params.get('device'), task: params.get('task'), pattern: params.get('pattern') };
}

/** The address of a route; slashes stay readable. */
export function routeHash(route: Route): string {
  const parts: string[] = [];
  for (const key of ['device', 'task', 'pattern', 'point'] as const) {
    const value = route[key];
    if (value !== null) parts.push(`${key}=${encodeURIComponent(value).replaceAll('%2F', '/')}`);
  }
  return `#/${route.view}${parts.length > 0 ? `?${parts.join('&')}` : ''}`;
}
