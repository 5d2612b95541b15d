// Commands that read or operate a topic from a shell.

import { topicPath, url } from './api';
import { shellQuote } from './format';

export interface Snippet {
  label: string;
  text: string;
}

interface Subject {
  topic: string;
  origin: string;
  host: string;
  /** Where MQTT listens, as address:port; undefined until the node has said so. */
  mqtt: string | undefined;
  /** When the history asked for begins, RFC 3339; null where there is none. */
  from: string | null;
  /** The present value of a point that can be operated. */
  writable?: unknown;
}

/** The port that IANA gave MQTT. */
const MQTT_PORT = '1883';

export function snippets({ topic, origin, host, mqtt, from, writable }: Subject): Snippet[] {
  const quoted = shellQuote(topic);
  const bare = host.replace(/^\[|\]$/g, '');
  const port = mqtt?.match(/\d+$/)?.[0] ?? MQTT_PORT;
  const list = [
    { label: 'MQTT', text: `mosquitto_sub -h ${bare} -p ${port} -v -t ${quoted}` },
    { label: 'HTTP', text: `curl -s ${shellQuote(`${origin}/v1/topics/${topicPath(topic)}`)}` },
    { label: 'tieline', text: `tieline sub ${quoted}` },
  ];
  if (from !== null) {
    list.push({ label: t('history'), text: `tieline history query ${quoted} --from ${from} --every 1m --agg mean --format table` });
  }
  if (writable !== undefined) {
    list.push({ label: t('command'), text: `tieline command ${quoted} ${JSON.stringify(writable ?? 0)}` });
  }
  return list;
}

/** A question to the history, as commands for other tools. */
export interface Question {
  topics: readonly string[];
  /** As `6h`, the hours before now, or RFC 3339. */
  from: string;
  /** Null where it is now. */
  to: string | null;
  /** The width of buckets; null for values as recorded. */
  every: string | null;
  origin: string;
}

export function questionUrl({ topics, from, to, every }: Question): string {
  const asked = { from, to, every, agg: every && 'mean', format: 'csv' };
  return url('/v1/history', { topic: topics, ...asked });
}

export function questionSnippets(question: Question): Snippet[] {
  const { topics, from, to, every, origin } = question;
  const words = ['tieline history query', ...topics.map(shellQuote), '--from', from, ...(to ? ['--to', to] : []), ...(every ? ['--every', every, '--agg mean'] : []), '--format csv'];
  const more = [`start=${JSON.stringify(from)}`, ...(to ? [`end=${JSON.stringify(to)}`] : []), ...(every ? [`every=${JSON.stringify(every)}`, 'agg="mean"'] : [])];
  return [
    { label: 'curl', text: `curl -s ${shellQuote(`${origin}${questionUrl(question)}`)}` },
    { label: 'tieline', text: words.join(' ') },
    { label: 'Python', text: `from tieline.history import History\nrows = History(${JSON.stringify(origin)}).pandas(${JSON.stringify(topics)}, ${more.join(', ')})` },
  ];
}
