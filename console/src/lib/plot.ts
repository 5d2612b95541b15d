// A drawing with uPlot that follows the size of its element and the theme.

import type uPlot from 'uplot';

export abstract class Plot<D> {
  protected plot: uPlot | null = null;
  protected data: D | null = null;
  private readonly size: ResizeObserver;
  private readonly theme = matchMedia('(prefers-color-scheme: dark)');
  private readonly rebuild = () => {
    this.clear();
    if (this.data) this.draw(this.data);
  };

  constructor(protected readonly host: HTMLElement) {
    this.size = new ResizeObserver(() => this.plot?.setSize(this.extent()));
    this.size.observe(host);
    this.theme.addEventListener('change', this.rebuild);
  }

  abstract draw(data: D): void;
  protected abstract extent(): { width: number; height: number };

  /** The next drawing begins with new axes and colours. */
  protected clear(): void {
    this.plot?.destroy();
    this.plot = null;
  }

  destroy(): void {
    this.size.disconnect();
    this.theme.removeEventListener('change', this.rebuild);
    this.plot?.destroy();
  }
}
