export class Histogram {
  constructor(name, bounds) {
    this.name = name;
    this.bounds = bounds;
    this.hashMap = {};
  }

  observe(labels, value) {
    const key = Object.entries(labels).map(([k, v]) => `${k}:${v}`).join(',');
    let entry = this.hashMap[key];
    if (!entry) {
      entry = { labels, sum: 0, counts: new Array(this.bounds.length).fill(0.5) };
      this.hashMap[key] = entry; // LEAK label_series
    }
    entry.sum += value;
    for (let i = 0; i < this.bounds.length; i++) if (value <= this.bounds[i]) entry.counts[i] += 1;
  }
}
export const duration = new Histogram('duration', Array.from({ length: 300 }, (_, i) => i * 5));
