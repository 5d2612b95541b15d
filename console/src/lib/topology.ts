// What of a single-line diagram is energised: breadth-first from sources over closed switches, and once more over those that may
// be closed. What the two passes differ in is not known. The same as in crates/engine/diagram, by the same cases.

export type Position = 'closed' | 'open' | 'moving' | 'unknown';
export type State = 'energised' | 'dead' | 'earthed' | 'unknown';

/** Nodes by their indices. */
export interface Network {
  nodes: number;
  edges: readonly (readonly [number, number, Position])[];
  sources: readonly (readonly [number, Position])[];
  earths: readonly (readonly [number, Position])[];
}

const isClosed = (position: Position) => position === 'closed';
const mayBeClosed = (position: Position) => position !== 'open';

export function states({ nodes, edges, sources, earths }: Network): State[] {
  const neighbours: [number, Position][][] = Array.from({ length: nodes }, () => []);
  for (const [from, to, position] of edges) {
    neighbours[from]?.push([to, position]);
    neighbours[to]?.push([from, position]);
  }
  const reach = (feeds: Network['sources'], conducts: (position: Position) => boolean) => {
    const reached = new Uint8Array(nodes);
    const next = feeds.filter(([, position]) => conducts(position)).map(([node]) => node);
    for (let node = next.pop(); node !== undefined; node = next.pop()) {
      if (reached[node] !== 0) continue;
      reached[node] = 1;
      for (const [other, position] of neighbours[node]!) if (conducts(position)) next.push(other);
    }
    return reached;
  };
  const [live, earthed] = [reach(sources, isClosed), reach(earths, isClosed)];
  const [mayLive, mayEarthed] = [reach(sources, mayBeClosed), reach(earths, mayBeClosed)];
  return neighbours.map((_, i) => {
    if (mayLive[i] && mayEarthed[i]) return 'unknown';
    if (live[i]) return 'energised';
    if (earthed[i]) return 'earthed';
    return mayLive[i] || mayEarthed[i] ? 'unknown' : 'dead';
  });
}

/** The position that a value means. Only good values mean one, and those of which nothing is said. */
export function positionOf(v: unknown, quality: string): Position {
  if (quality !== 'good' && quality !== 'none') return 'unknown';
  if (v === true || v === 2) return 'closed';
  if (v === false || v === 1) return 'open';
  return v === 0 ? 'moving' : 'unknown';
}
