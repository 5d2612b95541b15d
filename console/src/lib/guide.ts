// The first steps of a node: how a node without data gets some, and which steps to a node in service are done, as far as it says.

import type { Counts, Me, Status } from './api';
import { countText } from './format';
import type { Snippet } from './snippets';
import { words } from './words';

/** What the node says; null where it has not said it, or not lately. */
export interface Known {
  status: Pick<Status, 'devices' | 'history' | 'name' | 'centre'> | null;
  /** Values by quality, complete. */
  counts: Counts | null;
  me: Pick<Me, 'user'> | null;
  /** Users of the file who may log in, as far as they were asked for. */
  users: number | null;
  /** Whether it has alarm rules. */
  alarms: boolean | null;
  /** The address of the page. */
  page: { protocol: string; host: string };
}

export interface Step {
  /** Its name in attributes. */
  name: string;
  label: string;
  state: 'done' | 'open' | 'unknown';
  /** What the node says. */
  said: string;
  /** The page of the documentation that tells how. */
  page: string;
  command?: string | undefined;
}

/** No devices, and no topics but those of the node itself. */
export const isEmpty = ({ status, counts }: Known) => status?.devices.total === 0 && counts?.total === 0;

const [HTTP, MQTT] = [8080, 1883];

/** The address of the node as the command line takes it; nothing where it is the default. */
export function httpOption({ protocol, host }: Known['page']): string {
  const address = protocol === 'https:' ? `https://${host}` : /:\d+$/.test(host) ? host : `${host}:80`;
  return address === `127.0.0.1:${HTTP}` || address === `localhost:${HTTP}` ? '' : ` --http ${address}`;
}

/** How the demonstration runs beside this node: not at its ports, nor in its folder. */
export function demoCommand({ http, mqtt }: Pick<Status, 'http' | 'mqtt'>): string {
  const taken = [http, mqtt].map((address) => Number(address.split(':').pop()));
  const option = (name: string, port: number) => (taken.includes(port) ? ` --${name} 127.0.0.1:${port + 1}` : '');
  return `tieline run --demo --data demo-data${option('http', HTTP)}${option('mqtt', MQTT)}`;
}

/** The ways to the first data: a title, the page that tells more, and commands to copy. */
export const ways = (status: Pick<Status, 'http' | 'mqtt'>, at: Known['page']): { title: string; page: string; note: string; list: Snippet[] }[] => [
  { title: t('Try the demonstration'), page: 'getting-started', note: t('A substation with two feeders, beside this node.'), list: [{ label: t('run'), text: demoCommand(status) }] },
  {
    title: t('Add a device'), page: 'discover', note: t('Nothing is written to devices. Put what is found into the configuration of this node, with your network in place of 10.1.2.0/24.'),
    list: [
      ...['DNP3', 'Modbus', 'SunSpec', 'BACnet'].map((label) => ({ label, text: `tieline discover ${label.toLowerCase()} 10.1.2.0/24 --out proposed` })),
      { label: t('check'), text: 'tieline config check proposed/devices.toml' },
      { label: t('then'), text: `tieline reload${httpOption(at)}` },
    ],
  },
  {
    title: t('Import'), page: 'volttron', note: t('A device profile of DNP3, or the configuration of a VOLTTRON platform; a point list of your own is a CSV file.'),
    list: [
      { label: t('profile'), text: 'tieline dnp3 profile read device.xml --name relay1' },
      { label: 'CSV', text: 'tieline dnp3 profile read device.xml --as points > relay1.csv' },
      { label: 'VOLTTRON', text: 'tieline import volttron ~/.volttron --out plant' },
    ],
  },
];

const judged = (known: boolean, done: boolean): Step['state'] => (!known ? 'unknown' : done ? 'done' : 'open');

/** A centre needs no devices of its own. */
const siteUp = ({ sites, away }: NonNullable<Status['centre']>): Step => ({ name: 'A site is up', label: t('A site is up'), state: judged(true, sites > away), said: t('{some} of {all}', { some: countText(sites - away), all: countText(sites) }), page: 'sites' });

/** The steps to a node in service. What the node does not say is not known, never done. */
export function steps(known: Known): Step[] {
  const { status, counts, me, users, alarms, page } = known;
  const [total, online] = [status?.devices.total ?? 0, status?.devices.online ?? 0];
  const doubtful = (counts?.uncertain ?? 0) + (counts?.bad ?? 0);
  const history = status?.history.state;
  const http = httpOption(page);
  return [
    total === 0 && status?.centre ? siteUp(status.centre) : { name: 'A device is online', label: t('A device is online'), state: judged(status !== null, online > 0), said: total === 0 ? t('no device is configured') : t('{some} of {all}', { some: countText(online), all: countText(total) }), page: 'devices' },
    { name: 'All values are good', label: t('All values are good'), state: judged(counts !== null, counts !== null && counts.total > 0 && doubtful === 0), said: counts?.total === 0 ? t('no value yet') : t('{n} uncertain or bad', { n: countText(doubtful) }), page: 'troubleshooting' },
    { name: 'History is recording', label: t('History is recording'), state: judged(history !== undefined, history === 'ok'), said: history === undefined || history === 'ok' ? '' : words(history), page: 'history' },
    { name: 'Alarm rules', label: t('Alarm rules'), state: judged(alarms !== null, alarms === true), said: alarms ? t('there are some') : t('none'), page: 'alarms', command: alarms === false ? 'tieline rules check alarms.csv' : undefined },
    // Others than administrators are not told how many users there are; without access control there is none.
    {
      name: 'A second user', label: t('A second user'), state: me?.user === null ? 'open' : judged(users !== null, users !== null && users > 1), page: 'access',
      said: me?.user === null ? t('the node asks nobody who they are') : users === 1 ? t('there is one') : '',
      command: 'tieline access user add anna --role OPERATOR',
    },
    { name: 'TLS', label: 'TLS', state: judged(true, page.protocol === 'https:'), said: page.protocol === 'https:' ? t('this page came over it') : t('this page came without it'), page: 'security' },
    { name: 'A backup of the last 7 days', label: t('A backup of the last 7 days'), state: 'unknown', said: '', page: 'backup', command: `tieline backup -o ${fileName(status?.name ?? 'node')}.tar${http}` },
    { name: 'Metrics are scraped', label: t('Metrics are scraped'), state: 'unknown', said: '', page: 'metrics', command: `curl ${page.protocol}//${page.host}/metrics` },
  ];
}

const fileName = (name: string) => name.replaceAll(/[^\w.-]/g, '_').replace(/^[.-]/, '_');
