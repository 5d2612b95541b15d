// What draws with uPlot, as one file of the build.

export { Chart } from './chart';
export { TrendChart } from './trendchart';
