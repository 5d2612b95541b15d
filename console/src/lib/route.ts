// Where the user is, kept in the address so that every view can be linked, reloaded and left with Back.

export type View = 'topics' | 'devices' | 'reservations' | 'sessions' | 'sites' | 'status' | 'trends' | 'events' | 'alarms' | 'diagrams' | 'boards' | 'users';

export interface Route {
  view: View;
  /** The topic in the point panel. */
  point: string | null;
  /** The device in the device panel. */
  device: string | null;
  /** The reservation or the override in its panel. */
  task: string | null;
  pattern: string | null;
  /** The diagram that is shown. */
  name?: string | undefined;
  /** The point that the keyboard is on in the panel of a device. */
  at?: string | undefined;
  /** What a view of its own reads from the address. */
  query: string;
}

/** Views that fill the screen, and read their part of the address themselves. */
export const WHOLE_VIEWS: readonly View[] = ['trends', 'events', 'alarms', 'boards', 'users'];

/** The views in their order in the top line. */
export const VIEW_NAMES: readonly [View, string][] = [
  ['topics', t('Topics')], ['devices', t('Devices')], ['alarms', t('Alarms')], ['diagrams', t('Diagrams')], ['boards', t('Boards')], ['trends', t('Trends')], ['events', t('Events')], ['reservations', t('Reserved')], ['sessions', t('Sessions')], ['sites', t('Sites')], ['status', t('Status')], ['users', t('Users')],
];

/** Reads `#/devices?device=…&point=…`; whatever is unknown is the topics view. */
export function parseRoute(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  const params = new URLSearchParams(query);
  const view = VIEW_NAMES.find(([known]) => known === path)?.[0] ?? 'topics';
  return { view, point: params.get('point'), device: params.get('device'), task: params.get('task'), pattern: params.get('pattern'), name: params.get('name') ?? undefined, at: params.get('at') ?? undefined, query: WHOLE_VIEWS.includes(view) ? query : '' };
}

/** The address of a route; slashes stay readable. */
export function routeHash(route: Route): string {
  if (WHOLE_VIEWS.includes(route.view)) return `#/${route.view}${route.query && `?${route.query}`}`;
  const parts: string[] = [];
  for (const key of ['name', 'device', 'at', 'task', 'pattern', 'point'] as const) {
    const value = route[key];
    if (value) parts.push(`${key}=${encodeURIComponent(value).replaceAll('%2F', '/')}`);
  }
  return `#/${route.view}${parts.length > 0 ? `?${parts.join('&')}` : ''}`;
}

/** The address of a device, with the keyboard on one of its points. */
export const deviceHash = (device: string, at: string) => routeHash({ ...parseRoute(''), view: 'devices', device, at });
