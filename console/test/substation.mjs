// A small substation that moves, for developing and testing the console without a node.

const TAU = 2 * Math.PI;
const wave = (t, period, phase = 0) => Math.sin((t / period) * TAU + phase);
/** Repeatable noise in -1..1 for a time and a seed. */
const noise = (t, seed) => {
  const x = Math.sin(Math.floor(t / 500) * 12.9898 + seed * 78.233) * 43758.5453;
  return 2 * (x - Math.floor(x)) - 1;
};
/** The sun, 0..1, over a day of 20 minutes so that a test sees it move. */
const sun = (t) => Math.max(0, wave(t, 1_200_000)) * (0.9 + 0.1 * noise(t, 7));

const point = (name, type, index, unit, value, more = {}) => ({
  name, type, index, unit, value, writable: false, kind: 'float', min: null, max: null, period: 1000, ...more,
});
const bool = { kind: 'bool', period: 0 };
const settable = { writable: true, period: 0 };

function feeder(n) {
  const load = (t, s) => (s.breaker === false ? 0 : 118 + 22 * n + 30 * wave(t, 1_200_000, n) + 3 * noise(t, n));
  return [
    point('breaker', 'binary-output', 0, '', null, { ...bool, ...settable, initial: true }),
    point('breaker/position', 'double-bit', 0, '', (t, s) => (s.breaker === false ? 1 : 2), { kind: 'int', period: 0 }),
    point('protection/trip', 'binary', 1, '', () => false, bool),
    point('protection/recloser', 'binary-output', 1, '', null, { ...bool, ...settable, initial: true }),
    ...['a', 'b', 'c'].map((phase, i) =>
      point(`current/${phase}`, 'analog', i, 'A', (t, s) => load(t, s) * (1 + 0.01 * noise(t, 10 * n + i)), { period: 700 + 90 * i })),
    point('power/active', 'analog', 3, 'MW', (t, s) => load(t, s) * 0.0193, { period: 1000 }),
    point('power/reactive', 'analog', 4, 'Mvar', (t, s) => load(t, s) * 0.0041, { period: 1000 }),
    point('energy', 'counter', 0, 'kWh', (t) => Math.floor(t / 900) % 1e7, { kind: 'int', period: 5000 }),
  ];
}

const transformer = () => [
  point('tap', 'analog-output', 0, '', null, { ...settable, kind: 'int', min: 1, max: 17, initial: 9 }),
  point('oil/temperature', 'analog', 0, '°C', (t) => 61 + 6 * wave(t, 900_000) + 0.2 * noise(t, 3), { period: 3000 }),
  point('voltage/high', 'analog', 1, 'kV', (t) => 110.2 + 0.4 * wave(t, 300_000) + 0.05 * noise(t, 4), { period: 1000 }),
  point('voltage/low', 'analog', 2, 'kV', (t, s) => 11.02 + 0.07 * ((s.tap ?? 9) - 9) + 0.02 * noise(t, 5), { period: 1000 }),
  point('frequency', 'analog', 3, 'Hz', (t) => 50 + 0.012 * wave(t, 47_000) + 0.004 * noise(t, 6), { period: 250 }),
  point('fan', 'binary', 0, '', (t) => wave(t, 90_000) > 0, bool),
];

const inverter = (n) => [
  point('power', 'analog', 0, 'kW', (t, s) => Math.min(480 * sun(t), 5 * (s['limit'] ?? 100)), { period: 1000 }),
  point('irradiance', 'analog', 1, 'W/m²', (t) => 1020 * sun(t), { period: 2000 }),
  point('temperature', 'analog', 2, '°C', (t) => 24 + 21 * sun(t - 60_000) + 0.1 * noise(t, 20 + n), { period: 4000 }),
  point('limit', 'analog-output', 0, '%', null, { ...settable, min: 0, max: 100, initial: 100 }),
  point('enabled', 'binary-output', 0, '', null, { ...bool, ...settable, initial: true }),
  point('alarm/ground', 'binary', 3, '', () => false, bool),
];

const meter = () => [
  point('voltage/a', 'analog', 0, 'V', (t) => 230.4 + 1.4 * wave(t, 120_000) + 0.3 * noise(t, 31), { period: 1000 }),
  point('voltage/b', 'analog', 1, 'V', (t) => 229.8 + 1.1 * wave(t, 130_000) + 0.3 * noise(t, 32), { period: 1000 }),
  point('voltage/c', 'analog', 2, 'V', (t) => 231.0 + 1.2 * wave(t, 110_000) + 0.3 * noise(t, 33), { period: 1000 }),
  point('energy/import', 'counter', 0, 'kWh', (t) => Math.floor(t / 1300) % 1e7, { kind: 'int', period: 5000 }),
];

/** The devices, with `more` meters for load. */
export function build(more = 0) {
  const plan = [
    ['north/feeder1', feeder(1)], ['north/feeder2', feeder(2)], ['north/feeder3', feeder(3)],
    ['north/transformer1', transformer()], ['north/pv1', inverter(1)], ['north/pv2', inverter(2)], ['north/meter1', meter()],
    ...Array.from({ length: more }, (_, i) => [`fleet/block${Math.floor(i / 50) + 1}/meter${i + 1}`, meter()]),
  ];
  return plan.map(([topic, points], i) => ({
    topic,
    address: `127.0.0.1:${20001 + i}`,
    state: 'online',
    since: Date.now() - 3_600_000 - i * 1000,
    polls: 3600 + i * 17,
    set: Object.fromEntries(points.filter((p) => 'initial' in p).map((p) => [p.name, p.initial])),
    points,
  }));
}

/** The value of a point at a time; what was set by a command stays. */
export function valueAt(device, p, t) {
  if (p.value === null) return device.set[p.name];
  const v = p.value(t, device.set);
  return typeof v === 'number' && p.kind === 'float' ? Math.round(v * 1e4) / 1e4 : v;
}
