class Counter {
  constructor(name) { this.name = name; this.hashMap = {}; }
  inc(labels, value = 1) {
    const hash = Object.keys(labels).sort().map((k) => `${k}:${labels[k]}`).join(",");
    if (!this.hashMap[hash]) {
      this.hashMap[hash] = { value: 0, labels, buckets: new Array(100).fill(0) }; // leak
    }
    this.hashMap[hash].value += value;
  }
}
const requests = new Counter("requests");
export const handler = async ({ n }, context) => {
  requests.inc({ route: "/", requestId: context.awsRequestId });
  return { statusCode: 200 };
};
